"""Prompts of different lengths as one array: each at the right end of its row, so that all rows end at one slot.

    [[5, 6, 7], [8]]  ->  tokens [[5, 6, 7], [8, 8, 8]], pads [0, 2]

The cache then has one length for all rows, and a step writes one slot; what a row's tokens do not see are the slots
before ``pads``. Whatever padding a caller brings, left or right, is taken off first. What pads a row is its own first
token: the weight 0 hides its numbers only if they are finite, and a row must not depend on a token that is not in it.
All of this is on the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qwenperf.decode.bounds import check_prompt
from qwenperf.decode.engine import Tokens
from qwenperf.errors import TokenError

Prompts = Tokens | Sequence[Sequence[int]]
"""An array [B, T], or one sequence of token ids a row."""


@dataclass(frozen=True, kw_only=True)
class Aligned:
    """Prompts at the right end of their rows: int32 [B, T], and how much padding precedes each."""

    tokens: np.ndarray
    pads: np.ndarray


def align(prompts: Prompts, attention_mask: Tokens | None, vocab_size: int) -> Aligned:
    """Return ``prompts`` without their padding, each at the right end of its row.

    Args:
      prompts: token ids; rows of an array may be padded with anything.
      attention_mask: of an array [B, T]: nonzero for tokens, zero for padding at either end of a row.
      vocab_size: token ids are below it.

    Raises:
      TokenError: an empty prompt, a token outside the vocabulary, padding between tokens, or a mask that does not
        fit or is none; says which row.
    """
    rows = _rows(prompts) if attention_mask is None else _unpadded(prompts, attention_mask)
    if not rows:
        raise TokenError("there are no prompts.")
    for index, row in enumerate(rows):
        _check_row(row, index, vocab_size)
    width = max(len(row) for row in rows)
    pads_B = np.array([width - len(row) for row in rows], np.int32)
    tokens_BT = np.stack([np.pad(row, (pad, 0), mode="edge") for row, pad in zip(rows, pads_B, strict=True)])
    return Aligned(tokens=tokens_BT.astype(np.int32), pads=pads_B)


def widen(prompts: Aligned, width: int) -> Aligned:
    """Return ``prompts`` with more padding, so that rows are ``width`` wide."""
    more = width - prompts.tokens.shape[1]
    return Aligned(tokens=np.pad(prompts.tokens, ((0, 0), (more, 0)), mode="edge"), pads=prompts.pads + np.int32(more))


def _rows(prompts: Any) -> list[np.ndarray]:
    if isinstance(prompts, (str, bytes)) or not hasattr(prompts, "__len__") or getattr(prompts, "ndim", 2) != 2:
        raise TokenError(f"prompts are {_seen(prompts)}; expected token ids [batch, length], or a list of lists.")
    return [_row(row, index) for index, row in enumerate(np.asarray(prompts) if hasattr(prompts, "ndim") else prompts)]


def _row(row: object, index: int) -> np.ndarray:
    try:
        array = np.asarray(row)
    except (TypeError, ValueError):
        array = np.asarray(None)
    if array.ndim != 1:
        raise TokenError(f"prompt {index} is {_seen(row)}; expected a list of token ids.")
    return array


def _unpadded(prompts: Prompts, attention_mask: Tokens) -> list[np.ndarray]:
    rows, mask = _rows(prompts), _rows(attention_mask)
    if [row.shape for row in rows] != [row.shape for row in mask]:
        raise TokenError(f"the attention mask is {_seen(attention_mask)} for prompts of {_seen(prompts)}.")
    kept = []
    for index, (row, marks) in enumerate(zip(rows, mask, strict=True)):
        _check_marks(marks, index)
        places = np.flatnonzero(marks)
        if len(places) and places[-1] - places[0] + 1 != len(places):
            raise TokenError(f"prompt {index} has padding between its tokens; it belongs at one end of a row.")
        kept.append(row[places])
    return kept


def _check_marks(marks: np.ndarray, index: int) -> None:
    # The text "0" is as true as "1", and a mask that is added to scores (0, -inf) says the opposite.
    if marks.dtype.kind not in "biuf" or not (marks >= 0).all():
        raise TokenError(f"the attention mask of prompt {index} has {str(marks)[:60]}; expected 1 and 0.")


def _check_row(row: np.ndarray, index: int, vocab_size: int) -> None:
    if not row.size:
        raise TokenError(f"prompt {index} is empty.")
    try:
        check_prompt(row[None], vocab_size)
    except TokenError as error:
        raise TokenError(f"prompt {index}: {error.message}") from None


def _seen(value: object) -> str:
    shape = getattr(value, "shape", None)
    return f"an array of shape {tuple(shape)}" if shape is not None else repr(value)[:60]
