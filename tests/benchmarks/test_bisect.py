"""The histories that searches are tried on, and what is kept of a try."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from benchmarks.bisect import repository, simulate
from benchmarks.bisect.__main__ import culprits, line_of, summary
from benchmarks.bisect.repository import COMMITS, make_repository
from benchmarks.verdicts.live_log import LiveLog
from qwenperf.errors import ConfigError

ROOT = Path(__file__).parents[2]


@pytest.fixture
def root(tmp_path):
    """Return a checkout with as little in it as a history is made of."""
    for name in (*repository._CODE, "qwenperf/decode/build.py", "qwenperf/decode/step.py", "qwenperf/units.py"):
        (tmp_path / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tmp_path / "root" / name)
    return tmp_path / "root"


def git(folder, *arguments):
    return subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True, text=True).stdout


def test_one_commit_of_sixteen_is_slow_and_a_history_made_again_is_the_same(root, tmp_path):
    """A try that was interrupted goes on in it."""
    place = tmp_path / "history"
    found = make_repository(place, root, culprit=5, products=7.5)
    log = git(place, "log", "--reverse", "--format=%H").split()
    assert log.index(found) == 5
    assert len(log) == COMMITS + 1
    changed = git(place, "log", "--format=%H", "--", "qwenperf/decode/planted.py").split()
    assert changed == [found, log[0]]
    assert "PRODUCTS = 7.5" in git(place, "show", f"{found}:qwenperf/decode/planted.py")
    assert "PRODUCTS = 0.0" in git(place, "show", f"{found}~1:qwenperf/decode/planted.py")
    assert "decode_step=slowed_by(step or steps.decode_step))" in (place / "qwenperf/decode/build.py").read_text()
    assert make_repository(place, root, culprit=5, products=7.5) == found


def test_code_that_is_no_longer_what_it_was_is_refused(root, tmp_path):
    """A slowdown that is not there would be searched for in vain."""
    (root / "qwenperf/decode/build.py").write_text("# other code\n")
    with pytest.raises(ConfigError, match="nothing can be planted"):
        make_repository(tmp_path / "history", root, culprit=1, products=1.0)


def test_tries_have_the_slow_commit_in_different_places():
    """Over the whole history."""
    assert sorted(culprits()) == list(range(1, COMMITS + 1))
    assert culprits()[:10] != sorted(culprits()[:10])


def record(end, *suspects):
    ends = {"head": "s16", "answer": "bad", "seconds": 9.0, "pairs": 12, "change": 0.08, "low": 0.07, "high": 0.09}
    step = {"head": "s3", "answer": "bad", "seconds": 9.0, "pairs": 24, "change": 0.07, "low": 0.06, "high": 0.08}
    commits = [{"sha": f"s{number}"} for number in range(1, COMMITS + 1)]
    return {"end": end, "suspects": list(suspects), "commits": commits, "answers": [ends, step]}


@pytest.mark.parametrize(
    ("told", "outcome", "found"),
    [
        (record("culprit", "s3"), "right", [3]),
        (record("culprit", "s4"), "wrong", [4]),
        (record("range", "s2", "s3"), "range", [2, 3]),
        (record("unclear"), "unclear", []),
    ],
)
def test_a_try_is_right_only_with_the_one_commit(tmp_path, told, outcome, found):
    """A range that holds it is told as one."""
    line = line_of(told, 1, 3, "s3")
    assert (line["outcome"], line["found"], line["pairs"]) == (outcome, found, 36)
    log = LiveLog(lines=tmp_path / "tries.jsonl", pairs=tmp_path / "none.csv")
    log.add(line | {"seconds": 60.0})
    assert f"{int(outcome == 'right')} of 1 right" in summary(log)
    assert "+8.0% (+7.0% to +9.0%) | +7.0% (+6.0% to +8.0%) | 60 |" in summary(log)


def searched(noise, **more):
    random = np.random.default_rng(3)
    asked = {"culprit": 11, "slowdown": 0.08, "ordinary": False} | more
    return simulate.one_search(lambda count: random.normal(0, noise, size=count), **asked)


def test_a_simulated_search_in_calm_noise_takes_the_least_that_it_can():
    """24 pairs for the ends, 6 for each of 4 commits, 8 for the culprit's step; pull requests would take far more."""
    calm = searched(0.005)
    assert (calm.outcome, calm.pairs, calm.comparisons, calm.reopened) == ("right", 24 + 4 * 6 + 8, 6, False)
    ordinary = searched(0.005, ordinary=True)
    assert ordinary.outcome == "right"
    assert ordinary.pairs > 1.2 * calm.pairs


def test_a_simulated_search_counts_what_is_not_right(monkeypatch):
    """Ends that do not differ are told; answers that lie name a wrong commit."""
    assert searched(0.01, slowdown=0.0).outcome == "same"
    monkeypatch.setattr(simulate, "_OUTCOMES", dict.fromkeys(simulate._OUTCOMES, simulate.Outcome.FAIL))
    assert searched(0.01).outcome == "wrong"


def test_rates_of_simulated_searches_are_of_all_of_them():
    """And the table has a row for each noise."""
    random_of = simulate._generated("iid", 0.01)
    found = [simulate.simulate(random_of, "iid", 0.08, 16, 1, ordinary=one) for one in (False, True)]
    assert found[0]["right"]["hits"] == 16
    assert found[0]["wrong"]["hits"] + found[0]["told"]["hits"] == 0
    assert len(simulate.table({"iid": tuple(found)})) == 3
    assert len(simulate.noises()) >= 11
