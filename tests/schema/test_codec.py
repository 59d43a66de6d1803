import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest

from qwenperf.errors import RecordError
from qwenperf.schema import codec
from qwenperf.schema.records import (
    CaseRecord,
    CompileEvent,
    Evidence,
    Finding,
    Outcome,
    RunRecord,
    Severity,
    Status,
    StreamEvidence,
    TokenEvidence,
    Verdict,
    metric,
)


def a_case(**changes):
    case = CaseRecord(
        id="tiny/cached/b1-p4-n8-f32",
        spec={"model": "tiny", "engine": "cached"},
        metrics={"tpot_s": metric("tpot_s", 0.004, samples=(0.003, 0.004, 0.005), interval=(0.003, 0.005))},
        evidence=Evidence(
            tokens=TokenEvidence(prompt=((1, 2),), generated=((3, 4),), text="naïve"),
            compiles=(CompileEvent(function="decode_step", phase="cold", seconds=0.5),),
            stream=StreamEvidence(positions=(4, 5), step_s=((0.1, 0.2),)),
        ),
        verdicts=(Verdict(gate="tokens", outcome=Outcome.PASS, summary="8 of 8 tokens equal"),),
        findings=(Finding(code="load", severity=Severity.WARNING, message="busy", data={"load": 3.5}),),
    )
    return dataclasses.replace(case, **changes)


def a_run(*cases):
    return RunRecord(id="r1", created_at="2026-01-01T00:00:00Z", suite="quick", environment={"cores": 2}, cases=cases)


def test_unknown_keys_survive_at_every_level():
    """What a newer writer added stays where it was."""
    data = codec.to_json(a_run(a_case()))
    places = (
        data,
        data["cases"][0],
        data["cases"][0]["metrics"]["tpot_s"],
        data["cases"][0]["evidence"],
        data["cases"][0]["evidence"]["compiles"][0],
        data["cases"][0]["verdicts"][0],
        data["cases"][0]["findings"][0],
    )
    for place in places:
        place |= {"later": {"added": [1, None, "x"]}, "extra": "a key of that name"}
    assert codec.to_json(codec.from_json(data)) == data


def test_arrays_of_numbers_stay_on_one_line():
    """A long list of samples does not make a file of one number a line."""
    text = codec.dumps(a_case())
    assert '"samples": [0.003, 0.004, 0.005]' in text
    assert json.loads(text) == codec.to_json(a_case())


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("cases", 0, "metrics", "tpot_s", "value"), math.nan, "cases[0].metrics.tpot_s.value is nan"),
        (("cases", 0, "metrics", "tpot_s", "samples", 1), math.inf, "cases[0].metrics.tpot_s.samples[1] is inf"),
        (
            ("cases", 0, "metrics", "tpot_s", "value"),
            "fast",
            "tpot_s.value is 'fast', which is not a number",
        ),
        (("cases", 0, "metrics", "tpot_s", "value"), 10**400, "cases[0].metrics.tpot_s.value is 1000"),
        (("cases", 0, "metrics", "tpot_s", "interval"), [1.0], "interval has 1 entries and needs 2"),
        (("cases", 0, "metrics", "tpot_s", "direction"), "down", "direction is 'down', which is no direction"),
        (("cases", 0, "metrics"), [], "cases[0].metrics is [], which is not an object"),
        (("cases", 0, "verdicts", 0, "outcome"), "passed", "Did you mean 'pass'?"),
        (("cases", 0, "status"), "measurd", "Did you mean 'measured'?"),
        (("cases", 0, "id"), 7, "cases[0].id is 7, which is not text"),
        (("cases", 0, "id"), None, "cases[0].id is missing, which is not text"),
        (("cases", 0, "spec", "seed"), math.nan, "cases[0].spec.seed is nan"),
        (("cases", 0, "later"), {"deep": [math.inf]}, "cases[0].later.deep[0] is inf"),
        (
            ("cases", 0, "evidence", "tokens", "generated", 0, 1),
            1.5,
            "[0][1] is 1.5, which is not a whole number",
        ),
        (
            ("cases", 0, "evidence", "tokens", "generated", 0, 1),
            True,
            "[0][1] is True, which is not a whole number",
        ),
        (("cases", 0, "evidence", "compiles", 0, "cache_hit"), 0, "cache_hit is 0, which is not true or false"),
        (("schema",), "qwenperf.run.v2", "schema is 'qwenperf.run.v2'; this version reads 'qwenperf.run.v1'"),
    ],
)
def test_a_wrong_value_is_refused_by_its_path(path, value, message):
    """The message names file, key path and what was seen."""
    data = codec.to_json(a_run(a_case()))
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(RecordError) as caught:
        codec.from_json(data, "run.json")
    assert str(caught.value).startswith("run.json: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (("schema",), "schema is missing"),
        (("id",), "id is missing"),
        (("cases", 0, "spec"), "cases[0].spec is missing"),
        (("cases", 0, "metrics", "tpot_s", "kind"), "cases[0].metrics.tpot_s.kind is missing"),
    ],
)
def test_a_missing_key_is_named(path, message):
    """A record without a required key is no record."""
    data = codec.to_json(a_run(a_case()))
    place = data
    for key in path[:-1]:
        place = place[key]
    del place[path[-1]]
    with pytest.raises(RecordError, match=message.replace("[", r"\[")):
        codec.from_json(data)


@pytest.mark.parametrize("text", ["", "{", '{"schema": ', "[" * 100_000, "9" * 5000])
def test_text_that_is_no_json_is_refused(text):
    """A file cut short is one clear line, and never a traceback."""
    with pytest.raises(RecordError, match=r"^run\.json"):
        codec.loads(text, "run.json")


@pytest.mark.parametrize("data", [None, [], "run", 3])
def test_data_that_is_no_object_is_refused(data):
    """Any JSON that is not an object is not a run."""
    with pytest.raises(RecordError):
        codec.from_json(data)


def test_a_metric_that_is_not_finite_is_left_out_with_a_finding():
    """Writing keeps everything else, and says what is gone."""
    case = a_case(metrics={"mbu": metric("mbu", math.nan), "tpot_s": metric("tpot_s", 0.004)})
    back = codec.loads(codec.dumps(a_run(case))).cases[0]
    assert set(back.metrics) == {"tpot_s"}
    assert back.evidence == case.evidence
    lost = back.findings[-1]
    assert (lost.code, lost.severity) == ("unwritable", Severity.ERROR)
    assert "cases[0].metrics.mbu.value is nan" in lost.message


def test_the_smallest_part_that_may_be_missing_is_left_out():
    """A sample takes its samples along, a step its stream, free data becomes null."""
    stream = StreamEvidence(positions=(1,), step_s=((math.inf,),))
    case = a_case(
        metrics={"tpot_s": metric("tpot_s", 1.0, samples=(1.0, math.nan))},
        evidence=Evidence(stream=stream, trace_summary={"busy": math.nan, "path": Path("x"), "steps": 3}),
    )
    back = codec.case_loads(codec.dumps(case))
    assert back.metrics["tpot_s"] == metric("tpot_s", 1.0)
    assert back.evidence.stream is None
    assert back.evidence.trace_summary == {"busy": None, "path": None, "steps": 3}
    assert len(back.findings[-1].data["keys"]) == 4


def test_numpy_scalars_are_written_as_numbers():
    """A reading straight from numpy needs no conversion by the caller."""
    case = a_case(wall_s=np.float32(0.5), spec={"seed": np.int64(3), "scale": np.float32(0.25), "sizes": (1, 2)})
    back = codec.case_loads(codec.dumps(case))
    assert back.wall_s == 0.5
    assert back.spec == {"seed": 3, "scale": 0.25, "sizes": [1, 2]}


def test_a_field_wins_over_an_extra_key_of_its_name():
    """What is measured is never overwritten by what is not known."""
    assert codec.case_loads(codec.dumps(a_case(extra={"status": "nonsense"}))).status is Status.MEASURED


def test_a_case_without_an_id_cannot_be_written():
    """The record itself has no part that could be left out."""
    with pytest.raises(RecordError, match="id is missing"):
        codec.dumps(a_case(id=None))
