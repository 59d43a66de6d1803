"""The record of regressions reads back what it wrote, and refuses what it did not."""

import dataclasses
import json

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qwenperf.errors import RecordError
from qwenperf.schema.metrics import Direction
from qwenperf.schema.published import regressions_schema
from qwenperf.schema.regressions import (
    Cause,
    Form,
    Regression,
    RegressionsRecord,
    RegressionStatus,
    dumps,
    loads,
    to_json,
)

ONE = Regression(
    id="0a1b2c3d",
    case="tiny/cached",
    metric="tpot_s",
    unit="s",
    direction=Direction.LOWER,
    form=Form.STEP,
    before=0.001,
    after=0.00103,
    size=0.03,
    interval=(0.02, 0.04),
    run="r7",
    commits=("a" * 40,),
)

numbers = st.floats(allow_nan=False, allow_infinity=False)
regressions = st.builds(
    dataclasses.replace,
    st.just(ONE),
    size=numbers,
    interval=st.none() | st.tuples(numbers, numbers),
    status=st.sampled_from(RegressionStatus),
    cause=st.sampled_from(Cause),
    form=st.sampled_from(Form),
    reason=st.text(),
    commits=st.lists(st.text()).map(tuple),
    explained=st.lists(st.text()).map(tuple),
    is_relative=st.booleans(),
)


@given(st.lists(regressions, max_size=2))
@settings(deadline=None, max_examples=15)
def test_what_was_written_is_read(found):
    """Every field, and keys of a newer version too."""
    record = RegressionsRecord(updated_at="2026-11-28T09:00:00+00:00", regressions=tuple(found), extra={"newer": 1})
    text = dumps(record)
    assert loads(text) == record
    jsonschema.validate(json.loads(text), regressions_schema())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "schema is"),
        ('{"schema": "qwenperf.regressions.v9"}', "v9"),
        ('{"schema": "qwenperf.regressions.v1", "regressions": [{"id": "x"}]}', r"regressions\[0\].case is missing"),
    ],
)
def test_what_is_no_record_is_refused_by_name(text, message):
    """With the file and the key."""
    with pytest.raises(RecordError, match=f"here.json.*{message}"):
        loads(text, "here.json")


def test_a_status_that_nobody_knows_is_refused():
    """The nearest is offered."""
    data = json.loads(dumps(RegressionsRecord(regressions=(ONE,))))
    data["regressions"][0]["status"] = "fixd"
    with pytest.raises(RecordError, match="fixed"):
        loads(json.dumps(data))


def test_a_number_that_is_none_is_not_written():
    """JSON has no word for it."""
    with pytest.raises(RecordError, match="finite numbers only"):
        dumps(RegressionsRecord(regressions=(dataclasses.replace(ONE, size=float("nan")),)))
    with pytest.raises(RecordError, match="0a1b2c3d cannot be written"):
        to_json(dataclasses.replace(ONE, p_value=float("nan")))
