"""Every form of a request is held to the truth, whatever another form shows."""

import numpy as np
import pytest

from qwenperf.errors import MeasurementError
from qwenperf.lab import check
from qwenperf.lab.check import check_tokens
from qwenperf.workloads.case import Workload

WORK = Workload(prompt_length=1, new_tokens=4)
PROMPT = np.array([[0]], np.int32)
CHAIN = np.array([[1, 2, 3, 4]], np.int32)


class Nameless:
    name = "nameless"


def uncached(tokens_BT):
    """Logits of a chain of successors, in which 6 is as good after 1 as 2 is."""
    logits = np.zeros((7, 7), np.float32)
    logits[np.arange(7), (np.arange(7) + 1) % 7] = 3
    logits[1, 6], logits[6, 3] = 3 - 1e-6, 4
    return logits[np.asarray(tokens_BT)]


TIE = np.array([[1, 6, 3, 4]], np.int32)
BUG = np.array([[1, 2, 5, 6]], np.int32)


@pytest.mark.parametrize(
    ("forms", "reported", "near_tie"),
    [
        ({"request": TIE, "stream": BUG}, "stream", False),
        ({"request": BUG, "stream": TIE}, "request", False),
        ({"request": CHAIN, "stream": TIE, "repeat": BUG}, "repeat", False),
        ({"request": TIE, "stream": CHAIN}, "request", True),
        ({"request": CHAIN, "stream": TIE}, "stream", True),
    ],
)
def test_the_worst_form_is_reported(forms, reported, near_tie):
    """A bug in one form is neither hidden by a tie nor by equality in another."""
    found = check_tokens(Nameless(), WORK, PROMPT, forms, uncached)
    assert (found.equal, found.near_tie, found.extra["form"]) == (False, near_tie, reported)


def test_the_share_of_equal_tokens_is_that_of_the_worst_form():
    """A tie at token 1 comes before a bug at token 2."""
    found = check_tokens(Nameless(), WORK, PROMPT, {"request": TIE, "stream": BUG}, uncached)
    assert (found.position, found.extra["equal_tokens"]) == (2, 1)


@pytest.mark.parametrize(
    ("truth", "seen"),
    [
        (lambda tokens: uncached(tokens)[:, -1], r"shape \[1, 7\] for tokens \[1, 4\]"),
        (lambda tokens: uncached(tokens)[:, :2], r"shape \[1, 2, 7\] for tokens \[1, 4\]"),
        (lambda tokens: uncached(tokens)[0], r"shape \[4, 7\]"),
        (lambda tokens: uncached(tokens)[..., :0], r"shape \[1, 4, 0\]"),
        (lambda _: None, r"shape \[\]"),
        (lambda _: "logits", "a str, which is no array"),
    ],
)
def test_a_truth_of_another_shape_is_named(truth, seen):
    """Logits of the last position alone are no truth for the whole sequence."""
    with pytest.raises(MeasurementError, match=f"uncached returned .*{seen}.*every position"):
        check_tokens(Nameless(), WORK, PROMPT, {"request": CHAIN}, truth)


class Stepping(Nameless):
    """Gives what the test wants from its steps."""

    def __init__(self, first, step):
        self.first, self.step = first, step

    def prefill(self, _):
        """Start."""
        return self.first

    def decode_step(self, *_):
        """Go on."""
        return self.step


@pytest.mark.parametrize(
    ("first", "step", "seen"),
    [
        (None, None, "nameless.prefill returned None"),
        ((np.zeros((1, 7)), 0), None, "nameless.decode_step returned None"),
        ((np.zeros((1, 5)), 0), (np.zeros((1, 5)), 0), r"logits \[1, 4, 5\], uncached gave \[1, 4, 7\]"),
        ((np.zeros((1, 1, 7)), 0), None, r"nameless.prefill returned logits \[1, 1, 7\]"),
        ((np.zeros((1, 7)), 0), (np.zeros((1, 5)), 0), r"decode_step returned logits \[1, 5\] after \[1, 7\]"),
    ],
)
def test_steps_that_give_no_such_logits_are_named(first, step, seen):
    """What cannot be compared is told in one line."""
    with pytest.raises(MeasurementError, match=seen):
        check_tokens(Stepping(first, step), WORK, PROMPT, {"request": CHAIN}, uncached)


class Chain(Nameless):
    """Steps through the chain; the second row's third logits are another token's."""

    def prefill(self, tokens_BT):
        """Start."""
        return uncached(tokens_BT)[:, -1], 0

    def decode_step(self, tokens_B, state):
        """Go on."""
        wrong = np.array([0, 1]) * (state == 1)
        return uncached((tokens_B + wrong) % 7), state + 1


def test_a_batch_whose_logits_are_large_is_compared_row_by_row(monkeypatch):
    """The truth is asked for one row at a time, and the verdict is the batch's."""
    prompt, forms, asked = np.zeros((2, 1), np.int32), {"request": np.tile(CHAIN, (2, 1))}, []

    def truth(tokens_BT):
        asked.append(np.shape(tokens_BT))
        return uncached(tokens_BT)

    whole = check_tokens(Chain(), WORK, prompt, forms, truth)
    monkeypatch.setattr(check, "MOST_BYTES", 100)
    assert check_tokens(Chain(), WORK, prompt, forms, truth) == whole
    assert asked == [(2, 4), (1, 4), (1, 4)]
    assert whole.extra["not_own_choice"] == {"row": 1, "position": 2, "count": 1, "form": "request"}


@pytest.mark.parametrize("repeat", [CHAIN[:, :1], np.append(CHAIN, [[5]], axis=1)])
def test_a_shorter_or_longer_repeat_is_no_equal(repeat):
    """Each of its tokens is right, and it is another request that was answered."""
    with pytest.raises(MeasurementError, match=r"the repeat has tokens \[1, \d\] and the request \[1, 4\]"):
        check_tokens(Nameless(), WORK, PROMPT, {"request": CHAIN, "repeat": repeat}, uncached)
