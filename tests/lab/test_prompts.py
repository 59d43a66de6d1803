"""Prompts have the length that was asked for and are the same each time."""

import numpy as np
import pytest

from qwenperf.lab.prompts import TEXTS, make_prompt
from qwenperf.workloads.case import Workload


class Letters:
    """A tokenizer with a token a character."""

    def encode(self, text):
        """Return code points."""
        return [ord(letter) for letter in text]

    def decode(self, tokens):
        """Return text."""
        return "".join(map(chr, tokens))


def test_random_prompts_repeat_with_the_seed_and_stay_in_the_vocabulary():
    """The same seed gives the same tokens, another one others."""
    work = Workload(prompt_length=50, new_tokens=2, batch=3)
    first, again, other = (make_prompt(work, vocab_size=7, seed=seed) for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()
    assert first.shape == (3, 50)
    assert first.dtype == np.int32
    assert 0 <= first.min() <= first.max() < 7


@pytest.mark.parametrize("length", [1, 20, 1000])
def test_english_prompts_end_as_the_text_ends(length):
    """A prompt that is cut keeps its end, so that the model continues a sentence; a long one repeats."""
    work = Workload(prompt_length=length, new_tokens=2, batch=2)
    prompt = make_prompt(work, vocab_size=256, tokenizer=Letters())
    assert prompt.shape == (2, length)
    assert Letters().decode(prompt[0]).endswith(TEXTS[0][-length:])
    assert Letters().decode(prompt[1]).endswith(TEXTS[1][-length:])
