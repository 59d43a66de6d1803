import pytest

from qwenperf.pytest_plugin.session import InconclusiveWarning, Recorded, tell
from qwenperf.schema.records import CaseRecord, Outcome, Verdict

NOISY = Verdict(gate="throughput", outcome=Outcome.INCONCLUSIVE, summary="too noisy")
SKIPPED = Verdict(gate="tokens", outcome=Outcome.SKIPPED, summary="nothing to compare with", advice="Do this.")


def test_nothing_is_imported_for_a_test_that_asks_nothing(pytester):
    """A suite that does not use the fixture pays for no JAX and no numpy."""
    pytester.makepyfile(
        """
        import sys

        def test_nothing(request):
            assert request.config.pluginmanager.has_plugin("qwenperf")
            assert not {"jax", "flax", "numpy"} & set(sys.modules)
        """
    )
    pytester.runpytest_subprocess("-p", "no:jaxtyping").assert_outcomes(passed=1)


@pytest.mark.slow
def test_xdist_runs_what_is_not_timed_and_refuses_the_rest(engine):
    """Tests side by side would time each other."""
    engine.makepyfile(
        """
        from engine import *

        def test_untimed(qwenperf):
            qwenperf.tokens_match(generate, PROMPT, 3, against=generate)

        def test_timed(qwenperf):
            qwenperf.at_least(0.001, "tokens/s", (prefill, step), PROMPT, 5)
        """
    )
    result = engine.runpytest_subprocess("-n1", "-p", "no:benchmark", "--qwenperf-out", "out")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["*EnvironmentUnfitError: not timed: pytest-xdist runs tests side by side (this is gw0)*"]
    )
    result.stdout.fnmatch_lines(["qwenperf: 2 cases in *run.json"])
    result.stdout.no_fnmatch_line("*nothing was measured*")


def test_a_folder_that_cannot_be_written_ends_the_session_at_once(pytester):
    """Nobody measures for an hour to lose it at the end."""
    pytester.makepyfile("def test_nothing(): pass")
    (pytester.path / "file").touch()
    result = pytester.runpytest_inprocess("--qwenperf-out", "file/below")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--qwenperf-out: cannot write file/below*"])


def test_nothing_measured_writes_nothing(pytester):
    """A session without a question has no record, and says so."""
    pytester.makepyfile("def test_nothing(): pass")
    result = pytester.runpytest_inprocess("--qwenperf-out", "out")
    result.stdout.fnmatch_lines(["*qwenperf: nothing was measured*"])
    assert not list((pytester.path / "out").glob("*/run.json"))


def test_an_inconclusive_verdict_warns_or_fails():
    """The command line, or the marker, decides; neither hides it."""
    with pytest.warns(InconclusiveWarning, match="throughput is inconclusive for mine: too noisy"):
        tell([NOISY], subject="mine", inconclusive="warn", required=())
    with pytest.raises(pytest.fail.Exception, match="too noisy"):
        tell([NOISY], subject="mine", inconclusive="fail", required=())


def test_a_gate_that_was_asked_for_and_could_not_judge_fails():
    """Skipped is green only where nobody asked."""
    tell([SKIPPED], subject="mine", inconclusive="warn", required=())
    with pytest.raises(
        pytest.fail.Exception, match=r"tokens could not judge mine: nothing to compare with\n    Do this."
    ):
        tell([SKIPPED], subject="mine", inconclusive="warn", required=("tokens",))


def test_cases_of_one_name_are_told_apart():
    """The second measurement of one engine in one test gets a number."""
    recorded = Recorded(out=None)
    for _ in range(3):
        recorded.add(CaseRecord(id="mine", spec={}))
    assert [case.id for case in recorded.cases] == ["mine", "mine#2", "mine#3"]
