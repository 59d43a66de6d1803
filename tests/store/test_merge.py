"""The shards of a job are one run again, or it is said why they are not."""

import dataclasses

import pytest

from qwenperf.errors import UsageError
from qwenperf.schema.codec import dumps, loads
from qwenperf.schema.records import Finding, Severity, Status
from qwenperf.store.merge import merge_runs


@pytest.fixture
def shards(made):
    """Three parts of one run, each of one case."""
    base = made.run_of(0)

    def shard(place, name, **changes):
        case = dataclasses.replace(base.cases[0], id=name)
        at = f"2026-01-01T12:0{place}:00+00:00"
        return dataclasses.replace(base, id=f"shard-{place}", created_at=at, declared=(name,), cases=(case,), **changes)

    return [shard(0, "b"), shard(1, "a"), shard(2, "c")]


def test_shards_are_one_run(shards):
    """Cases and declared sets are united, and the run began when its first part did."""
    run = merge_runs(shards)
    assert run.declared == ("b", "a", "c")
    assert [case.id for case in run.cases] == ["b", "a", "c"]
    assert run.created_at == "2026-01-01T12:00:00+00:00"
    assert run.extra["merged"] == ["shard-0", "shard-1", "shard-2"]
    assert run.id.startswith("20260101T120000Z-m")
    assert loads(dumps(run)) == run


def test_the_order_of_the_shards_does_not_matter(shards):
    """The same parts make the same run, so that merging twice adds nothing to a store."""
    assert merge_runs(shards) == merge_runs([*shards[::-1], shards[0]])
    assert merge_runs(shards).id != merge_runs(shards[:2]).id


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"commit": {"sha": "f" * 40}}, "commit is .* in shard-0 and .* in shard-1"),
        ({"commit": {"sha": "0" * 40, "dirty": True}}, "commit is"),
        ({"suite": "quick"}, "suite is 'smoke' in shard-0 and 'quick' in shard-1"),
        ({"environment": {"platform": "gpu", "cores": 2}}, "platform is 'cpu' in shard-0 and 'gpu' in shard-1"),
    ],
)
def test_what_is_not_one_run_is_refused_by_name(shards, change, message):
    """Other code, another suite or another machine: the runs and what differs are named."""
    with pytest.raises(UsageError, match=f"not one run: .*{message}"):
        merge_runs([shards[0], dataclasses.replace(shards[1], **change)])


def test_a_case_that_was_measured_twice_is_a_conflict(shards):
    """Nothing is chosen and nothing is averaged; all such cases are named with their runs."""
    other = dataclasses.replace(shards[0].cases[0], wall_s=99.0)
    twice = dataclasses.replace(shards[1], cases=(*shards[1].cases, other))
    with pytest.raises(UsageError, match=r"measured twice: b \(shard-0 and shard-1\)"):
        merge_runs([shards[0], twice])


def test_the_same_measurement_in_two_parts_is_one(shards):
    """A part that holds what another holds, judged differently or not, adds nothing."""
    again = dataclasses.replace(shards[1], cases=(*shards[1].cases, shards[0].cases[0]))
    assert [case.id for case in merge_runs([shards[0], again]).cases] == ["b", "a"]


def test_a_case_that_only_one_part_could_measure_is_measured(shards):
    """A shard that lists what it left to others has measured nothing of it."""
    for first, later in ((0, 1), (1, 0)):
        missing = dataclasses.replace(shards[first].cases[0], status=Status.MISSING, metrics={}, error="not here")
        lister = dataclasses.replace(shards[later], cases=(missing, *shards[later].cases))
        found = {case.id: case.status for case in merge_runs([shards[first], lister]).cases}
        assert found == {"b": Status.MEASURED, "a": Status.MEASURED}


def test_what_nobody_measured_stays_declared(shards):
    """So that the exit code of the whole can say that it is missing."""
    lost = dataclasses.replace(shards[1], declared=("a", "z"), interrupted=True)
    run = merge_runs([shards[0], lost])
    assert run.declared == ("b", "a", "z")
    assert run.interrupted


def test_remarks_are_kept_once(shards):
    """Two parts that found the machine busy say so once."""
    remark = Finding(code="load-high", severity=Severity.WARNING, message="busy")
    parts = [dataclasses.replace(shard, findings=(remark,)) for shard in shards]
    assert merge_runs(parts).findings == (remark,)


def test_a_part_whose_first_process_never_started_knows_no_machine(shards):
    """It is a part all the same."""
    nowhere = dataclasses.replace(shards[0], environment={}, cases=())
    assert merge_runs([nowhere, shards[1]]).environment == shards[1].environment


def test_nothing_is_no_run():
    """An empty list of parts is a mistake of whoever named them."""
    with pytest.raises(UsageError, match="no run to merge"):
        merge_runs([])
