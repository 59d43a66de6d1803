"""``qwenperf doctor`` ends within its minute, whatever a pair takes, and says what it could not find out."""

from dataclasses import replace

import pytest

from qwenperf.cli.doctor import _unseen
from qwenperf.schema.comparison import ComparisonRecord, PairRecord, SideRecord
from qwenperf.stats.spending import Plan

PAIR = PairRecord(number=1, first="base")
SIDE = SideRecord(label="x", kind="same")


def record(*pairs, **more):
    return ComparisonRecord(id="c", created_at="", base=SIDE, head=SIDE, pairs=pairs, **more)


@pytest.mark.parametrize(
    ("pairs", "more", "told", "code"),
    [
        ((PAIR,) * 3, {}, "3 of the 6 pairs that say something ended within 60 s; `qwenperf compare --aa`", 0),
        ((PAIR, replace(PAIR, failed="base died.")), {}, "no timing: base died.", 5),
        ((), {}, "no timing: no pair ended", 5),
        ((PAIR,), {"interrupted": True}, "no timing: interrupted", 130),
    ],
)
def test_too_few_pairs_are_told_as_what_they_are(pairs, more, told, code):
    """A machine on which a pair takes 20 seconds is not broken."""
    lines, data, ended = _unseen(record(*pairs, **more), Plan())
    assert told in lines[0]
    assert (data, ended) == (None, code)
