import dataclasses
from types import SimpleNamespace

import pytest

from qwenperf.pytest_plugin.record_files import RecordFiles
from qwenperf.pytest_plugin.session import InconclusiveWarning, Recorded, kept, tell
from qwenperf.schema.codec import loads
from qwenperf.schema.records import CaseRecord, Outcome, Verdict, metric

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
    # Other people's plugins may import what they like.
    others = ("jaxtyping", "schemathesis", "hypothesispytest", "benchmark", "pytest_postgresql", "anyio")
    without = [word for name in others for word in ("-p", f"no:{name}")]
    pytester.runpytest_subprocess(*without).assert_outcomes(passed=1)


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
    engine.makepyprojecttoml("[tool.qwenperf.budgets.'*::test_untymed/*']\ncompiles_cold.max = 9")
    known = ("-n1", "-p", "no:benchmark", "-k", "untimed")
    engine.runpytest_subprocess(*known).stdout.no_fnmatch_line("*test_untymed*")
    result = engine.runpytest_subprocess("-n1", "-p", "no:benchmark", "--override-ini", "python_functions=test_unt*")
    result.assert_outcomes(passed=1)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["qwenperf: failed: the budget '*::test_untymed/*' matches no case of this session*"])


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


ONE = """
    def test_one(qwenperf):
        qwenperf.no_recompiles(int)
"""


def test_what_was_measured_is_on_disk_before_the_next_question(engine, record_of):
    """A time-out that kills the process, or an abort of the compiler, takes no earlier case with it."""
    engine.makepyfile(
        ONE
        + """
    def test_killed():
        import json, pathlib

        (file,) = pathlib.Path("out").glob("*/run.json")
        there = json.loads(file.read_text())
        assert [case["id"] for case in there["cases"]] == [there["declared"][0]]
        assert there["interrupted"]  # what is judged from here on is not whole, and so not green
    """
    )
    result = engine.runpytest_inprocess("-p", "no:xdist", "--qwenperf-out", "out")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["qwenperf: 1 case in *run.json"])
    assert not record_of(engine.path / "out").interrupted


@pytest.mark.parametrize(
    ("conftest", "code"),
    [
        ("def pytest_runtest_setup(item):\n    item.name == 'test_two' and pytest.exit('bye', returncode=0)", 0),
        ("def pytest_runtest_logreport(report):\n    assert 'test_two' not in report.nodeid", 3),
    ],
)
def test_a_session_that_broke_off_is_not_whole_whatever_its_exit_code(engine, record_of, conftest, code):
    """A crash of pytest or of a plugin, and pytest.exit with a code of its own, leave tests that never ran."""
    engine.makeconftest(f"import pytest\n\n{conftest}\n")
    engine.makepyfile(ONE + "\n    def test_two():\n        pass\n")
    assert engine.runpytest_inprocess("-p", "no:xdist", "--qwenperf-out", "out").ret == code
    assert record_of(engine.path / "out").interrupted


def test_a_question_that_saw_nothing_of_jax_is_told(engine):
    """What another process computes passes, and a line says that there was nothing to see."""
    engine.makepyfile(ONE)
    result = engine.runpytest_inprocess("-p", "no:xdist")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["qwenperf: *::test_one: no_recompiles saw nothing of JAX: *another process*"])


def test_noise_that_is_made_an_error_leaves_no_failed_case():
    """With -W error a warning fails the test; the case itself was measured."""
    checks = SimpleNamespace(recorded=Recorded(), test="t")

    @kept
    def question(checks):
        raise InconclusiveWarning(f"too noisy: {checks.test}")

    with pytest.raises(InconclusiveWarning):
        question(checks)
    assert checks.recorded.cases == []


def test_the_record_under_way_reads_as_the_one_at_the_end(tmp_path):
    """But for being interrupted: whoever finds the first has all that was measured until then."""
    recorded = Recorded(files=RecordFiles(out=tmp_path, root=tmp_path))
    for value in (1.0, 2.0):
        recorded.add(CaseRecord(id="mine", spec={"test": "t"}, metrics={"ttft_s": metric("ttft_s", value)}))
    under_way = loads(recorded.written.read_text())
    assert [(one.id, one.metrics["ttft_s"].value) for one in under_way.cases] == [("mine", 1.0), ("mine#2", 2.0)]
    recorded.write(interrupted=False)
    assert loads(recorded.written.read_text()) == dataclasses.replace(under_way, interrupted=False)


def test_a_record_that_cannot_be_written_is_one_line_and_a_failed_session(engine):
    """No traceback; the tests themselves are not to blame."""
    engine.makepyfile(
        """
        import pathlib, shutil
        """
        + ONE.replace(
            "def test_one(qwenperf):", "def test_one(qwenperf):\n        pathlib.Path('out').write_text('no folder')"
        )
    )
    result = engine.runpytest_inprocess("-p", "no:xdist", "--qwenperf-out", "out")
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["qwenperf: failed: --qwenperf-out: cannot write out*"])
    for stream in (result.stdout, result.stderr):
        stream.no_fnmatch_line("*Traceback*")
        stream.no_fnmatch_line("*INTERNALERROR*")
    result.stdout.no_fnmatch_line("*nothing was measured*")


@pytest.mark.parametrize(
    ("glob", "words", "told", "code"),
    [
        ("*test_asks.py::test_one/*", (), None, 0),
        ("*test_asks.py::test_won/*", (), "failed: the budget ?*::test_won/?? matches no case of this session*", 1),
        ("*test_asks.py::test_won/*", ("test_asks.py",), "the budget * matches no case of this session*", 0),
        ("*test_asks.py::test_won/*", ("-k", "one"), None, 0),
        ("*test_ask.py::test_one/*", (), "the budget ?*test_ask.py*The nearest case is ?test_asks.py::test_one/*", 0),
        ("*test_ask.py::test_one/*", ("test_asks.py",), None, 0),
        ("*test_other.py::test_skipped/*", (), "the budget * matches no case of this session*", 0),
        ("4x128/*", (), None, 0),
    ],
)
def test_a_budget_of_tests_that_matches_none_is_noticed(engine, glob, words, told, code):
    """It fails a session that ran all it may mean; of tests that were left out or lie elsewhere it may be right."""
    engine.makepyprojecttoml(f"[tool.qwenperf.budgets.'{glob}']\ncompiles_steady.max = 0")
    skipped = "import pytest\n\ndef test_free(): pass\n\ndef test_skipped(): pytest.skip('no GPU')\n"
    engine.makepyfile(test_asks=f"{ONE}\n    def test_two(): pass", test_other=skipped)
    result = engine.runpytest_inprocess("-p", "no:xdist", *words)
    assert result.ret == code
    if told is None:
        result.stdout.no_fnmatch_line("*matches no case*")
    else:
        result.stdout.fnmatch_lines([f"qwenperf: {told}"])


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ("compiles_steady.max = 0", None),
        ("compiles_steady.max = 0\nargument_bytes.max = 1\nttft_s.max = 1", "argument_bytes, ttft_s: passes does"),
    ],
)
def test_a_budget_that_no_question_judged_is_told(engine, limits, told):
    """A budget matches the case of a question that does not look at it: green says nothing of it."""
    engine.makepyprojecttoml(f"[tool.qwenperf.budgets.'*::test_one/*']\n{limits}")
    engine.makepyfile(ONE)
    result = engine.runpytest_inprocess("-p", "no:xdist")
    result.assert_outcomes(passed=1)
    if told is None:
        result.stdout.no_fnmatch_line("*no question judged*")
    else:
        result.stdout.fnmatch_lines([f"qwenperf: no question judged the budget ?[*]::test_one/[*]? of {told}"])


def test_a_session_that_asks_nothing_speaks_of_no_budget(pytester):
    """A folder of unit tests has its own sessions."""
    pytester.makepyprojecttoml("[tool.qwenperf.budgets.'*::test_won/*']\ncompiles_steady.max = 0")
    pytester.makepyfile("def test_nothing(): pass")
    result = pytester.runpytest_inprocess("-p", "no:xdist")
    assert result.ret == 0
    result.stdout.no_fnmatch_line("*matches no case*")


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
    recorded = Recorded()
    for _ in range(3):
        recorded.add(CaseRecord(id="mine", spec={}))
    assert [case.id for case in recorded.cases] == ["mine", "mine#2", "mine#3"]
