"""Every form of a request is held to the truth, whatever another form shows."""

import numpy as np
import pytest

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
