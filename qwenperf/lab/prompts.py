"""Prompts of a given length: seeded random tokens, or English where the model has a tokenizer."""

from __future__ import annotations

from collections.abc import Iterator
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


_TRIES = 20
"""How often a new order is looked for; short rows have few."""


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


def other_prompts(prompt_BT: np.ndarray, seed: int = 0) -> Iterator[np.ndarray]:
    """Yield prompts of the same shape, each row's own tokens in another order; as many different ones as there are.

    Two or more equal tokens at an end of a row may be padding, and stay where they are.
    """
    random, seen = np.random.default_rng(seed), {prompt_BT.tobytes()}
    while True:
        for _ in range(_TRIES):
            shuffled_BT = np.stack([_shuffled(row_T, random) for row_T in prompt_BT])
            if shuffled_BT.tobytes() not in seen:
                break
        seen.add(shuffled_BT.tobytes())
        yield shuffled_BT


def _shuffled(row_T: np.ndarray, random: np.random.Generator) -> np.ndarray:
    start, end = _run(row_T), len(row_T) - _run(row_T[::-1])
    return np.concatenate([row_T[:start], random.permutation(row_T[start:end]), row_T[max(start, end) :]])


def _run(row_T: np.ndarray) -> int:
    """Return how many equal tokens the row begins with; 0 for a single one."""
    different = np.flatnonzero(row_T != row_T[0])
    length = int(different[0]) if len(different) else len(row_T)
    return length if length > 1 else 0


def _text_tokens(tokenizer: Tokenizer, text: str, length: int) -> list[int]:
    """Return the last ``length`` tokens of a text, repeated in front where it is too short, so that its end stays."""
    tokens = list(tokenizer.encode(text))
    repeats = -(-length // len(tokens))
    return (tokens * repeats)[-length:]
