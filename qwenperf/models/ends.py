"""Tokens that end a text, as a checkpoint names them: where a request for text does not say, it stops at these.

They change no logits, so that a file whose word for them cannot be used is loaded all the same, with a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qwenperf.models.hf_config import is_whole
from qwenperf.models.json_file import read_json
from qwenperf.schema.records import Finding, Severity

GENERATION_CONFIG = "generation_config.json"
_KEY = "eos_token_id"
_SHOWN = 60
_GGUF_KEYS = ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id")


@dataclass(frozen=True, kw_only=True)
class Ends:
    """The tokens, smallest first, and what is to be said of them."""

    tokens: tuple[int, ...] = ()
    findings: tuple[Finding, ...] = ()


def folder_ends(folder: Path, config: Mapping[str, Any], vocab_size: int) -> Ends:
    """Return the end tokens of a folder: those of ``generation_config.json``, else those of its ``config.json``.

    Raises:
      CheckpointError: ``generation_config.json`` is there and no JSON object.
    """
    path = folder / GENERATION_CONFIG
    given = read_json(path).get(_KEY) if path.is_file() else None
    if given is not None:
        return _ends({f"{path}: {_KEY}": given}, vocab_size)
    return _ends({f"{folder}: {_KEY}": config.get(_KEY)}, vocab_size)


def metadata_ends(get: Callable[[str], Any], source: str, vocab_size: int) -> Ends:
    """Return the end tokens of a GGUF file: of a text and, where it names one, of a turn of a chat.

    Args:
      get: returns the metadata value of a key, or None.
      source: the file, for messages.
      vocab_size: tokens that the model has.
    """
    return _ends({f"{source}: {key}": get(key) for key in _GGUF_KEYS}, vocab_size)


def _ends(given: Mapping[str, Any], vocab_size: int) -> Ends:
    tokens: set[int] = set()
    findings: list[Finding] = []
    for where, value in given.items():
        found = value if isinstance(value, list) else [] if value is None else [value]
        if all(is_whole(token) and 0 <= token < vocab_size for token in found):
            tokens.update(found)
        else:
            findings.append(_unusable(where, value, vocab_size))
    return Ends(tokens=tuple(sorted(tokens)), findings=tuple(findings))


def _unusable(where: str, value: Any, vocab_size: int) -> Finding:
    seen = repr(value)
    seen = seen if len(seen) <= _SHOWN else f"{seen[:_SHOWN]}..."
    return Finding(
        code="end-tokens-unusable",
        severity=Severity.NOTE,
        message=f"{where} is {seen}, which is no token of a vocabulary of {vocab_size}, nor a list of such: text does "
        "not end there.",
        advice="Give stop= with each request for text.",
    )
