"""Text to tokens and back: from a folder's ``tokenizer.json``, or rebuilt from a GGUF file's metadata.

GGUF carries tokens and merges of a byte-level BPE and the *name* of how text is cut before it; the cuts
themselves are written here, for the names that are known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors

from qwenperf.errors import CheckpointError
from qwenperf.models.hf_config import is_whole

TOKENIZER = "tokenizer.json"
_CONTROL, _USER_DEFINED = 3, 4
# Contractions, words, numbers, punctuation, line ends, blanks: that of tiktoken's cl100k_base but for the numbers.
_CUT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{number}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|"
    r"\s+(?!\S)|\s+"
)


@dataclass(frozen=True, kw_only=True)
class Tokenizer:
    """Encodes and decodes; ``vocab_size`` counts all ids, special ones too."""

    backend: tokenizers.Tokenizer = field(repr=False)

    @property
    def vocab_size(self) -> int:
        """How many ids there are."""
        return int(self.backend.get_vocab_size(with_added_tokens=True))

    def encode(self, text: str) -> list[int]:
        """Return the ids of ``text``; special tokens written out in it become their ids."""
        return list(self.backend.encode(text).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ``ids`` without special tokens; bytes that are no UTF-8 become U+FFFD."""
        return str(self.backend.decode([int(token) for token in ids], skip_special_tokens=True))


def folder_tokenizer(folder: Path) -> Tokenizer | None:
    """Return the tokenizer of a checkpoint folder, or None where it has no ``tokenizer.json``.

    Raises:
      CheckpointError: the file cannot be read.
    """
    path = folder / TOKENIZER
    if not path.is_file():
        return None
    try:
        backend = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise CheckpointError(f"{path}: cannot be read as a tokenizer ({error}).") from error
    # A file may have been saved with either on, and would then cut a text, or fill it up, without a word.
    backend.no_truncation()
    backend.no_padding()
    return Tokenizer(backend=backend)


def metadata_tokenizer(get: Callable[[str], Any], source: str) -> Tokenizer | None:
    """Rebuild the tokenizer of a GGUF file.

    Args:
      get: returns the metadata value of a key, or None.
      source: the file, for messages.

    Returns:
      The tokenizer, or None when the file's kind of tokenizer is not known here (``unknown_kind`` says which).

    Raises:
      CheckpointError: tokens or merges are missing, of another kind, or do not fit each other; or what else is said of
        tokens is none.
    """
    if unknown_kind(get):
        return None
    tokens, merges = get("tokenizer.ggml.tokens"), get("tokenizer.ggml.merges")
    if not _are_texts(tokens) or not _are_texts(merges):
        raise CheckpointError(
            f"{source}: metadata tokenizer.ggml.tokens or tokenizer.ggml.merges is missing, or no list of texts."
        )
    vocab = {token: index for index, token in enumerate(tokens)}
    pairs = [tuple(merge.split(" ")) for merge in merges]
    lost = next((pair for pair in pairs if len(pair) != 2 or not vocab.keys() >= {*pair, "".join(pair)}), None)
    if lost is not None or len(vocab) != len(tokens):
        raise CheckpointError(f"{source}: tokenizer.ggml.merges and tokens do not fit each other ({lost}).")
    way = _WAYS[get("tokenizer.ggml.pre")]
    backend = tokenizers.Tokenizer(
        models.BPE(vocab=vocab, merges=pairs, fuse_unk=False, byte_fallback=False, ignore_merges=way.whole_first)
    )
    backend.pre_tokenizer = way.cut()
    if way.composed:
        backend.normalizer = normalizers.NFC()
    backend.decoder = decoders.ByteLevel()
    kinds = get("tokenizer.ggml.token_type")
    if kinds is not None and not isinstance(kinds, list):
        raise CheckpointError(f"{source}: metadata tokenizer.ggml.token_type is {kinds!r}, which is no list.")
    _add_special(backend, tokens, kinds or ())
    bos, asked = get("tokenizer.ggml.bos_token_id"), get("tokenizer.ggml.add_bos_token")
    if bos is not None and (way.leading if asked is None else asked):
        if not is_whole(bos) or not 0 <= bos < len(tokens):
            raise CheckpointError(
                f"{source}: metadata tokenizer.ggml.bos_token_id is {bos!r:.60}, which is none of {len(tokens)} tokens."
            )
        backend.post_processor = processors.TemplateProcessing(
            single=f"{tokens[bos]} $A", special_tokens=[(tokens[bos], bos)]
        )
    return Tokenizer(backend=backend)


def unknown_kind(get: Callable[[str], Any]) -> str:
    """Return why a GGUF file's tokenizer is not known here, or an empty string."""
    model, pre = get("tokenizer.ggml.model"), get("tokenizer.ggml.pre")
    if model != "gpt2":
        return f"tokenizer.ggml.model {model!r:.60}"
    return "" if isinstance(pre, str) and pre in _WAYS else f"tokenizer.ggml.pre {pre!r:.60}"


def _are_texts(given: Any) -> bool:
    return isinstance(given, list) and bool(given) and all(isinstance(one, str) for one in given)


def _add_special(backend: tokenizers.Tokenizer, tokens: Sequence[str], kinds: Sequence[int]) -> None:
    named = list(zip(tokens, kinds, strict=False))
    special = [token for token, kind in named if kind == _CONTROL]
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    backend.add_tokens([AddedToken(token, normalized=False) for token, kind in named if kind == _USER_DEFINED])


@dataclass(frozen=True, kw_only=True)
class _Way:
    """What stands behind a name of ``tokenizer.ggml.pre``.

    ``composed``: text is normalised to NFC. ``whole_first``: a piece that is a token is that token, whatever the merges
    say. ``leading``: texts start with the token for it, where the file does not say.
    """

    cut: Callable[[], Any]
    composed: bool = False
    whole_first: bool = False
    leading: bool = False


def _gpt2() -> Any:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def _smollm() -> Any:
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), _gpt2()])


def _cut_with(number: str) -> Callable[[], Any]:
    def cut() -> Any:
        split = pre_tokenizers.Split(Regex(_CUT.format(number=number)), behavior="isolated")
        return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])

    return cut


_LLAMA3 = _Way(cut=_cut_with(r"\p{N}{1,3}"), whole_first=True, leading=True)
_WAYS: Mapping[str, _Way] = {
    "smollm": _Way(cut=_smollm),
    "gpt-2": _Way(cut=_gpt2),
    "qwen2": _Way(cut=_cut_with(r"\p{N}"), composed=True),
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
}
