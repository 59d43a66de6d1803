"""A question of time waits while something else is measured on the machine, and says so at once; others do not."""

import pytest


@pytest.mark.usefixtures("measured_beside")
def test_only_questions_of_time_wait_and_the_reason_is_told_through_pytest_s_capture(engine, monkeypatch):
    monkeypatch.setenv("QWENPERF_LOCK_WAIT", "0.8")
    engine.makepyfile(
        """
        from engine import PROMPT, prefill, step

        def test_tokens(qwenperf):
            qwenperf.tokens_match((prefill, step), PROMPT, 4)

        def test_speed(qwenperf):
            qwenperf.at_least(1, "tokens/s", (prefill, step), PROMPT, 4)
        """
    )
    result = engine.runpytest_inprocess("-p", "no:xdist")
    result.assert_outcomes(passed=1, failed=1)
    result.stderr.fnmatch_lines(["qwenperf: waiting, 800 ms at most*process * (qwenperf compare main), since *"])
    result.stdout.fnmatch_lines(["*MachineBusyError: another measurement runs on this machine: process *"])
