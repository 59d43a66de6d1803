"""`qwenperf regressions` on stores of real records."""

import dataclasses
import json
import re
import subprocess
import threading
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from click.testing import CliRunner

from qwenperf.cli import main, regressions_find
from qwenperf.cli.regressions_git import last_release, with_acceptance
from qwenperf.cli.stores import find_store
from qwenperf.schema.codec import dumps
from qwenperf.schema.metrics import Direction, Kind
from qwenperf.schema.records import CaseRecord, Evidence, Metric, Roofline, RunRecord, metric
from qwenperf.schema.regressions import Form, Regression, RegressionsRecord, RegressionStatus, loads
from qwenperf.schema.regressions import dumps as dump_regressions

CASE = "tiny/cached/b1"
COUNT = 60
STEP = 40
REGRESSION = Regression(
    id="0a1b2c3d",
    case=CASE,
    metric="tpot_s",
    unit="s",
    direction=Direction.LOWER,
    form=Form.STEP,
    before=1.0,
    after=1.1,
    size=0.1,
    run="r",
)
NOW = datetime.now(UTC).replace(microsecond=0)


def summary(seconds):
    """A trace of one step with one operation."""
    operation = {"name": "dot.1", "category": "matmul", "source": "model.py:7", "time_s": seconds, "count": 1}
    return {"step_s": [seconds], "host_gap_s": 0.0, "operations": [operation]}


def write_runs(
    folder, *, factor=1.1, roofline_factor=1.0, until=NOW, environment=None, branch="main", backfilled=False
):
    random = np.random.default_rng(4)
    for index, wobble in enumerate(1 + 0.02 * random.normal(size=COUNT)):
        is_late = index >= STEP
        at = (until - timedelta(days=COUNT - 1 - index)).isoformat()
        roofline = Roofline(bytes_per_s=2e10 / (roofline_factor if is_late else 1) * wobble, flops_per_s=1e11)
        case = CaseRecord(
            id=CASE,
            spec={"engine": "cached"},
            metrics={
                "tpot_s": metric("tpot_s", 0.01 * wobble * (factor if is_late else 1)),
                "decode_tokens_per_s": metric("decode_tokens_per_s", 100 / wobble / (factor if is_late else 1)),
                "temp_bytes": metric("temp_bytes", 4096),
                "cache_hits": metric("cache_hits", 0),
            },
            evidence=Evidence(roofline=roofline, trace_summary=summary(0.01 * (factor if is_late else 1))),
            trace="plugins/profile/s",
        )
        run = RunRecord(
            id=f"{branch}-{index:03}",
            created_at=NOW.isoformat() if backfilled else at,
            suite="smoke",
            environment={"platform": "cpu", "jax": (environment or "0.11") if is_late else "0.11"},
            commit={"sha": f"{index:040x}", "branch": branch, "committed_at": at},
            declared=(CASE,),
            cases=(case,),
        )
        (folder / run.id).mkdir(parents=True)
        (folder / run.id / "run.json").write_text(dumps(run))
    return folder


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """No project, no git, no index of anybody else."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QWENPERF_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def store(tmp_path):
    return write_runs(tmp_path / "store")


def ask(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main(["regressions", *map(str, words)])
    out = capsys.readouterr()
    return ended.value.code, out.out, out.err


def test_a_regression_is_listed_with_what_to_do(store, capsys):
    """Metric, case, size, commits and the bisection to run; exit code 1; a rate that repeats it is left out."""
    code, out, _ = ask(capsys, "--store", store)
    assert code == 1
    assert f"tpot_s of {CASE} 9." in out or f"tpot_s of {CASE} 10." in out
    assert "qwenperf bisect" in out
    assert "dot.1 +1 ms" in out or "dot.1 +1.00 ms" in out
    assert "decode_tokens_per_s" not in out
    assert "1 new regression\n" in out


def test_json_is_one_document_and_the_record_lies_in_the_store(store, capsys):
    """Both tell the same."""
    code, out, err = ask(capsys, "--store", store, "--json")
    told = json.loads(out)
    (one,) = told["regressions"]
    assert (code, err) == (1, "")
    assert told["histories"] == 2
    assert one["metric"] == "tpot_s"
    assert f"{STEP:040x}" in one["commits"]
    kept = loads((store / "regressions.json").read_text()).regressions
    assert [each.id for each in kept] == [one["id"]]


def test_an_accepted_regression_is_no_alarm(store, capsys):
    """Listed with its reason; exit code 0; another look leaves it accepted."""
    name = json.loads(ask(capsys, "--store", store, "--json")[1])["regressions"][0]["id"]
    code, out, _ = ask(capsys, "accept", name[:5], "--reason", "f32 rotary", "--store", store)
    assert (code, out) == (0, f"accepted {name}: tpot_s of {CASE}: f32 rotary\n")
    for _ in range(2):
        code, out, _ = ask(capsys, "--store", store)
        assert code == 0
        assert f"accepted {name}" in out
        assert "f32 rotary" in out


def test_what_was_accepted_of_a_case_stays_so_when_that_is_renamed(store, tmp_path, capsys):
    """The acceptance goes on with the series: it is no new alarm under the new name."""
    name = json.loads(ask(capsys, "--store", store, "--json")[1])["regressions"][0]["id"]
    ask(capsys, "accept", name, "--reason", "f32 rotary", "--store", store)
    (tmp_path / "pyproject.toml").write_text(f'[tool.qwenperf.aliases]\n"{CASE}" = "small/cached/b1"\n')
    for _ in range(2):
        code, out, _ = ask(capsys, "--store", store)
        assert (code, "0 new regressions" in out) == (0, True)
        assert f"accepted {name}: tpot_s of small/cached/b1" in out


def test_a_unit_that_changed_once_hides_no_other_history(store, capsys):
    """That of the metric begins with the unit of today, and it is said what is left out."""
    for index, file in enumerate(sorted(store.glob("*/run.json"))):
        document = json.loads(file.read_text())
        value, unit = (1000.0, "ms") if index < 20 else (1.0, "s")
        lag = {"value": value * (1 + (index >= STEP)), "unit": unit, "direction": "lower", "kind": "deterministic"}
        document["cases"][0]["metrics"]["lag"] = lag
        file.write_text(json.dumps(document))
    code, out, err = ask(capsys, "--store", store, "--json")
    found = {one["metric"]: one for one in json.loads(out)["regressions"]}
    assert (code, found.keys()) == (1, {"tpot_s", "lag"})
    assert (found["lag"]["before"], found["lag"]["after"]) == pytest.approx((1.0, 2.0))
    assert f"lag of {CASE} is in 's' now: 20 points in others are left out" in err


@pytest.mark.parametrize(
    ("changes", "told"),
    [({"environment": "0.12"}, "explained by the environment"), ({"roofline_factor": 1.1}, "explained by the machine")],
)
def test_what_is_explained_is_listed_and_no_alarm(tmp_path, capsys, changes, told):
    """Another JAX is named; a roofline that fell is too."""
    code, out, _ = ask(capsys, "--store", write_runs(tmp_path / "other", **changes))
    assert code == 0
    assert told in out
    assert ("'0.12' in head" if "environment" in changes else "roofline_bytes_per_s") in out


def test_since_lists_what_began_later(store, capsys):
    """History before it is looked at all the same."""
    assert ask(capsys, "--store", store, "--since", "30d")[0] == 1
    code, out, _ = ask(capsys, "--store", store, "--since", "3d")
    assert code == 0
    assert "tpot_s" not in out


def test_what_began_is_counted_by_its_commit(tmp_path, capsys):
    """Old commits that are measured today began nothing today."""
    made = write_runs(tmp_path / "made", backfilled=True)
    assert ask(capsys, "--store", made, "--since", "30d")[0] == 1
    assert ask(capsys, "--store", made, "--since", "3d")[0] == 0


def test_a_regression_of_another_branch_is_no_alarm_of_this_one(tmp_path, capsys):
    """It stays in the record, and is one where its branch is asked for again."""
    store = write_runs(tmp_path / "store", factor=1.0)
    write_runs(store, branch="feature")
    assert ask(capsys, "--store", store, "--branch", "feature")[0] == 1
    code, out, _ = ask(capsys, "--store", store, "--branch", "main")
    assert (code, "0 new regressions" in out, "tpot_s" in out) == (0, True, False)
    assert [one.run[:7] for one in loads((store / "regressions.json").read_text()).regressions] == ["feature"]
    assert ask(capsys, "--store", store, "--branch", "feature")[0] == 1


def test_an_acceptance_during_a_look_is_kept(store, capsys, monkeypatch):
    """The look takes longer than somebody needs to say why."""
    name = json.loads(ask(capsys, "--store", store, "--json")[1])["regressions"][0]["id"]
    looks = regressions_find.judge_all

    def meanwhile(*words, **options):
        ask(capsys, "accept", name, "--reason", "f32 rotary", "--store", store)
        return looks(*words, **options)

    monkeypatch.setattr(regressions_find, "judge_all", meanwhile)
    assert ask(capsys, "--store", store)[0] == 0
    (kept,) = loads((store / "regressions.json").read_text()).regressions
    assert (kept.status, kept.reason) == (RegressionStatus.ACCEPTED, "f32 rotary")


def test_two_who_accept_at_once_lose_nothing(tmp_path):
    """Whoever comes second reads what the first has written."""
    folder, second = tmp_path / "store", dataclasses.replace(REGRESSION, id="ffff0000")
    folder.mkdir()
    (folder / "regressions.json").write_text(dump_regressions(RegressionsRecord(regressions=(REGRESSION, second))))
    words = ["regressions", "accept", second.id, "--reason", "two", "--store", str(folder)]
    other = threading.Thread(target=CliRunner().invoke, args=(main, words))
    said = dataclasses.replace(REGRESSION, status=RegressionStatus.ACCEPTED, reason="one")
    with regressions_find.alone(find_store(str(folder))):
        other.start()
        other.join(0.5)  # long enough to write, were it not for the lock
        (folder / "regressions.json").write_text(dump_regressions(RegressionsRecord(regressions=(said, second))))
    other.join()
    kept = loads((folder / "regressions.json").read_text()).regressions
    assert [one.reason for one in kept] == ["one", "two"]


def test_what_a_tool_says_in_several_metrics_is_told_once(tmp_path):
    """pytest-benchmark's quartiles move with its median; where there is no median, a mean is looked at."""
    names = {"t.py::test_a": ("median_s", "mean_s", "min_s", "ops_per_s"), "t.py::test_b": ("mean_s", "q3_s")}
    folder = tmp_path / "store"
    one = Metric(value=1.0, unit="s", direction=Direction.LOWER, kind=Kind.TIMED)
    cases = tuple(CaseRecord(id=case, spec={}, metrics=dict.fromkeys(known, one)) for case, known in names.items())
    run = RunRecord(id="r", created_at=NOW.isoformat(), suite="s", environment={}, cases=cases)
    (folder / run.id).mkdir(parents=True)
    (folder / run.id / "run.json").write_text(dumps(run))
    found = regressions_find.chosen(find_store(str(folder)), None, ())
    assert found == [
        ("t.py::test_a", "median_s"), ("t.py::test_a", "min_s"), ("t.py::test_b", "mean_s"), ("t.py::test_b", "q3_s"),
    ]  # fmt: skip
    assert regressions_find.chosen(find_store(str(folder)), None, ("ops_per_s",)) == [("t.py::test_a", "ops_per_s")]


def test_a_case_that_no_longer_comes_is_told(tmp_path, capsys):
    """A warning; with --stale=fail exit code 5."""
    old = write_runs(tmp_path / "old", factor=1.0, until=NOW - timedelta(days=30))
    code, out, _ = ask(capsys, "--store", old)
    assert code == 0
    assert f"stale: 2 metrics of {CASE}" in out
    assert re.search(r"[\d.]+ days ago; expected within [\d.]+ (days|hours)", out)
    assert ask(capsys, "--store", old, "--stale", "fail")[0] == 5


def test_a_case_that_was_dropped_on_purpose_is_told_no_more_until_it_comes_again(tmp_path, capsys):
    """Somebody says why, by the case's name or a pattern of names; a later run is measured after all."""
    old = write_runs(tmp_path / "old", factor=1.0, until=NOW - timedelta(days=30))
    told = json.loads(ask(capsys, "accept", "tiny/*", "--reason", "b1 is no use", "--json", "--store", old)[1])
    assert [(one["case"], one["reason"]) for one in told["retired"]] == [(CASE, "b1 is no use")]
    code, out, _ = ask(capsys, "--store", old, "--stale", "fail")
    assert (code, "stale" in out) == (0, False)
    (kept,) = loads((old / "regressions.json").read_text()).retired
    assert kept.case == CASE
    before = dataclasses.replace(kept, retired_at=(NOW - timedelta(days=40)).isoformat())
    (old / "regressions.json").write_text(dump_regressions(RegressionsRecord(retired=(before,))))
    assert ask(capsys, "--store", old, "--stale", "fail")[0] == 5
    code, out, _ = ask(capsys, "accept", CASE, "--reason", "again", "--store", old)
    assert (code, out) == (0, f"retired {CASE}: again\n")
    assert [one.reason for one in loads((old / "regressions.json").read_text()).retired] == ["again"]


def test_a_stale_case_says_how_to_end_it(tmp_path, capsys):
    """And a reason is asked for."""
    old = write_runs(tmp_path / "old", factor=1.0, until=NOW - timedelta(days=30))
    assert "qwenperf regressions accept CASE --reason WHY" in ask(capsys, "--store", old)[1]
    code, _, err = ask(capsys, "accept", CASE, "--reason", " ", "--store", old)
    assert (code, "the reason is empty" in err) == (2, True)


def test_improvements_are_listed_where_they_are_asked_for(tmp_path, capsys):
    """They are no alarm."""
    better = write_runs(tmp_path / "better", factor=0.9)
    assert "improved" not in ask(capsys, "--store", better)[1]
    code, out, _ = ask(capsys, "--store", better, "--improvements")
    assert code == 0
    assert "improved" in out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--case", "nobody"], 5, "no metric"),
        (["--metric", "tpots_s"], 5, "no metric called tpots_s. Did you mean 'tpot_s'? Known: "),
        (["--branch", "mian"], 5, "has no run of the branch 'mian'. Did you mean 'main'"),
        (["--stale", "perhaps"], 2, "unknown choice"),
        (["--release", "yesterday-ish"], 2, "--release"),
        (["--json", "accept", "x", "--reason", "y"], 2, "options before 'accept'"),
    ],
)
def test_what_makes_no_sense_is_refused(store, capsys, words, code, message):
    """With what was seen."""
    ended, _, err = ask(capsys, "--store", store, *words)
    assert ended == code
    assert message in err


def test_a_name_that_nobody_has_is_refused(store, capsys):
    """Before anything was found there is none."""
    code, _, err = ask(capsys, "accept", "abc", "--reason", "y", "--store", store)
    assert code == 2
    assert "unknown regression or case 'abc'" in err


def test_a_broken_record_is_named(store, capsys):
    """And not thrown away: it holds what people accepted."""
    (store / "regressions.json").write_text("{")
    code, _, err = ask(capsys, "--store", store)
    assert code == 2
    assert "regressions.json is not JSON" in err
    assert (store / "regressions.json").read_text() == "{"


def git(folder, *words):
    """Run git as somebody."""
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    return subprocess.run(
        ["git", "-C", str(folder), *who, *words], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_a_cost_that_its_commit_accepts_is_accepted(tmp_path):
    """By the trailer that `compare` reads, for the cases that it names; one of another commit is for another change."""
    git(tmp_path, "init", "-q")
    shas = []
    for message in ("base", "slower\n\nQwenperf-Accept: tiny/*: f32\n  rotary", "after"):
        git(tmp_path, "commit", "-q", "--allow-empty", "-m", message)
        shas.append(git(tmp_path, "rev-parse", "HEAD"))
    git(tmp_path, "tag", "v1", shas[0])
    assert last_release(tmp_path)[:10] == git(tmp_path, "log", "-1", "--format=%cI")[:10]
    one = dataclasses.replace(REGRESSION, good=shas[0], bad=shas[2], commits=(shas[1], shas[2]), commit=shas[1])
    done = with_acceptance(tmp_path, one, "now")
    assert (done.status, done.reason) == (RegressionStatus.ACCEPTED, "f32 rotary")
    for other in (dataclasses.replace(one, commit=shas[2]), dataclasses.replace(one, case="large/cached")):
        assert with_acceptance(tmp_path, other, "now") is other


def test_a_commit_that_is_an_option_is_no_word_to_git(tmp_path):
    """Records come from anywhere, and `git log --output` writes files."""
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "base")
    good = f"--output={tmp_path}/written"
    one = dataclasses.replace(REGRESSION, good=good, bad="b" * 40, commits=("b" * 40,), commit="b" * 40)
    assert with_acceptance(tmp_path, one, "now") is one
    assert not list(tmp_path.glob("written*"))


def test_without_git_nothing_is_accepted_or_released(tmp_path):
    """And nothing fails."""
    assert last_release(tmp_path) == ""
    one = dataclasses.replace(REGRESSION, good="a", bad="b", commits=("b",), commit="b")
    assert with_acceptance(tmp_path, one, "now") is one
