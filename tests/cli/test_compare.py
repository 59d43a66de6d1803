"""`qwenperf compare` from outside: what people mistype is one line, and saved runs need no clock."""

import math
import random
import subprocess
import sys
from dataclasses import replace

import pytest
from click import ClickException
from click.testing import CliRunner

from qwenperf.cli.compare import _measure, _with_sight, command
from qwenperf.cli.compare_cases import CHOSEN, case_arguments
from qwenperf.cli.compare_sides import make_sides
from qwenperf.errors import EnvironmentUnfitError, QwenperfError, UsageError
from qwenperf.lab.inventory import Inventory
from qwenperf.lab.sides import Side
from qwenperf.schema.codec import comparison_loads, dumps
from qwenperf.schema.comparison import ComparedCase, ComparisonRecord, PairRecord, RoundRecord, SideRecord
from qwenperf.schema.records import Outcome, RunRecord, Verdict
from qwenperf.stats.spending import Plan
from qwenperf.workloads.case import Case, Workload

SIDE = SideRecord(label="x", kind="same")
NO_FLAGS = dict.fromkeys(("suite", "model", "prompt_length", "new_tokens", "batch", "dtype", "rerun_failed"))
NO_FLAGS |= {"case_engines": (), "filters": ()}
WHO = ("-c", "user.name=t", "-c", "user.email=t@example.org")


@pytest.fixture
def repository(tmp_path):
    """Return a git repository of somebody's with one commit."""
    (tmp_path / "engine.py").write_text("")
    for arguments in (("init", "-q"), ("add", "engine.py"), ("commit", "-q", "-m", "first")):
        subprocess.run(
            ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments], cwd=tmp_path, check=True
        )
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        (("nowhere",), "'nowhere' is no commit of"),
        (("HEAD", "HEAD"), "holds no package qwenperf: both revisions would have the same cached, the installed one"),
        (("--engines", "cached", "cachd"), "unknown engine 'cachd'. Did you mean 'cached'"),
        (("--aa", "HEAD"), "exclude each other"),
        (("--aa", "--looks", "6,x"), "--looks is '6,x'"),
        (("--aa", "--looks", "2"), "do not rise from 6 pairs"),
        (("--aa", "--looks", "6"), "so few pairs can fail none of 1 cases"),
        (("--aa", "--margin", "-1"), "the margin is -1"),
        (("--aa", "--margin-of", "case"), "'case' is not --margin-of CASE=X"),
        (("--aa", "--model", "no-such"), "unknown model 'no-such'"),
    ],
)
def test_what_makes_no_sense_is_refused(repository, monkeypatch, arguments, seen):
    """Nothing is measured, and nothing is said that a reader of the output would take for an answer."""
    monkeypatch.chdir(repository)
    done = CliRunner().invoke(command, arguments, standalone_mode=False)
    assert isinstance(done.exception, QwenperfError | ClickException), done.exception
    assert done.exception.exit_code in {2, 5}
    assert seen in str(done.exception)
    assert done.stdout == ""


@pytest.mark.parametrize("inner", ["", "run.json"])
def test_saved_runs_are_named_by_folder_or_by_record(tmp_path, monkeypatch, inner):
    """As `qwenperf gate` and `report` take them: a record is no revision of a repository."""
    monkeypatch.chdir(tmp_path)
    for name in ("A", "B"):
        (tmp_path / name).mkdir()
        run = RunRecord(id=name, created_at="2026-01-01T00:00:00+00:00", suite="s", environment={})
        (tmp_path / name / "run.json").write_text(dumps(run))
    done = CliRunner().invoke(command, [f"A/{inner}", f"B/{inner}"], standalone_mode=False)
    assert (done.exception, done.return_value) == (None, 5)
    assert "both runs were saved before" in done.stdout


def test_outside_of_a_repository_one_line_says_so(tmp_path):
    """And engines are still compared there. No traceback is shown."""
    line = [sys.executable, "-m", "qwenperf", "compare", "main"]
    done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False)
    assert done.returncode == 2
    assert "not a git repository" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.fixture
def earlier(tmp_path):
    """Return the folder of a comparison of a suite: of five cases only `passed` and `told` need no second look."""
    speed = {
        "passed": Outcome.PASS, "slower": Outcome.FAIL, "noisy": Outcome.INCONCLUSIVE, "broken": Outcome.SKIPPED,
        "told": Outcome.IMPROVED,
    }  # fmt: skip
    approximate = Verdict(gate="tokens", outcome=Outcome.SKIPPED, summary="tokens may differ")
    cases = [
        ComparedCase(id=f"m/{name}/w", verdicts=(approximate, Verdict(gate="speed", outcome=one, summary="")))
        for name, one in speed.items()
    ]
    record = ComparisonRecord(
        id="c", created_at="", base=SIDE, head=SIDE, cases=tuple(cases), plan={CHOSEN: ["--suite", "gpt2"]}
    )
    (tmp_path / "comparison.json").write_text(dumps(record))
    return tmp_path


def test_what_did_not_pass_is_measured_again_as_it_was_chosen(earlier):
    """Of the suite of that comparison; a gate that has nothing to say of a case leaves it open for nobody."""
    chosen = case_arguments({**NO_FLAGS, "rerun_failed": earlier})
    again = [f"--filter m/{name}/w" for name in ("slower", "noisy", "broken")]
    assert " ".join(chosen) == " ".join(["--suite gpt2", *again])
    own = case_arguments({**NO_FLAGS, "rerun_failed": earlier, "suite": "smoke", "filters": ("nois*",)})
    assert own == ["--suite", "smoke", "--filter", "m/noisy/w"]
    assert case_arguments({**NO_FLAGS, "filters": ("a*", "b*")})[-4:] == ["--filter", "a*", "--filter", "b*"]


def test_where_everything_passed_nothing_is_measured_again(earlier):
    """An empty filter would measure all."""
    with pytest.raises(UsageError, match=r"no case that did not pass in .* matches"):
        case_arguments({**NO_FLAGS, "rerun_failed": earlier, "filters": ("passed",)})
    file = earlier / "comparison.json"
    record = comparison_loads(file.read_text())
    file.write_text(dumps(replace(record, cases=record.cases[:1])))
    with pytest.raises(UsageError, match="passed: nothing to measure again"):
        case_arguments({**NO_FLAGS, "rerun_failed": earlier})


def unchanged(noise):
    """Return 20 pairs of the same code that deviate by ``noise``."""
    draw, pairs = random.Random(3), []
    for number in range(1, 21):
        ratio = math.exp(draw.gauss(0, noise))
        one = RoundRecord(order="ABBA", wall_s=(1.0, ratio, ratio, 1.0), cpu_s=(1.0, 1.0, 1.0, 1.0))
        pairs.append(PairRecord(number=number, first="base", rounds={"m/e/w": (one,)}))
    case = (ComparedCase(id="m/e/w"),)
    return ComparisonRecord(id="c", created_at="", base=SIDE, head=SIDE, cases=case, pairs=tuple(pairs))


def test_a_comparison_on_seeded_weights_says_so_in_record_page_and_report(tmp_path, monkeypatch, capsys):
    """Both sides generate the same tokens from them, and everything passes."""

    def lost():
        raise EnvironmentUnfitError("no index.", advice="Configure one.")

    case = Case(model="smollm2-135m", engine="cached", workload=Workload(prompt_length=4, new_tokens=4))
    monkeypatch.setattr("qwenperf.models.weights.fetch_weights", lost)
    monkeypatch.setattr("qwenperf.lab.inventory.take_inventory", lambda *_: Inventory(shared=(case,)))
    monkeypatch.setattr("qwenperf.lab.compare.Comparison.run", lambda _: unchanged(0.01))
    flags = NO_FLAGS | {"aa": False, "jax": None, "aliases": (), "margin": 0.03, "margin_of": (), "looks": "6,12,20"}
    flags |= {"rounds": 1, "trial_s": 0.1, "cores": None, "all_pairs": False, "excuses": ()}
    side = Side(name="base", label="x", kind="same", root=tmp_path, python=sys.executable)
    assert _measure((side, replace(side, name="head")), tmp_path, "warn", flags, as_json=False) == 0
    assert "warning: no index. Seeded weights of the same shape are used" in capsys.readouterr().out
    (folder,) = tmp_path.iterdir()
    (finding,) = comparison_loads((folder / "comparison.json").read_text()).findings
    assert (finding.code, finding.advice) == ("weights-unavailable", "Configure one.")
    assert "Seeded weights of the same shape" in (folder / "report.html").read_text()


def test_what_a_machine_can_tell_apart_is_in_the_record_and_on_its_page(tmp_path):
    """For whoever reads `--json`: the rate of false fails, the smallest slowdown, and whether pinning helps."""
    cores, file = [], tmp_path / "comparison.json"

    def again(asked):
        cores.append(asked)
        return unchanged(0.01), file

    record = _with_sight(unchanged(0.05), file, Plan(), again)
    assert cores == [1]
    assert comparison_loads(file.read_text()) == record
    sight, pinning = record.findings
    assert (sight.code, pinning.code) == ("aa-sight", "aa-pinning")
    assert sight.data["false_fail_rate"] == sight.data["false_fails"] / 400 <= 0.03
    assert 0.03 < sight.data["smallest_effect"] < 0.1
    assert (pinning.data["helps"], pinning.data["hurts"]) == (True, False)
    assert "pinning helps here" in (tmp_path / "report.html").read_text()
    assert [one.code for one in _with_sight(unchanged(0.05), file, Plan(), None).findings] == ["aa-sight"]
    cut = replace(unchanged(0.05), interrupted=True)
    ended = _with_sight(unchanged(0.05), file, Plan(), lambda _cores: (cut, file))
    assert (ended.interrupted, [one.code for one in ended.findings]) == (True, ["aa-sight"])
    assert comparison_loads(file.read_text()).interrupted


def test_a_cost_is_accepted_in_the_commits_of_whatever_head_is_compared(repository, tmp_path_factory, monkeypatch):
    """Of a branch that is not checked out too, and only between base and head."""

    def git(*arguments):
        subprocess.run(["git", *WHO, *arguments], cwd=repository, check=True, capture_output=True)

    (repository / "code.py").write_text("VERSION = 1\n")
    git("add", ".")
    git("commit", "-q", "-m", "code")
    git("branch", "-m", "main")
    git("checkout", "-q", "-b", "topic")
    git("commit", "-q", "--allow-empty", "-m", "costs\n\nQwenperf-Accept: 4x128/*: the check stays")
    git("checkout", "-q", "main")
    monkeypatch.chdir(repository)
    monkeypatch.setenv("QWENPERF_CACHE", str(tmp_path_factory.mktemp("cache")))
    for head, patterns in (("topic", ["4x128/*"]), (".", []), ("main", [])):
        flags = {"engines": None, "aa": False, "jax": None, "excuses": ()}
        base, _ = make_sides("main", head, flags)
        assert base.label.startswith("main")
        assert [one.pattern for one in flags["excuses"]] == patterns, head
