"""Records that gates would read wrongly are refused when they are read, by the key that is wrong."""

import json
from dataclasses import replace

import pytest

from qwenperf.errors import RecordError
from qwenperf.schema.codec import case_loads, dumps, from_json, to_json
from qwenperf.schema.records import CaseRecord, RunRecord, metric

WORKLOAD = {"prompt_length": 4, "new_tokens": 8, "batch": 1, "dtype": "f32"}


def document():
    """Return a good run of two cases as JSON data."""
    metrics = {
        "decode_tokens_per_s": metric("decode_tokens_per_s", 9.0, samples=(8.0, 10.0), interval=(8.0, 10.0)),
        "scaling_per_100_tokens": metric("scaling_per_100_tokens", -0.1),
        "compile_s": metric("compile_s", 0.0),
    }
    case = CaseRecord(id="a", spec={"engine": "cached", "workload": WORKLOAD}, metrics=metrics)
    cases = (case, replace(case, id="b", spec={"engine": "mine", "workload": "in words"}))
    run = RunRecord(id="r", created_at="2026-11-27T22:05:37+00:00", suite="any", environment={}, cases=cases)
    return json.loads(json.dumps(to_json(run)))


def test_what_measuring_gives_is_read():
    """A slope may be negative and nothing may have compiled; a spec of somebody else's may say what it likes."""
    assert [case.id for case in from_json(document()).cases] == ["a", "b"]


SPEED = "metrics.decode_tokens_per_s"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("id", "b", r"cases\[1\].id is 'b', which is the id of cases\[0\] too"),
        ("spec.workload", {"new_tokens": "x"}, r"spec.workload.prompt_length is missing"),
        ("spec.workload.new_tokens", "x", r"cases\[0\].spec.workload.new_tokens is 'x', which is not a whole number"),
        ("spec.workload.batch", 0, r"spec.workload.batch is 0"),
        ("spec.workload.dtype", 5, r"spec.workload.dtype is 5, which is not text"),
        (f"{SPEED}.value", -5, r"cases\[0\].metrics.decode_tokens_per_s.value has -5.0"),
        (f"{SPEED}.value", 0, r"decode_tokens_per_s.value has 0.0; decode_tokens_per_s is above 0"),
        (f"{SPEED}.samples", [0], r"decode_tokens_per_s.samples has 0.0"),
        (f"{SPEED}.interval", [5, 1], r"decode_tokens_per_s.interval ends before it begins"),
        (f"{SPEED}.unit", "s", r"decode_tokens_per_s.unit is 's'; decode_tokens_per_s is in 'tokens/s'"),
        ("metrics.compile_s.value", -1, r"compile_s.value has -1.0; compile_s is at least 0"),
    ],
)
def test_what_no_measurement_gives_is_refused_by_its_key(path, value, message):
    """The file and the key path are named, and what was seen there."""
    data = document()
    *parents, key = path.split(".")
    place = data["cases"][0]
    for parent in parents:
        place = place[parent]
    place[key] = value
    with pytest.raises(RecordError, match=f"run.json: .*{message}"):
        from_json(data, "run.json")


def test_a_case_alone_is_held_to_the_same():
    """What a measuring process wrote is not believed either."""
    bad = CaseRecord(id="a", spec={}, metrics={"compile_s": metric("compile_s", -1.0)})
    with pytest.raises(RecordError, match=r"case.json: metrics.compile_s.value has -1.0"):
        case_loads(dumps(bad), "case.json")
