import json
from collections import Counter

from qwenperf.gate.budget_set import BudgetSet
from qwenperf.gate.evaluate import judge_run
from qwenperf.gate.verdict import exit_code
from qwenperf.schema.records import Status


def test_good_engines_pass(engine):
    """Each question about recompiles and tokens, in one line, for a function and for a pair."""
    engine.makepyfile(
        """
        from engine import *

        def test_pair(qwenperf):
            qwenperf.no_recompiles((prefill, step), PROMPT, 5)
            assert qwenperf.tokens_match((prefill, step), PROMPT, 5).metrics["tokens_equal"].value == 1

        def test_function(qwenperf):
            assert qwenperf.no_recompiles(generate, np.array([PROMPT]), 5).tolist() == [[3, 4, 0, 1, 2]]
            qwenperf.no_recompiles(prefill, calls=[np.array([PROMPT]), np.array([PROMPT])])
            qwenperf.tokens_match(generate, PROMPT, 5, against=(prefill, step))

        def test_block(qwenperf):
            with qwenperf.no_recompiles():
                step(np.ones(1, np.int32), np.ones((1, 3), np.int32)) if False else None
        """
    )
    engine.runpytest_inprocess().assert_outcomes(passed=3)


def test_bad_engines_fail_and_the_message_says_where(engine, record_of):
    """The function, the argument, both shapes and the line of the test; the position and both tokens."""
    engine.makepyfile(
        test_bad="""
        import pytest; from engine import *

        def test_growth(qwenperf):
            qwenperf.no_recompiles((prefill, growing), PROMPT, 5)

        def test_shapes(qwenperf):
            qwenperf.no_recompiles(prefill, calls=[np.ones((1, 7), np.int32), np.ones((1, 8), np.int32)])

        def test_block(qwenperf):
            with qwenperf.no_recompiles():
                prefill(np.ones((1, 9), np.int32))

        def test_tokens(qwenperf):
            qwenperf.tokens_match((prefill, wrong), PROMPT, 5)

        def test_function(qwenperf):
            qwenperf.tokens_match(lying, PROMPT, 5, against=generate)

        def test_no_truth(qwenperf):
            qwenperf.tokens_match(generate, PROMPT, 5)

        def test_two_truths(qwenperf):
            qwenperf.tokens_match((prefill, step), PROMPT, 5, uncached=lambda tokens: tokens, against=generate)

        def test_no_engine(qwenperf):
            qwenperf.tokens_match(3, PROMPT, 5)

        def test_unmade_call(qwenperf):
            qwenperf.no_recompiles(prefill, PROMPT, calls=[PROMPT])

        def test_unmade_requests(qwenperf):
            qwenperf.no_recompiles((prefill, step), PROMPT, 5, calls=[(PROMPT, 5)])

        @pytest.mark.qwenperf(trials=0)
        def test_no_trial(qwenperf):
            qwenperf.passes((prefill, step), PROMPT, 5)
        """
    )
    result = engine.runpytest_inprocess("--qwenperf-out", "out")
    result.assert_outcomes(failed=11)
    for pattern in (
        r"failed for growing: growing compiled 2 times .*`seen` changed shape i32\[1,\d\] -> i32\[1,5\].*_bad.py:4",
        r"prefill compiled 1 time .*`tokens` changed shape i32\[1,7\] -> i32\[1,8\], called from .*test_bad.py:7",
        r"shapes failed for the block: prefill compiled 1 time .*called from .*test_bad.py:11",
        r"tokens failed for wrong/b1-p3-n5-f32: token 1 differs: uncached chose 4, the engine 0",
        r"tokens failed for lying/b1-p3-n5-f32: token 0 differs: generate chose 3, the engine 0",
        r"UsageError: generate has no uncached logits. Hand over uncached=",
        r"UsageError: no_recompiles has calls= and other arguments: these would not be made",
        r"UsageError: no_recompiles has calls= and an engine: these would not be made",
        r"UsageError: tokens_match has uncached= and against=",
        r"UsageError: int 3 is no engine. Give a generate",
        r"UsageError: trials=0 is not a whole number of at least 1",
    ):
        result.stdout.re_match_lines([f".*{pattern}"])
    record = record_of(engine.path / "out")
    assert {verdict.gate for case in record.cases for verdict in case.verdicts} == {"shapes", "tokens"}
    assert record.declared == tuple(case.id for case in record.cases)
    assert record.cases[0].id.startswith("test_bad.py::test_growth/")
    assert record.environment["platform"] == "cpu"


def test_questions_that_ask_nothing_are_refused(engine):
    """No rate, no engine, a block that nobody entered, a request that compiles for every token: none is green."""
    engine.makepyfile(
        test_misuse="""
        import pytest
        from engine import *

        @pytest.mark.parametrize("value", [float("nan"), float("inf"), -1, 0, "10", True, None])
        def test_rate(qwenperf, value):
            qwenperf.at_least(value, "tokens/s", (prefill, step), PROMPT, 5)

        def test_none(qwenperf):
            qwenperf.no_recompiles(None, PROMPT, 5)

        def test_not_entered(qwenperf):
            qwenperf.no_recompiles()

        def test_bare(qwenperf):
            def decode(tokens, new_tokens):
                for _ in range(new_tokens):
                    tokens = np.concatenate([tokens, np.argmax(prefill(tokens)[0], -1)[:, None]], 1)
                return tokens

            qwenperf.no_recompiles(decode, np.array([PROMPT]), 8)
        """
    )
    result = engine.runpytest_inprocess()
    result.assert_outcomes(failed=9, passed=1, errors=1)
    for pattern in (
        r"UsageError: at_least\(nan, 'tokens/s'\): that is no rate. Give a number above 0",
        r"UsageError: at_least\('10', 'tokens/s'\): that is no rate",
        r"UsageError: no_recompiles\(None\): that is no function and no engine",
        r"UsageError: no_recompiles\(\) watched nothing. Write `with qwenperf.no_recompiles\(\):`",
        r"shapes failed for decode: prefill compiled 7 times within one request: .*-> i32\[1,10\]",
    ):
        result.stdout.re_match_lines([f".*{pattern}"])


def test_under_debugging_a_question_is_one_error_that_says_so(engine):
    """And not a test that is green because nothing is ever compiled."""
    engine.makepyfile(
        """
        import jax

        def test_block(qwenperf):
            with jax.disable_jit(), qwenperf.no_recompiles():
                jax.jit(lambda x: x + 1)(1)

        def test_program(qwenperf):
            with jax.debug_nans(True):
                qwenperf.compiles_for("v5e-1", jax.jit(lambda x: x + 1, donate_argnums=0), 1.0)
        """
    )
    result = engine.runpytest_inprocess()
    result.assert_outcomes(failed=2)
    for name in ("JAX_DISABLE_JIT", "JAX_DEBUG_NANS"):
        result.stdout.re_match_lines([rf".*EnvironmentUnfitError: {name} set"])


def test_timed_questions_are_answered_with_all_that_was_measured(engine, record_of):
    """Floors that hold and do not, budgets of marker and project, a missing truth, and pytest-benchmark's JSON."""
    engine.makepyprojecttoml(
        """
        [tool.qwenperf.budgets."*::test_project*/step/*"]
        compiles_cold = { max = 0 }
        """
    )
    engine.makepyfile(
        """
        import pytest
        from engine import *

        pytestmark = pytest.mark.qwenperf(trials=2)

        def test_floor(qwenperf, benchmark):
            case = qwenperf.at_least(0.001, "tokens/s", (prefill, step), PROMPT, 5)
            qwenperf.extra_info(benchmark, case)
            benchmark(int)

        def test_ceiling(qwenperf):
            qwenperf.at_least(1e12, "tokens/s", (prefill, step), PROMPT, 300)

        def test_times(qwenperf):
            # Long enough that no other work on the machine swallows the time of decoding.
            case = qwenperf.at_least(1e-9, "times", (prefill, step), PROMPT, 300, than=(prefill, step))
            assert len(case.metrics["decode_tokens_per_s"].samples) == 2

        @pytest.mark.qwenperf(budgets={"compiles_cold": {"max": 0}})
        def test_budget(qwenperf):
            qwenperf.passes((prefill, step), np.array([[1, 2, 3, 4]]), 5)

        def test_project(qwenperf):
            qwenperf.passes((prefill, step), np.array([[1, 2, 3, 4, 0, 1]]), 5)

        @pytest.mark.qwenperf(budgets={"compiles_cold": {"max": 99}})
        def test_project_overruled(qwenperf):
            qwenperf.passes((prefill, step), PROMPT, 5)

        def test_wrapped(qwenperf):
            qwenperf.passes((prefill, lambda token, seen: step(token, seen)), PROMPT, 5)

        def test_no_truth(qwenperf):
            qwenperf.passes(generate, PROMPT, 5)

        def test_unit(qwenperf):
            qwenperf.at_least(5, "token/s", (prefill, step), PROMPT, 5)

        @pytest.mark.qwenperf(trails=2)
        def test_marker(qwenperf):
            pass

        @pytest.mark.qwenperf(trials=-1)
        def test_trials(qwenperf):
            pass
        """
    )
    result = engine.runpytest_inprocess("--qwenperf-out", "out", "--benchmark-json", "b.json", "--benchmark-disable-gc")
    result.assert_outcomes(passed=4, failed=5, errors=2)
    for pattern in (
        r"throughput failed for step/b1-p3-n300-f32: decode_tokens_per_s .* below its budget of at least 1,000,",
        r"budget:compiles_cold failed for step/b1-p4-n5-f32: compiles_cold \d+ is above its budget of at most 0",
        r"budget:compiles_cold failed for step/b1-p6-n5-f32: .* at most 0",
        r"tokens could not judge generate/b1-p3-n5-f32: .*uncached",
        r"qwenperf: .*::test_project_overruled: cache-alias had nothing to judge: ",
        r"qwenperf: .*::test_wrapped: rotary had nothing to judge: .*; its program is read where decode_step itself is",
        r"UsageError: at_least\(5, 'token/s'\): unknown unit. Did you mean 'tokens/s'",
        r"ConfigError: marker qwenperf has no argument 'trails'. Did you mean 'trials'",
        r"ConfigError: marker qwenperf: trials=-1 is not a whole number of at least 0",
    ):
        result.stdout.re_match_lines([f".*{pattern}"])
    info = json.loads((engine.path / "b.json").read_text())["benchmarks"][0]["extra_info"]["qwenperf"]
    assert info["metrics"]["decode_tokens_per_s"]["unit"] == "tokens/s"
    assert info["verdicts"][0]["outcome"] == "pass"
    assert not [name for name in info["metrics"] if name.startswith("cold_")]
    assert Counter(case.spec.get("engine") for case in record_of(engine.path / "out").cases) == {
        "step": 6,
        "<lambda>": 1,
        "generate": 1,
        None: 1,
    }


def test_a_question_that_ends_in_an_error_is_a_failed_case(engine, record_of):
    """What was asked for and not measured keeps the record from being green."""
    engine.makepyfile(
        test_crash="""
        from engine import *

        def test_engine(qwenperf):
            qwenperf.tokens_match(lambda tokens, new_tokens: 1 / 0, PROMPT, 5, against=generate)

        def test_block(qwenperf):
            with qwenperf.no_recompiles():
                1 / 0
        """
    )
    engine.runpytest_inprocess("--qwenperf-out", "out").assert_outcomes(failed=2)
    record = record_of(engine.path / "out")
    ids = ["test_crash.py::test_engine/tokens_match", "test_crash.py::test_block/no_recompiles"]
    assert [case.id for case in record.cases] == list(record.declared) == ids
    assert {(case.status, case.error) for case in record.cases} == {
        (Status.FAILED, "ZeroDivisionError: division by zero")
    }
    assert exit_code(judge_run(record, BudgetSet()))


def test_an_error_of_jax_that_means_a_common_mistake_is_explained(engine, record_of):
    """Below the error itself, and as a finding of its case."""
    engine.makepyfile(
        test_mistake="""
        from engine import *

        @jax.jit
        def branching(token, seen):
            return (logits_of(token) if token[0] > 0 else logits_of(-token)), seen

        def test_engine(qwenperf):
            qwenperf.no_recompiles((prefill, branching), PROMPT, 5)
        """
    )
    result = engine.runpytest_inprocess("--qwenperf-out", "out")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*TracerBoolConversionError*", "*qwenperf: Python decides by a value that has none*"])
    (case,) = record_of(engine.path / "out").cases
    assert [finding.code for finding in case.findings] == ["traced-control-flow"]
