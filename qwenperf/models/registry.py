"""From a name to a model: a preset, a local folder or GGUF file, or a hub id.

Which weights were loaded is never left open: ``Model.source`` says it, and what was not as asked for
becomes a finding.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qwenperf.errors import CheckpointError, EnvironmentUnfitError, UnknownNameError
from qwenperf.models.checkpoint import download_snapshot, load_folder, read_config
from qwenperf.models.config import ModelConfig, unread_keys
from qwenperf.models.ends import folder_ends, metadata_ends
from qwenperf.models.parameters import Params, array_dtype
from qwenperf.models.seeded import seeded_params
from qwenperf.models.tokenizer import Tokenizer, folder_tokenizer, metadata_tokenizer, unknown_kind
from qwenperf.models.weights import fetch_weights, unavailable_finding
from qwenperf.schema.records import Finding, Severity
from qwenperf.workloads.models import PRESETS, SMOLLM2

_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w.-]+(@[\w./-]+)?")


@dataclass(frozen=True, kw_only=True)
class Model:
    """A configuration with its weights on the device.

    ``params`` is the tree of ``models.parameters``; ``source`` is ``seeded``, ``gguf:<path>``, ``path:<folder>`` or
    ``hub:<id>``; ``findings`` say what differs from what was asked for. ``end_tokens`` end a text by the checkpoint's
    own word; seeded weights have none.
    """

    name: str
    config: ModelConfig
    params: Params
    dtype: str
    tokenizer: Tokenizer | None = None
    source: str = "seeded"
    findings: tuple[Finding, ...] = ()
    end_tokens: tuple[int, ...] = ()


def load_model(name: str, dtype: str = "f32", *, seed: int = 0) -> Model:
    """Return the model called ``name`` with its weights in ``dtype``.

    Args:
      name: a preset, a folder with ``config.json`` and safetensors, a GGUF file, or a hub id (``owner/name``).
      dtype: f32 or bf16.
      seed: of presets without real weights.

    Raises:
      UnknownNameError: no such preset or dtype; offers the nearest.
      CheckpointError: files that are missing or damaged, or where the system lets nobody look.
      ConfigError: a configuration that asks for what the code does not do.
      EnvironmentUnfitError: a hub id, and no hub.
    """
    array_dtype(dtype)
    if name == SMOLLM2:
        return _real_or_seeded(dtype, seed)
    if name in PRESETS:
        return _seeded(name, dtype, seed)
    path = _as_path(name)
    if path.is_file():
        return _from_gguf(name, path, dtype)
    if path.is_dir():
        return _from_folder(name, path, dtype, f"path:{path}")
    if name.startswith((".", "/", "~")) or path.suffix == ".gguf":
        raise CheckpointError(f"{name}: no such folder or file.")
    if _HUB_ID.fullmatch(name):
        return _from_folder(name, download_snapshot(name), dtype, f"hub:{name}")
    raise UnknownNameError("model", name, PRESETS)


def _as_path(name: str) -> Path:
    """Return ``name`` as a path, whether or not there is anything.

    Raises:
      CheckpointError: the system does not say: no such user, a folder that may not be entered, too long a name.
    """
    try:
        path = Path(name).expanduser()
        path.exists()
    except (OSError, RuntimeError) as error:
        raise CheckpointError(f"{name:.80}: it cannot be told what is there ({error}).") from error
    return path


def _seeded(name: str, dtype: str, seed: int, findings: tuple[Finding, ...] = ()) -> Model:
    config = ModelConfig.from_hf(PRESETS[name], source=f"preset {name}")
    params = seeded_params(config, dtype, seed)
    return Model(name=name, config=config, params=params, dtype=dtype, findings=findings)


def _real_or_seeded(dtype: str, seed: int) -> Model:
    try:
        path = fetch_weights()
    except EnvironmentUnfitError as error:
        return _seeded(SMOLLM2, dtype, seed, (unavailable_finding(error),))
    return _from_gguf(SMOLLM2, path, dtype)


def _from_gguf(name: str, path: Path, dtype: str) -> Model:
    # Reading GGUF takes a package that is slow to import, which most models do without.
    from qwenperf.models.gguf import load_gguf
    from qwenperf.models.gguf_config import gguf_config
    from qwenperf.models.gguf_file import GgufFile

    file = GgufFile(path)
    config = gguf_config(file)
    tokenizer = metadata_tokenizer(file.get, str(path))
    findings = [] if tokenizer else [_no_tokenizer(f"{path} has {unknown_kind(file.get)}, which is not known here")]
    ends = metadata_ends(file.get, str(path), config.vocab_size)
    params = load_gguf(file, config, dtype)
    return Model(
        name=name,
        config=config,
        params=params,
        dtype=dtype,
        tokenizer=tokenizer,
        source=f"gguf:{path}",
        findings=(*findings, *ends.findings),
        end_tokens=ends.tokens,
    )


def _from_folder(name: str, folder: Path, dtype: str, source: str) -> Model:
    config, data = read_config(folder)
    tokenizer = folder_tokenizer(folder)
    findings = [] if tokenizer else [_no_tokenizer(f"{folder} has no tokenizer.json")]
    ends = folder_ends(folder, data, config.vocab_size)
    return Model(
        name=name,
        config=config,
        params=load_folder(folder, config, dtype),
        dtype=dtype,
        tokenizer=tokenizer,
        source=source,
        findings=(*findings, *_unread(data), *ends.findings),
        end_tokens=ends.tokens,
    )


def _unread(data: Mapping[str, Any]) -> tuple[Finding, ...]:
    keys = unread_keys(data)
    if not keys:
        return ()
    return (
        Finding(
            code="config-keys-unread",
            severity=Severity.WARNING,
            message=f"config.json has keys that are not known here and were not used: {', '.join(keys)}.",
            advice="Check that they do not change the model's numbers.",
            data={key: data[key] for key in keys},
        ),
    )


def _no_tokenizer(why: str) -> Finding:
    return Finding(
        code="tokenizer-missing",
        severity=Severity.NOTE,
        message=f"{why}: prompts are made of token ids, and no text is shown.",
    )
