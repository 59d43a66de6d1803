"""The short hash of an environment says what a comparison of its fields says."""

import pytest

from qwenperf.gate.differences import STABLE, environment_differences, environment_key

HERE = {name: f"a {name}" for name in STABLE} | {"qwenperf": "0.1", "memory_bytes": 8, "volatile": {"load": [1.0]}}


@pytest.mark.parametrize("name", STABLE)
def test_every_stable_field_counts(name):
    """Two environments that differ in it have two hashes, and a line that says so."""
    other = HERE | {name: "another"}
    assert list(environment_differences(HERE, other)) == [name]
    assert environment_key(HERE) != environment_key(other)


@pytest.mark.parametrize("change", [{"qwenperf": "0.2"}, {"memory_bytes": 9}, {"volatile": {}}])
def test_nothing_else_does(change):
    """The package's own version is what a history is about, and load is no machine."""
    assert environment_key(HERE) == environment_key(HERE | change)
    assert environment_differences(HERE, HERE | change) == {}


def test_order_and_absence_do_not_matter():
    """A field that is not known is one that says nothing."""
    known = {"platform": "cpu", "cores": 2}
    assert environment_key(known) == environment_key({"cores": 2, "governor": None, "platform": "cpu"})
    assert len(environment_key(known)) == 16
    assert environment_key({}) == environment_key({"volatile": {"load": [1.0]}}) == ""


def test_a_machine_that_another_tool_described_is_one():
    """None of our fields is there: all of theirs count."""
    theirs = {"machine_name": "runner-1", "volatile": {"at": 1}}
    assert environment_key(theirs) == environment_key({"machine_name": "runner-1"}) != ""
    assert environment_key(theirs) != environment_key({"machine_name": "runner-2"})
