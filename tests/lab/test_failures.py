"""A run in which everything was refused is an error of its own; a run in which anything was measured is a record."""

import pytest

from qwenperf.errors import CheckpointError, ConfigError, EnvironmentUnfitError, MeasurementError
from qwenperf.lab.failures import refusal, refused
from qwenperf.schema.records import CaseRecord, RunRecord, metric
from qwenperf.workloads.case import Case, Workload

CASE = Case(model="tiny", engine="cached", workload=Workload(prompt_length=4, new_tokens=6))
MEASURED = CaseRecord(id="measured", spec={}, metrics={"ttft_s": metric("ttft_s", 0.5)})


def run_of(*errors, more=(), **changes):
    cases = (*(refused(CASE, error) for error in errors), *more)
    return RunRecord(id="r", created_at="", suite="ad-hoc", environment={}, cases=cases, **changes)


@pytest.mark.parametrize(
    ("errors", "code", "told"),
    [
        ([ConfigError("a.")], 2, "a."),
        ([CheckpointError("a.", advice="Look."), CheckpointError("a.", advice="Look.")], 2, "a. Look."),
        ([ConfigError("a."), ConfigError("b.")], 2, "a. b."),
        ([EnvironmentUnfitError("no hub.")], 4, "no hub."),
        ([EnvironmentUnfitError("no hub."), ConfigError("a.")], 2, "no hub. a."),
    ],
)
def test_what_refused_every_case_is_the_runs_error(errors, code, told):
    """With the exit code that counts, and each message once."""
    error = refusal(run_of(*errors))
    assert (error.exit_code, str(error)) == (code, told)


@pytest.mark.parametrize(
    "run",
    [
        run_of(),
        run_of(ConfigError("a."), more=(MEASURED,)),
        run_of(MeasurementError("a crash.")),
        run_of(ConfigError("a."), interrupted=True),
    ],
    ids=["no case", "one measured", "one that was started", "interrupted"],
)
def test_any_other_run_is_kept(run):
    """What was measured, or began to be, is worth a record."""
    assert refusal(run) is None
