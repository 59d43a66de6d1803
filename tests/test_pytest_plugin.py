import json
import re
import shutil
from collections import Counter

import flax.linen  # noqa: F401 -- see below
import pytest

# Sessions inside this one forget what they import, and JAX cannot be imported twice: so it is here already.
import qwenperf.lab.calls
import qwenperf.lab.request  # noqa: F401
from qwenperf.errors import ConfigError
from qwenperf.gate.budget_set import BudgetSet
from qwenperf.gate.evaluate import judge_run
from qwenperf.gate.verdict import exit_code
from qwenperf.pytest_plugin.project import budgets_for
from qwenperf.pytest_plugin.session import InconclusiveWarning, Recorded, tell
from qwenperf.schema.codec import loads
from qwenperf.schema.records import CaseRecord, Outcome, Status, Verdict

ENGINE = """
    import jax, jax.numpy as jnp, numpy as np

    PROMPT = [3, 1, 2]

    def logits_of(last):
        return jax.nn.one_hot((last + 1) % 5, 5)

    @jax.jit
    def prefill(tokens):
        return logits_of(tokens[:, -1]), tokens

    @jax.jit
    def step(token, seen):
        return logits_of(token), seen

    @jax.jit
    def growing(token, seen):
        return logits_of(token), jnp.concatenate([seen, token[:, None]], axis=1)

    @jax.jit
    def wrong(token, seen):
        return logits_of(token + 1), seen

    def generate(tokens, new_tokens):
        rows = [(np.asarray(tokens)[:, -1] + 1 + i) % 5 for i in range(new_tokens)]
        return np.stack(rows, axis=1)

    def lying(tokens, new_tokens):
        return np.zeros((len(tokens), new_tokens), np.int32)
"""


@pytest.fixture
def engine(pytester):
    pytester.makepyfile(engine=ENGINE)
    pytester.syspathinsert()
    return pytester


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


def test_bad_engines_fail_and_the_message_says_where(engine):
    """The function, the argument, both shapes and the line of the test; the position and both tokens."""
    engine.makepyfile(
        test_bad="""
        from engine import *

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

        def test_no_engine(qwenperf):
            qwenperf.tokens_match(3, PROMPT, 5)
        """
    )
    result = engine.runpytest_inprocess("--qwenperf-out", "out")
    result.assert_outcomes(failed=7)
    for pattern in (
        r"failed for growing: growing compiled 2 times .*`seen` changed shape i32\[1,\d\] -> i32\[1,5\].*_bad.py:4",
        r"prefill compiled 1 time .*`tokens` changed shape i32\[1,7\] -> i32\[1,8\], called from .*test_bad.py:7",
        r"shapes failed for the block: prefill compiled 1 time .*called from .*test_bad.py:11",
        r"tokens failed for wrong/b1-p3-n5-f32: token 1 differs: uncached chose 4, the engine 0",
        r"tokens failed for lying/b1-p3-n5-f32: token 0 differs: generate chose 3, the engine 0",
        r"UsageError: generate has no uncached logits. Hand over uncached=",
        r"UsageError: int 3 is no engine. Give a generate",
    ):
        result.stdout.re_match_lines([f".*{pattern}"])
    record = _record(engine.path / "out")
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


def test_timed_questions_are_answered_with_all_that_was_measured(engine):
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
    assert Counter(case.spec.get("engine") for case in _record(engine.path / "out").cases) == {
        "step": 6,
        "<lambda>": 1,
        "generate": 1,
        None: 1,
    }


def test_a_question_that_ends_in_an_error_is_a_failed_case(engine):
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
    record = _record(engine.path / "out")
    ids = ["test_crash.py::test_engine/tokens_match", "test_crash.py::test_block/no_recompiles"]
    assert [case.id for case in record.cases] == list(record.declared) == ids
    assert {(case.status, case.error) for case in record.cases} == {
        (Status.FAILED, "ZeroDivisionError: division by zero")
    }
    assert exit_code(judge_run(record, BudgetSet()))


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


NOISY = Verdict(gate="throughput", outcome=Outcome.INCONCLUSIVE, summary="too noisy")
SKIPPED = Verdict(gate="tokens", outcome=Outcome.SKIPPED, summary="nothing to compare with", advice="Do this.")


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


def test_budgets_of_the_project_hold_and_those_of_the_marker_win(tmp_path):
    """Globs of the file are matched against the id in the record; a longer glob does not beat the marker."""
    (tmp_path / "pyproject.toml").write_text(
        "[tool.qwenperf.budgets.'test_x.py::test[[]a]/mine/*']\ncompiles_cold.max = 3\npeak_bytes.max = 7\n"
        "[tool.qwenperf.budgets.'other/*']\ncompile_s.max = 1\n"
    )
    case_id = "test_x.py::test[a]/mine/b1"
    limits = budgets_for(case_id, {"compiles_cold": {"max": 5}}, tmp_path).for_case(case_id, "").limits
    assert {name: limit.max for name, limit in limits.items()} == {"compiles_cold": 5, "peak_bytes": 7}
    assert budgets_for(case_id, {}, tmp_path / "none").budgets == ()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[tool.qwenperf.budgets.'*']\npeek_bytes.max = 1", r"'peek_bytes' in .*pyproject.toml .* mean 'peak_bytes'"),
        ("[tool.qwenperf]\nbudgets = 3", r"pyproject.toml: budgets of .* is not a table"),
        ("[tool", r"cannot read .*pyproject.toml"),
    ],
)
def test_a_bad_budget_of_the_project_is_named(tmp_path, text, told):
    """The file, the key and the nearest one, as on the command line."""
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(ConfigError, match=told):
        budgets_for("mine", {}, tmp_path)


def test_cases_of_one_name_are_told_apart():
    """The second measurement of one engine in one test gets a number."""
    recorded = Recorded(out=None)
    for _ in range(3):
        recorded.add(CaseRecord(id="mine", spec={}))
    assert [case.id for case in recorded.cases] == ["mine", "mine#2", "mine#3"]


def test_the_examples_pass(pytester, repository):
    """What people copy works; the timed ones are left to a quiet machine."""
    shutil.copytree(repository / "examples", pytester.path / "examples")
    result = pytester.runpytest_inprocess("examples", "-W", "ignore::pytest.PytestUnknownMarkWarning", "-m", "not perf")
    result.assert_outcomes(passed=7, deselected=4)


def test_the_documented_tests_pass(pytester, repository):
    """Every block of docs/pytest.md is a file, and runs."""
    text = (repository / "docs" / "pytest.md").read_text()
    blocks = re.findall(r"^```python title=(\S+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == text.count("```python")
    (project,) = re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    for name, code in [*blocks, ("pyproject.toml", project)]:
        (pytester.path / name).write_text(code)
    case_id = "test_gates.py::test_every_gate/decode_step/b1-p5-n16-f32"
    assert budgets_for(case_id, {}, pytester.path).for_case(case_id, "").limits.keys() == {"compiles_steady"}
    pytester.syspathinsert()
    pytester.runpytest_inprocess("-W", "ignore::qwenperf.pytest_plugin.InconclusiveWarning").assert_outcomes(passed=7)


def _record(out):
    (path,) = out.glob("*/run.json")
    return loads(path.read_text())
