"""Comparisons on disk: a round trip keeps everything, and nonsense is refused by its key path."""

import dataclasses
import json

import jsonschema
import pytest

from qwenperf.errors import RecordError
from qwenperf.schema.codec import comparison_from_json, comparison_loads, dumps, loads, to_json
from qwenperf.schema.comparison import ComparedCase, ComparisonRecord, PairRecord, RoundRecord, SideEvidence, SideRecord
from qwenperf.schema.published import comparison_schema
from qwenperf.schema.records import metric

METRICS = {"ttft_s": metric("ttft_s", 0.1)}
ROUND = RoundRecord(order="ABBA", wall_s=(0.1, 0.2, 0.2, 0.1), cpu_s=(0.1, 0.2, 0.2, 0.1), load=0.5)
RECORD = ComparisonRecord(
    id="c1",
    created_at="2026-01-01T00:00:00+00:00",
    base=SideRecord(label="main", kind="revision", commit={"sha": "a"}),
    head=SideRecord(label="working tree", kind="revision"),
    declared=("tiny/cached/x",),
    cases=(
        ComparedCase(
            id="tiny/cached/x",
            base=SideEvidence(
                tokens=((1, 2),), programs={"decode_step": "f"}, metrics={"ttft_s": metric("ttft_s", 0.1)}
            ),
            head=SideEvidence(error="does not compile"),
            extra={"later": 1},
        ),
    ),
    pairs=(PairRecord(number=1, first="base", rounds={"tiny/cached/x": (ROUND,)}),),
)


def test_a_comparison_survives_the_disk():
    """Also what this version does not know."""
    assert comparison_loads(dumps(RECORD)) == RECORD
    jsonschema.validate(to_json(RECORD), comparison_schema())


def test_a_run_is_no_comparison():
    """The schema's name is checked first."""
    with pytest.raises(RecordError, match=r"schema is 'qwenperf\.comparison\.v1'"):
        loads(dumps(RECORD))


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"order": "AAAA"}, "order is 'AAAA'"),
        ({"order": "ABC"}, "order is 'ABC'"),
        ({"wall_s": (0.1, 0.2)}, "wall_s has 2 times for the order ABBA"),
        ({"wall_s": (0.1, 0.2, 0.0, 0.1)}, "has a time that is not positive"),
    ],
)
def test_a_round_that_says_nothing_is_refused(changes, path):
    """A gate would take logarithms of it."""
    bad = dataclasses.replace(ROUND, **changes)
    pair = dataclasses.replace(RECORD.pairs[0], rounds={"tiny/cached/x": (bad,)})
    data = json.loads(dumps(dataclasses.replace(RECORD, pairs=(pair,))))
    with pytest.raises(RecordError, match=r"pairs\[0\]\.rounds\['tiny/cached/x'\]\[0\]") as caught:
        comparison_from_json(data, "file")
    assert path in str(caught.value)
