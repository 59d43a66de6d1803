import pytest

from qwenperf.schema.codec import loads

STEPS = """
    import jax, jax.numpy as jnp

    def state():
        return {"w": jnp.ones((64, 64)), "count": jnp.int32(0)}

    def train_step(state, batch):
        w = state["w"] * 0.5 + jnp.mean(batch)
        return {"w": w, "count": state["count"] + 1}, jnp.sum(w)

    def numbered(state, batch, number):
        return train_step(state, batch * number)

    BATCH = jnp.ones((4,))
    good = jax.jit(train_step, donate_argnames="state")
    kept = jax.jit(train_step)
    counted = jax.jit(numbered, static_argnames="number", donate_argnames="state")
"""


@pytest.fixture
def session(pytester):
    pytester.makepyfile(steps=STEPS)
    pytester.syspathinsert()
    return pytester


def test_steps_pass_or_fail_with_the_name_of_what_is_wrong(session):
    """A sound step passes with its budgets; a recompile, a lost donation and a broken budget fail, each by its gate."""
    session.makepyfile(
        """
        import pytest
        from steps import BATCH, counted, good, kept, state

        @pytest.mark.qwenperf(trials=2, budgets={"peak_bytes": {"max": 1e6}, "call_tokens_per_s": {"min": 1e-3}})
        def test_good(qwenperf):
            case = qwenperf.steps(good, state(), BATCH, tokens_per_call=4)
            assert {one.outcome for one in case.verdicts} <= {"pass", "inconclusive"}

        def test_recompiles(qwenperf):
            qwenperf.steps(counted, state(), calls=[(BATCH, number) for number in range(4)])

        def test_copies(qwenperf):
            qwenperf.steps(kept, state(), BATCH)

        @pytest.mark.qwenperf(budgets={"peak_bytes": {"max": 10}})
        def test_memory(qwenperf):
            qwenperf.steps(good, state(), BATCH)

        @pytest.mark.qwenperf(budgets={"call_tokens_per_s": {"min": 1}})
        def test_unjudged(qwenperf):
            qwenperf.steps(good, state(), BATCH)
        """
    )
    result = session.runpytest("--qwenperf-out=out", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=4)
    result.stdout.fnmatch_lines(
        [
            "*qwenperf shapes failed for numbered/steps: numbered compiled 2 times*argument `number` changed static*",
            "*qwenperf carry-alias failed for train_step/steps: *`state?'w'? f32?64,64?` from call to call*",
            "*qwenperf budget:peak_bytes failed for train_step/steps: peak_bytes *",
            "*qwenperf budget:call_tokens_per_s could not judge train_step/steps: *was not measured*",
        ]
    )
    run = loads(next((session.path / "out").glob("*/run.json")).read_text("utf-8"))
    assert [case.id.partition("::")[2] for case in run.cases] == [
        "test_good/train_step/steps",
        "test_recompiles/numbered/steps",
        "test_copies/train_step/steps",
        "test_memory/train_step/steps",
        "test_unjudged/train_step/steps",
    ]


def test_a_step_without_a_program_is_told_at_the_end(session):
    """What had nothing to judge is no silent pass."""
    session.makepyfile(
        """
        from steps import BATCH, good, state

        def wrapped(state, batch):
            return good(state, batch)

        def test_wrapped(qwenperf):
            qwenperf.steps(wrapped, state(), BATCH)
        """
    )
    result = session.runpytest("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["qwenperf: *test_wrapped: carry-alias had nothing to judge: the compiled step*; it is not jitted*"]
    )


def test_a_worker_of_xdist_times_no_step(session, monkeypatch):
    """Beside other tests compiles and programs are judged, and a limit on time is refused."""
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    session.makepyfile(
        """
        import pytest
        from steps import BATCH, good, state

        def test_untimed(qwenperf):
            assert "call_s" not in qwenperf.steps(good, state(), BATCH).metrics

        @pytest.mark.qwenperf(budgets={"calls_per_s": {"min": 1e-3}})
        def test_timed(qwenperf):
            qwenperf.steps(good, state(), BATCH)
        """
    )
    result = session.runpytest("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*EnvironmentUnfitError: not timed: *gw0*"])
