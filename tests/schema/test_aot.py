"""Records of compiled programs are written and read back whole, and the published schema describes them."""

import importlib.util
import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from qwenperf.errors import RecordError
from qwenperf.schema import codec
from qwenperf.schema.published import aot_schema
from qwenperf.schema.records import Finding, Outcome, Severity, Status, Verdict

_SPEC = importlib.util.spec_from_file_location("aot_records", Path(__file__).parents[1] / "gate" / "aot_records.py")
made = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(made)


@pytest.fixture(scope="module")
def validator():
    """The published file, as somebody else would use it."""
    schema = json.loads(files("qwenperf.schema").joinpath("aot.v1.json").read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.fixture
def full():
    """A record with something in every field."""
    program = made.good_program(
        copies=(made.RELAYOUT, made.UPCAST),
        collectives=(made.ALL_REDUCE,),
        kernels=("flash",),
        unstable=("temp_bytes",),
        opcodes={"dot": 2},
        extra={"later": 1},
    )
    case = made.good_case(
        program,
        verdicts=(Verdict(gate="memory", outcome=Outcome.PASS, summary="fits"),),
        findings=(Finding(code="x", severity=Severity.NOTE, message="y"),),
    )
    refused = made.good_case(target="v5e-1", status=Status.FAILED, error="no")
    return made.record(case, replace(refused, program=None, estimate=None, fit=None), extra={"newer": True})


def test_what_is_written_is_read_back(full):
    """Keys that this version does not know included."""
    assert codec.aot_loads(codec.dumps(full)) == full
    assert codec.aot_case_from_json(codec.to_json(full.cases[0])) == full.cases[0]


def test_a_real_record_validates(validator, full):
    """What the package writes is what the published schema describes."""
    validator.validate(codec.to_json(full))
    assert validator.schema == aot_schema()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema",), "qwenperf.run.v1"),
        (("cases", 0, "status"), "done"),
        (("cases", 0, "program", "copies", 0, "bytes"), "many"),
        (("cases", 0, "target", "devices"), 1.5),
        (("cases", 0, "arguments"), [{"path": "x"}]),
    ],
)
def test_schema_and_reader_refuse_the_same(validator, full, path, value):
    """Nobody can write a record by the schema that the package refuses."""
    data = codec.to_json(full)
    put(data, path, value)
    assert not validator.is_valid(data)
    with pytest.raises(RecordError):
        codec.aot_from_json(data)


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("cases", 0, "program", "temp_bytes"), -1, "cases[0].program.temp_bytes is -1"),
        (("cases", 0, "target", "devices"), 0, "4 chips and 0 devices"),
        (("cases", 1, "id"), None, "which is the id of cases[0] too"),
    ],
)
def test_what_no_compiler_gives_is_refused_with_its_place(full, path, value, told):
    """Gates reckon with these numbers, and look programs up by their ids."""
    data = codec.to_json(full)
    put(data, path, data["cases"][0]["id"] if value is None else value)
    with pytest.raises(RecordError) as error:
        codec.aot_from_json(data, "aot.json")
    assert str(error.value).startswith("aot.json: ")
    assert told in str(error.value)


def put(data, path, value):
    """Put a value at a path of keys."""
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
