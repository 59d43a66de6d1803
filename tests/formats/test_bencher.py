"""Bencher Metric Format, in and out."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qwenperf.errors import FormatError
from qwenperf.formats import bencher
from qwenperf.formats.foreign import Told
from qwenperf.formats.place import Document
from qwenperf.schema import codec
from qwenperf.schema.metrics import Direction
from qwenperf.schema.records import CaseRecord, RunRecord, Status, metric

TOLD = Told(modified_at="2026-01-02T03:04:05+00:00")
SAMPLE = {
    "decode": {
        "latency": {"value": 88.0, "lower_value": 87.42, "upper_value": 88.88},
        "throughput": {"value": 5.55, "lower_value": 3.14},
    },
    "make all": {"build-time": {"value": 87.0}},
    "the binary-bencher-ignore": {"file-size": {"value": 42.0}, "Fancy Measure": {"value": -1, "upper_value": 0}},
}


def read(data):
    (run,) = bencher.read([Document(name="bmf.json", text=json.dumps(data))], TOLD)
    return run


def test_measures_of_bencher_have_units_and_directions():
    """Its documentation says both of them; of others it says neither."""
    decode, build, binary = read(SAMPLE).cases
    assert decode.metrics["latency"].interval == (87.42, 88.88)
    assert (decode.metrics["latency"].unit, decode.metrics["latency"].direction) == ("ns", Direction.LOWER)
    assert decode.metrics["throughput"].direction is Direction.HIGHER
    assert decode.metrics["throughput"].interval is None
    assert build.metrics["build-time"].unit == "s"
    assert binary.metrics["Fancy Measure"].direction is Direction.NONE


def test_a_suffix_that_silences_alerts_is_no_part_of_a_name():
    """With and without it a benchmark is one history."""
    binary = read(SAMPLE).cases[2]
    assert binary.id == "the binary"
    assert json.loads(bencher.write([read(SAMPLE)])[0].text).keys() == SAMPLE.keys()


def test_a_report_is_the_same_after_a_round_through_run_json():
    """One bound alone, and keys that nobody here knows, included."""
    data = SAMPLE | {"later": {"latency": {"value": 1.0, "unit": "2027"}}}
    run = codec.loads(codec.dumps(read(data)))
    assert json.loads(bencher.write([run])[0].text) == data


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ([], r"bmf.json: the document is \[\], which is not an object. Give JSON in Bencher Metric Format"),
        ({"a": 1}, "a is 1, which is not an object"),
        ({"a": {"latency": 1}}, "a.latency is 1, which is not an object"),
        ({"a": {"latency": {"mean": 1}}}, "a.latency.value is missing. Found: mean"),
        ({"a": {"latency": {"value": "1"}}}, "a.latency.value is '1', which is not a number"),
        ({"a": {"latency": {"value": float("nan")}}}, "a.latency.value is nan"),
        ({"a": {"latency": {"value": 1, "lower_value": 3, "upper_value": 2}}}, "lower_value is 3, above upper_value 2"),
        ({"a": {"latency": {"value": 1, "lower_value": "x"}}}, "lower_value is 'x', which is not a number"),
        ({"a": {"latency": {"value": 1}}, "a-bencher-ignore": {}}, "two results of 'a'"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(data, told):
    """Benchmark and measure."""
    with pytest.raises(FormatError, match=told):
        read(data)


def test_metrics_of_ours_keep_unit_and_direction():
    """The format has no room for them; their names have."""
    case = CaseRecord(id="m/cached", spec={}, metrics={"tpot_s": metric("tpot_s", 0.2, interval=(0.1, 0.3))})
    lost = CaseRecord(id="m/naive", spec={}, status=Status.TIMED_OUT)
    run = RunRecord(id="r", created_at="2026-01-01T00:00:00+00:00", suite="s", environment={}, cases=(case, lost))
    (document,) = bencher.write([run])
    data = json.loads(document.text)
    assert data == {"m/cached": {"tpot_s": {"value": 0.2, "lower_value": 0.1, "upper_value": 0.3}}}
    assert read(data).cases[0].metrics["tpot_s"] == case.metrics["tpot_s"]


@pytest.mark.parametrize(
    ("cases", "told"),
    [
        ((), "no measured case"),
        (
            (CaseRecord(id="x" * 1025, spec={}, metrics={"tpot_s": metric("tpot_s", 1)}),),
            "1025 characters; Bencher takes 1024",
        ),
    ],
)
def test_what_bencher_would_refuse_is_not_written(cases, told):
    """Nothing to report, and names that are too long."""
    run = RunRecord(id="r", created_at="2026-01-01T00:00:00+00:00", suite="s", environment={}, cases=cases)
    with pytest.raises(FormatError, match=told):
        bencher.write([run])


FINITE = st.floats(allow_nan=False, allow_infinity=False)
METRIC = st.fixed_dictionaries({"value": FINITE}, optional={"lower_value": FINITE.map(lambda one: min(one, 0.0))})
KEYS = st.text(min_size=1, max_size=12).filter(lambda name: name not in {"mbu", "mfu"})


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(KEYS, st.dictionaries(KEYS, METRIC, min_size=1, max_size=3), min_size=1, max_size=3))
def test_any_report_comes_back(data):
    """Whatever names and numbers."""
    assert json.loads(bencher.write([read(data)])[0].text) == data
