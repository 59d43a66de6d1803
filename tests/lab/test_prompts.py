"""Prompts have the length that was asked for and are the same each time."""

from itertools import islice

import numpy as np
import pytest

from qwenperf.lab.prompts import TEXTS, make_prompt, other_prompts
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


def test_other_prompts_are_different_orders_of_the_same_tokens():
    """Shape, dtype and the tokens of each row stay; no order comes twice while there are others."""
    prompt = np.arange(12, dtype=np.int32).reshape(2, 6)
    found = list(islice(other_prompts(prompt), 20))
    assert {(one.shape, one.dtype) for one in found} == {((2, 6), np.dtype(np.int32))}
    assert all((np.sort(one, axis=1) == prompt).all() for one in found)
    assert len({one.tobytes() for one in (prompt, *found)}) == 21


def test_padding_of_other_prompts_stays_where_it_is():
    """Equal tokens at an end of a row are not mixed into it; a row of one token has no other order."""
    prompt = np.array([[0, 0, 5, 6, 7, 8], [5, 6, 7, 8, 0, 0], [4, 4, 4, 4, 4, 4]], np.int32)
    for one in islice(other_prompts(prompt), 5):
        assert (one[0, :2] == 0).all()
        assert (one[1, 4:] == 0).all()
        assert (np.sort(one[:, 2:4]) > 0).all()
        assert (one[2] == 4).all()
