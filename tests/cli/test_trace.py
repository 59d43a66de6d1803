"""``qwenperf trace``: traces of runs and of anybody are shown, compared, listed and pruned; bad ones are one line."""

import importlib.util
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from qwenperf.cli import main
from qwenperf.measure.capture_folder import leftovers
from qwenperf.schema.codec import dumps
from qwenperf.schema.comparison import ComparedCase, ComparisonRecord, PairRecord, RoundRecord, SideRecord
from qwenperf.schema.records import CaseRecord, Evidence, Roofline, RunRecord, metric
from qwenperf.traces import xplane
from qwenperf.traces.summary import summarize

_SPEC = importlib.util.spec_from_file_location("xspaces", Path(__file__).parents[1] / "traces" / "xspaces.py")
xspaces = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(xspaces)

CASE, SESSION = "tiny/cached/b1", "tiny__cached__b1"
STEPS = tuple((1000 * index, 100) for index in range(4))


def operations(dot_us, copy_us=5):
    for run, (start, _) in enumerate(STEPS):
        yield "dot.1", start + 5, dot_us, "jit_step", 7, run
        yield "copy.2", start + 80, copy_us, "jit_step", 7, run


def write_run(folder, dot_us=20, *, case=CASE, itl_s=100e-6, summary=True):
    """A run with one case and its trace, as the lab leaves them."""
    trace = folder / "plugins" / "profile" / SESSION / "vm.xplane.pb"
    trace.parent.mkdir(parents=True)
    trace.write_bytes(xspaces.space(xspaces.cpu(STEPS, list(operations(dot_us)), [("ParseArguments", 30, 40)])))
    told = summarize(xplane.read(trace, "decode")) if summary is True else summary
    record = CaseRecord(
        id=case,
        spec={"engine": "cached"},
        metrics={"itl_p50_s": metric("itl_p50_s", itl_s)},
        evidence=Evidence(trace_summary=told, roofline=Roofline(bytes_per_s=1e10, flops_per_s=1e11)),
        trace=str(trace.relative_to(folder)),
    )
    run = RunRecord(
        id=folder.name, created_at="2026-11-28", suite="smoke", environment={}, declared=(case,), cases=(record,)
    )
    (folder / "run.json").write_text(dumps(run))
    return folder


@pytest.fixture
def base(tmp_path):
    """A run."""
    return write_run(tmp_path / "base")


@pytest.fixture
def call(capsys):
    """Run a command line here; return its exit code, output and errors."""

    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            main(["trace", *map(str, arguments)])
        return end.value.code, *capsys.readouterr()

    return run


def test_show_says_where_the_time_goes(base, call):
    code, out, _ = call("show", base)
    assert code == 0
    assert out.startswith(f"{CASE}\n4 steps, 100 us a token; the device is busy 25% of it; 1 program a step\n")
    assert "   20.0 us   20%  matmul\n" in out
    assert "   75.0 us   75%  host gap\n" in out
    assert "the host in Python" in out
    assert "   20.0 us   20%      1               -  dot: matmul\n" in out


def test_show_takes_a_record_a_trace_and_a_folder_of_traces(base, call):
    for place in (base / "run.json", base / "plugins", next(base.rglob("*.xplane.pb"))):
        code, out, _ = call("show", place, "--json")
        assert (code, json.loads(out)["cases"][0]["operations"][0]["name"]) == (0, "dot")


def test_a_record_of_an_older_version_is_read_with_its_trace(tmp_path, call):
    """It has names only; the trace beside it knows more. Without the trace it is read as it is."""
    old = {"steps": 4, "step_s": [1e-4] * 4, "host_gap_s": 3e-4, "operations": [{"name": "dot", "time_s": 1e-4}]}
    run = write_run(tmp_path / "old", summary=old)
    assert "program a step" in call("show", run)[1]
    next(run.rglob("*.xplane.pb")).unlink()
    assert "4 steps, 100 us a token" in call("show", run)[1]


def test_diff_names_the_operation_and_reconciles_with_what_was_timed(base, tmp_path, call):
    head = write_run(tmp_path / "head", dot_us=60, itl_s=142e-6)
    code, out, _ = call("diff", base, head)
    lines = out.splitlines()
    assert (code, lines[0]) == (0, CASE)
    assert "without the profiler: 100 us -> 142 us (+42.0 us)" in out
    assert "the traces leave +42.0 us of that unexplained, 100% of it" in out
    code, out, _ = call("diff", base, head, "--json")
    (case,) = json.loads(out)["cases"]
    assert (case["reconciles"], case["changes"][0]["name"]) == (False, "dot")


def test_cases_of_other_names_are_paired_when_asked_for(base, tmp_path, call):
    head = write_run(tmp_path / "head", case="tiny/other/b1")
    assert call("diff", base, head)[0] == 0
    (base / "plugins" / "profile" / "second").mkdir()
    (base / "plugins" / "profile" / "second" / "vm.xplane.pb").write_bytes(next(base.rglob("*.xplane.pb")).read_bytes())
    code, _, err = call("diff", base / "plugins", head)
    assert (code, "--base-case" in err) == (5, True)
    assert call("diff", base / "plugins", head, "--base-case", "sec*", "--head-case", "*other*")[0] == 0
    assert "Did you mean" in call("show", base, "--case", "tiny/cachd/b1")[2]


def test_a_comparison_s_folder_stands_for_its_two_sides(tmp_path, call):
    """Its traces are named after the case and the side."""
    comparison = tmp_path / "compare-20261128T045114Z-8ca84f"
    for side, dot_us in (("base", 20), ("head", 60)):
        trace = comparison / "plugins" / "profile" / f"tiny__cached-{side}" / "vm.xplane.pb"
        trace.parent.mkdir(parents=True)
        trace.write_bytes(xspaces.space(xspaces.cpu(STEPS, list(operations(dot_us)))))
    (comparison / "comparison.json").write_text('{"schema": "qwenperf.comparison.v1"}')
    (case,) = json.loads(call("diff", comparison, "--json")[1])["cases"]
    assert (case["base"], case["head"]) == ("tiny__cached-base", "tiny__cached-head")
    assert (case["changes"][0]["name"], case["changes"][0]["kind"]) == ("dot", "same")
    assert "no run.json" not in call("list", tmp_path)[1]
    assert call("diff", write_run(tmp_path / "run"))[0] == 2


def write_comparison(folder):
    """A comparison of one case with the traces of both sides, as the lab leaves it: head's copy takes 40 us more."""
    traces, summaries = {}, {}
    for side, dot_us in (("base", 20), ("head", 60)):
        trace = folder / "plugins" / "profile" / f"{SESSION}-{side}" / "vm.xplane.pb"
        trace.parent.mkdir(parents=True)
        trace.write_bytes(xspaces.space(xspaces.cpu(STEPS, list(operations(dot_us)))))
        traces[side] = str(trace.relative_to(folder))
        summaries[side] = summarize(xplane.read(trace, "decode"))
    case = ComparedCase(
        id=CASE,
        spec={"workload": {"new_tokens": 10}},
        repeats=2,
        extra={"traces": traces, "trace_summaries": summaries},
    )
    wall_s = (2e-3, 2.2e-3, 2.2e-3, 2e-3)
    rounds = {CASE: (RoundRecord(order="ABBA", wall_s=wall_s, cpu_s=wall_s),)}
    side = SideRecord(label="x", kind="revision")
    record = ComparisonRecord(
        id=folder.name, created_at="2026-11-28", base=side, head=side, declared=(CASE,), cases=(case,),
        pairs=(PairRecord(number=1, first="base", stage=2, rounds=rounds),),
    )  # fmt: skip
    (folder / "comparison.json").write_text(dumps(record))
    return folder


def test_a_comparison_is_read_with_its_ids_and_the_times_of_its_pairs_also_without_its_traces(tmp_path, call):
    """A trial is two requests of ten tokens; that head's took 10 us more is not what the traces show."""
    comparison = write_comparison(tmp_path / "compare-20261128T045114Z-8ca84f")
    assert call("prune", tmp_path, "--keep", 0)[0] == 0
    assert list(tmp_path.rglob("*.xplane.pb")) == []
    for place in (comparison, comparison / "comparison.json"):
        code, out, _ = call("diff", place, "--case", "tiny/*")
        assert (code, out.splitlines()[0]) == (0, CASE)
        assert "without the profiler: 100 us -> 110 us (+10.0" in out
        assert "unexplained" in out
        assert "prefill included" in out
    (case,) = json.loads(call("diff", comparison, "--json")[1])["cases"]
    assert (case["base"], case["head"], case["changes"][0]["name"]) == (CASE, CASE, "dot")
    shown = json.loads(call("show", comparison, "--case", CASE, "--json")[1])["cases"]
    assert [one["id"] for one in shown] == [f"{CASE} (base)", f"{CASE} (head)"]
    assert call("diff", comparison, "--case", "tiny/cachd/b1")[0] == 2


def test_a_comparison_without_traces_says_why(tmp_path, call):
    """Its cases passed, or the trace was lost."""
    comparison = write_comparison(tmp_path / "compare-20261128T045114Z-8ca84f")
    record = json.loads((comparison / "comparison.json").read_text())
    record["cases"][0]["trace_remarks"] = {"head": ["the trace was cut."]}
    for name in ("traces", "trace_summaries"):
        record["cases"][0].pop(name)
    (comparison / "comparison.json").write_text(json.dumps(record))
    assert call("diff", comparison)[0] == 0  # an older version wrote no more than the traces
    assert call("prune", tmp_path, "--keep", 0)[0] == 0
    code, _, err = call("diff", comparison)
    assert (code, "has no trace: head: the trace was cut." in err) == (5, True)


def test_traces_that_cannot_be_read_are_named_beside_those_that_can(base, call):
    odd(base / "plugins", b"not a trace")
    code, out, err = call("show", base / "plugins")
    assert (code, out.startswith(SESSION)) == (0, True)
    assert err.startswith("left out: ")
    assert "odd.xplane.pb" in err


def test_prune_removes_what_killed_captures_left_whatever_it_keeps(base, tmp_path, call):
    hidden = base / ".capture-999999999-case"
    hidden.mkdir()
    (hidden / "vm.xplane.pb").write_bytes(bytes(1000))
    assert "1 killed capture" in call("list", tmp_path)[1]
    assert "would remove" in call("prune", tmp_path, "--keep", 5, "--dry-run")[1]
    done = json.loads(call("prune", tmp_path, "--keep", 5, "--json")[1])
    assert (done["removed"], done["swept"], done["bytes"]) == ([], [str(base)], 1000)
    assert not hidden.exists()
    assert next(base.rglob("*.xplane.pb")).exists()


def odd(folder, content=b"", name="odd.xplane.pb"):
    (folder / name).write_bytes(content)
    return folder / name


ODD_ROWS = {"version": 2, "steps": "x", "step_s": [1], "operations": [[]]}

BAD = {
    "nothing there": (lambda folder: folder / "absent", 2),
    "an empty folder": (lambda folder: (folder / "empty").mkdir() or folder / "empty", 2),
    "an empty trace": (odd, 2),
    "a trace that is text": (lambda folder: odd(folder, b"not a trace at all"), 2),
    "a cut trace": (lambda folder: odd(folder, xspaces.space(xspaces.cpu(STEPS, []))[:-9]), 2),
    "a trace of nothing": (lambda folder: odd(folder, xspaces.space(xspaces.cpu((), []))), 2),
    "no record": (lambda folder: odd(folder, b"{}", "run.json"), 2),
    "half a record": (lambda folder: odd(folder, b'{"id": "x', "run.json"), 2),
    "an odd summary": (lambda folder: write_run(folder / "run", summary={"version": 2, "step_s": ["x"]}), 2),
    "a summary of odd rows": (
        lambda folder: write_run(
            folder / "run", summary={"version": 2, "steps": "x", "step_s": [1], "operations": [[]]}
        ),
        2,
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_trace_is_one_line_and_an_exit_code(kind, tmp_path, base, call):
    make, expected = BAD[kind]
    place = make(tmp_path)
    for arguments in (("show", place), ("diff", place, base), ("diff", base, place)):
        code, out, err = call(*arguments)
        assert (code, out, err.count("\n")) == (expected, "", 1), err
        assert err.startswith("qwenperf: error: ")


def test_a_run_without_traces_says_so(tmp_path, call):
    run = write_run(tmp_path / "run", summary=None)
    next(run.rglob("*.xplane.pb")).unlink()
    code, _, err = call("show", run)
    assert (code, "without a trace" in err) == (5, True)


def test_list_and_prune_leave_records(base, tmp_path, call):
    write_run(tmp_path / "second")
    os.utime(base / "run.json", (1, 1))
    code, out, _ = call("list", tmp_path)
    assert (code, out.splitlines()[-1].startswith("2 runs in ")) == (0, True)
    listed = json.loads(call("list", tmp_path, "--json")[1])
    assert [Path(run["path"]).name for run in listed["runs"]] == ["second", "base"]
    assert "would remove the traces of 1 runs" in call("prune", tmp_path, "--keep", 1, "--dry-run")[1]
    assert len(list(tmp_path.rglob("*.xplane.pb"))) == 2
    done = json.loads(call("prune", tmp_path, "--max-size", f"{listed['bytes'] - 1}", "--json")[1])
    assert [Path(path).name for path in done["removed"]] == ["base"]
    assert (base / "run.json").exists()
    assert call("show", base)[0] == 0
    assert call("prune", tmp_path, "--max-size", "0kB")[0] == 0
    assert list(tmp_path.rglob("*.xplane.pb")) == []


@pytest.mark.parametrize("arguments", [(), ("--max-size", "big"), ("--keep", "-1")])
def test_prune_wants_to_be_told_what_to_keep(arguments, tmp_path, call):
    code, _, err = call("prune", tmp_path, *arguments)
    assert (code, err.count("\n")) == (2, 1)


def test_open_wants_a_folder_with_a_trace(tmp_path, call):
    for place in (tmp_path, tmp_path / "absent"):
        code, _, err = call("open", place)
        assert (code, err.count("\n")) == (2, 1)


KILLER = """
import os, signal
from pathlib import Path
import jax, jax.numpy as jnp, numpy as np

class Engine:
    # Whole and warm, it is killed with its parent in the third step that a profiler watches.
    name, watched = "killed", 0
    def generate(self, tokens_BT, new_tokens):
        return np.stack(list(self.stream(tokens_BT, new_tokens)), axis=1)
    def stream(self, tokens_BT, new_tokens):
        for _ in range(new_tokens):
            self.watched += any(Path(os.environ["OUT"]).glob("*/.capture-*"))
            if self.watched == 4:
                os.kill(os.getppid(), signal.SIGKILL)
                os.kill(os.getpid(), signal.SIGKILL)
            yield np.asarray(jnp.zeros(len(tokens_BT), jnp.int32))

def make(model, capacity):
    return Engine()
"""


def ended(words):
    """Run a command here and return its exit code."""
    with pytest.raises(SystemExit) as end:
        main(list(map(str, words)))
    return end.value.code


def test_a_run_that_is_killed_while_it_captures_stays_readable(tmp_path, cli, call):
    """Every command reads what there is, and the next prune removes the rest."""
    command, environ, _ = cli
    (tmp_path / "killer.py").write_text(KILLER)
    out = tmp_path / "out"
    arguments = ("run", "--model", "tiny", "--engine", "killer:make", "--trials", "2", "--new-tokens", 8, "--out", out)
    done = subprocess.run(command(*arguments), env=environ(PYTHONPATH=str(tmp_path), OUT=str(out)), check=False)
    assert done.returncode == -signal.SIGKILL
    (hidden,) = out.glob("*/.capture-*")
    folder, deadline = hidden.parent, time.monotonic() + 60
    while not leftovers(folder):  # its process kills itself just after the one that was waited for
        assert time.monotonic() < deadline
        time.sleep(0.01)
    listed = json.loads(call("list", out, "--json")[1])
    assert (len(listed["runs"]), listed["runs"][0]["killed"]) == (1, 1)
    assert listed["runs"][0]["under_way"] is False
    assert "1 killed capture" in call("list", out)[1]
    for words in (("trace", "show", folder), ("trace", "diff", folder, folder), ("gate", folder)):
        assert ended(words) == 5
    for words in (
        ("report", folder),
        ("history", "--store", out),
        ("regressions", "--store", out),
        ("convert", folder, "--to", "openmetrics"),
        ("budgets", "propose", folder),
        ("merge", folder, "--out", tmp_path / "merged"),
        ("trace", "open", folder, "--check"),
    ):
        assert ended(words) in {0, 2, 5}, words
    os.utime(folder / "run.json", (1, 1))
    assert call("prune", out, "--keep", 0)[0] == 0
    assert not hidden.exists()
    assert (folder / "run.json").exists()
