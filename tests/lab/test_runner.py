"""A case of ours is built from its data and measured in this process."""

import subprocess
import sys

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


def test_what_is_measured_in_time_is_there_before_the_checks():
    """The record that is handed over early has the times and no verdict on tokens yet."""
    early = []
    case = Case(model="tiny", engine="cached-host", workload=Workload(prompt_length=3, new_tokens=8), trials=2)
    whole = run_case(case, Options(trials=2, roofline=False), on_steady=early.append)
    assert early[0].metrics["request_s"] == whole.metrics["request_s"]
    assert early[0].evidence.divergence is None
    assert whole.evidence.divergence.equal


def test_a_process_that_reads_no_gguf_does_not_wait_for_its_reader():
    """Each case starts a process, so what few of them need is imported where it is needed."""
    code = "import sys, qwenperf.lab.runner; print(*sorted({'gguf', 'yaml'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
