"""Prompts of a given length: seeded random tokens, or English where the model has a tokenizer."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from qwenperf.workloads.case import Workload

TEXTS = tuple(
    """
The lighthouse stood at the end of a long stone pier. Every evening the keeper climbed the stairs, trimmed the lamp \
and wrote down the weather in his book. One night a thick fog came in from the sea, and he heard
Bread needs only flour, water, salt and time. First the flour and the water are mixed and left to rest, so that the \
dough becomes smooth. After an hour
Rivers shape the land through which they flow. Where the water is fast it carries stones and cuts into the rock, and \
where it is slow it
The museum opened its new hall on a rainy Monday in March. Visitors came from the whole region to see the old maps, \
and the first of them
""".strip().splitlines()
)
"""Beginnings that a small model continues in readable English; a batch takes one after another."""


class Tokenizer(Protocol):
    """Text to tokens and back."""

    def encode(self, text: str) -> list[int]:
        """Return the tokens of ``text``."""
        ...

    def decode(self, tokens: list[int]) -> str:
        """Return the text of ``tokens``."""
        ...


def make_prompt(
    workload: Workload, *, vocab_size: int, tokenizer: Tokenizer | None = None, seed: int = 0
) -> np.ndarray:
    """Return int32 prompt tokens [batch, prompt_length], the same for the same arguments."""
    shape = (workload.batch, workload.prompt_length)
    if tokenizer is None:
        return np.random.default_rng(seed).integers(0, vocab_size, shape, dtype=np.int32)
    rows = [_text_tokens(tokenizer, TEXTS[(row + seed) % len(TEXTS)], shape[1]) for row in range(shape[0])]
    return np.asarray(rows, dtype=np.int32)


def _text_tokens(tokenizer: Tokenizer, text: str, length: int) -> list[int]:
    """Return the last ``length`` tokens of a text, repeated in front where it is too short, so that its end stays."""
    tokens = list(tokenizer.encode(text))
    repeats = -(-length // len(tokens))
    return (tokens * repeats)[-length:]
