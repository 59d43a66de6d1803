import json
from importlib.resources import files

import pytest
from jsonschema import Draft202012Validator

from qwenperf.schema import codec
from qwenperf.schema.hints import known_fields
from qwenperf.schema.metrics import REGISTRY
from qwenperf.schema.published import run_schema
from qwenperf.schema.records import (
    CaseRecord,
    CompileCause,
    CompileEvent,
    Divergence,
    Evidence,
    Finding,
    Outcome,
    ProgramFacts,
    Roofline,
    RunRecord,
    Severity,
    StreamEvidence,
    TokenEvidence,
    Verdict,
    metric,
)


@pytest.fixture(scope="module")
def validator():
    """The published file, as somebody else would use it."""
    schema = json.loads(files("qwenperf.schema").joinpath("run.v1.json").read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.fixture
def full_run():
    """A run with something in every field."""
    evidence = Evidence(
        tokens=TokenEvidence(prompt=((1,),), generated=((2, 3),), text="x"),
        divergence=Divergence(equal=True, reference="uncached", max_logit_error=0.0, logit_tolerance=1e-5),
        compiles=(
            CompileEvent(function="f", phase="cold", seconds=0.1, causes=(CompileCause(argument="a", what="shape"),)),
        ),
        program=ProgramFacts(name="decode_step", flops=1e6, operations={"dot": 2}),
        roofline=Roofline(bytes_per_s=1e9, flops_per_s=1e9),
        stream=StreamEvidence(positions=(1, 2), step_s=((0.1, 0.2),)),
        trace_summary={"steps": 3},
        voids=("trial 1",),
    )
    case = CaseRecord(
        id="c",
        spec={"model": "tiny"},
        metrics={"tpot_s": metric("tpot_s", 0.1, samples=(0.1,), interval=(0.1, 0.1), coverage=0.0)},
        evidence=evidence,
        verdicts=(Verdict(gate="tokens", outcome=Outcome.PASS, summary="equal"),),
        findings=(Finding(code="x", severity=Severity.NOTE, message="y"),),
    )
    return RunRecord(id="r", created_at="now", suite="quick", environment={}, cases=(case,), extra={"later": 1})


def test_a_real_record_validates(validator, full_run):
    """What the package writes is what the published schema describes, unknown keys included."""
    validator.validate(codec.to_json(full_run))


def test_the_published_file_is_made_from_the_records(validator):
    """A field that is added to a record is in the file."""
    assert validator.schema == run_schema()
    for kind in (CaseRecord, Divergence, CompileEvent):
        assert set(validator.schema["$defs"][kind.__name__]["properties"]) == set(known_fields(kind))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema",), "qwenperf.run.v2"),
        (("cases", 0, "status"), "done"),
        (("cases", 0, "metrics", "tpot_s", "value"), "fast"),
        (("cases", 0, "metrics", "tpot_s", "interval"), [1.0]),
        (("cases", 0, "verdicts", 0, "outcome"), "passed"),
        (("cases", 0, "evidence", "tokens", "generated"), [["a"]]),
    ],
)
def test_schema_and_reader_refuse_the_same(validator, full_run, path, value):
    """Nobody can write a record by the schema that the package refuses."""
    data = codec.to_json(full_run)
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert not validator.is_valid(data)
    with pytest.raises(codec.RecordError):
        codec.from_json(data)


def test_every_metric_says_what_it_is():
    """A registry entry without a formula or a sentence documents nothing."""
    for name, definition in REGISTRY.items():
        assert name == definition.name
        assert definition.formula
        assert definition.description.endswith(".")
