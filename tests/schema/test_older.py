"""Records of older versions become the present one, step by step; others are refused by what can be done."""

import pytest

from qwenperf.errors import RecordError
from qwenperf.schema.older import STEPS, to_current

PLANTED = {
    "qwenperf.run.v1": ("qwenperf.run.v2", lambda data: {"two": data["one"]}),
    "qwenperf.run.v2": ("qwenperf.run.v3", lambda data: {**data, "three": True}),
}


def test_each_step_makes_one_version_of_the_one_before():
    """From wherever a record starts, and what was read is not changed."""
    oldest = {"schema": "qwenperf.run.v1", "one": 1}
    assert to_current(oldest, "qwenperf.run.v3", PLANTED) == {"schema": "qwenperf.run.v3", "two": 1, "three": True}
    later = {"schema": "qwenperf.run.v2", "two": 2}
    assert to_current(later, "qwenperf.run.v3", PLANTED) == {"schema": "qwenperf.run.v3", "two": 2, "three": True}
    assert oldest == {"schema": "qwenperf.run.v1", "one": 1}


def test_the_present_version_is_left_as_it_is():
    """The same object, not a copy."""
    data = {"schema": "qwenperf.run.v3"}
    assert to_current(data, "qwenperf.run.v3", PLANTED) is data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"schema": "qwenperf.run.v4"}, r"'qwenperf.run.v4'; this version reads 'qwenperf.run.v3'. A newer qwenperf"),
        ({"schema": "qwenperf.run.v0"}, "Read it with the qwenperf that wrote it"),
        ({"schema": "qwenperf.comparison.v9"}, "Read it with the qwenperf that wrote it"),
        ({"schema": 3}, "schema is 3"),
        ({}, "schema is missing"),
        ([], "schema is missing"),
    ],
)
def test_what_no_step_leads_from_is_refused(data, message):
    """A newer one asks for a newer qwenperf."""
    with pytest.raises(RecordError, match=message):
        to_current(data, "qwenperf.run.v3", PLANTED)


def test_every_step_leads_on():
    """No step leads back, or nowhere."""
    for start in STEPS:
        seen, version = {start}, start
        while version in STEPS:
            version = STEPS[version][0]
            assert version not in seen
            seen.add(version)
