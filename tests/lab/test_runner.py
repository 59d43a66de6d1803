"""A case of ours is built from its data and measured in this process."""

import pytest

from qwenperf.errors import CapacityError, ConfigError, UnknownNameError
from qwenperf.lab.options import Options
from qwenperf.lab.runner import run_case
from qwenperf.workloads.case import Case, Workload


def test_a_case_becomes_a_record_of_its_name():
    """Id and data of the record are the case's; without a trace folder there is no trace."""
    case = Case(model="tiny", engine="cached-host", workload=Workload(prompt_length=3, new_tokens=8), trials=2)
    record = run_case(case, Options(trials=2, roofline=False))
    assert record.id == "tiny/cached-host/b1-p3-n8-f32"
    assert Case.from_json(dict(record.spec)) == case
    assert record.trace is None
    assert record.verdicts == ()
    assert record.evidence.divergence.equal
    assert record.evidence.tokens.text is None


@pytest.mark.parametrize(
    ("case", "error"),
    [
        ({"model": "tiyn"}, UnknownNameError),
        ({"engine": "cahced"}, UnknownNameError),
        ({"workload": Workload(prompt_length=1000, new_tokens=100)}, (CapacityError, ConfigError)),
    ],
)
def test_what_cannot_be_measured_is_an_error_of_the_tree(case, error):
    """A mistyped name or a request that does not fit is refused, not tried."""
    usual = {"model": "tiny", "engine": "cached", "workload": Workload(prompt_length=3, new_tokens=8)}
    with pytest.raises(error):
        run_case(Case(**{**usual, **case}))
