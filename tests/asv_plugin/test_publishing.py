"""ASV's own publisher, with and without the plugin: who calls a rise of tokens per second a regression."""

import json
import os
import subprocess
import sys

import pytest

from qwenperf.asv_plugin.publishing import pattern, shown, unjudged

COMMITS = 20
NAMES = {"suite.track_ms": {"unit": "ms"}, "suite.track_shown_rate": {"unit": "tokens/s", "direction": "higher"}}


def test_only_what_says_so_is_shown():
    """A benchmark without a direction is judged, as asv does."""
    assert shown(NAMES) == {"suite.track_shown_rate"}
    assert unjudged({"name": "a", "last_value": 3, "prev_value": 2, "change_rev": [1, 2]})["last_value"] == 3
    assert pattern("a.b") == r"a\.b(\(|@|$)"


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """A repository with results in which both numbers rise by half in the middle, and stay there."""
    folder = tmp_path_factory.mktemp("history")
    subprocess.run(("git", "init", "-q", "-b", "trunk"), cwd=folder, check=True)
    machine = folder / "results" / "m"
    machine.mkdir(parents=True)
    (machine / "machine.json").write_text(json.dumps({"machine": "m", "version": 1}))
    for number in range(COMMITS):
        date = f"2026-01-01T00:{number:02}:00Z"
        environ = os.environ | {"GIT_COMMITTER_DATE": date, "GIT_AUTHOR_DATE": date}
        words = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x")
        subprocess.run(words, cwd=folder, check=True, env=environ)
        head = subprocess.run(("git", "rev-parse", "HEAD"), cwd=folder, check=True, capture_output=True, text=True)
        sha, value = head.stdout.strip(), (1.0 if number < COMMITS // 2 else 1.5) + 0.001 * (number % 3)
        result = {
            "commit_hash": sha, "env_name": "e", "date": 1767225600000 + 60000 * number, "params": {"machine": "m"},
            "python": "3.11", "requirements": {}, "env_vars": {}, "result_columns": ["result", "params", "version"],
            "results": {name: [[value], [], "1"] for name in NAMES}, "durations": {}, "version": 2,
        }  # fmt: skip
        (machine / f"{sha[:8]}-e.json").write_text(json.dumps(result))
    common = {"type": "track", "params": [], "param_names": [], "version": "1", "timeout": 60, "code": ""}
    benchmarks = {name: {"name": name, **common, **told} for name, told in NAMES.items()}
    (folder / "results" / "benchmarks.json").write_text(json.dumps({**benchmarks, "version": 2}))
    return folder


def publish(folder, **conf):
    """Return the names of the regressions that asv found, and its list."""
    told = {
        "version": 1, "project": "x", "repo": ".", "dvcs": "git", "branches": ["trunk"],
        "environment_type": "virtualenv", "results_dir": "results", "html_dir": "html",
    }  # fmt: skip
    (folder / "asv.conf.json").write_text(json.dumps(told | conf))
    done = subprocess.run(
        (sys.executable, "-m", "asv", "publish"), cwd=folder, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((folder / "html" / "regressions.json").read_text())["regressions"]
    (summary,) = (folder / "html").rglob("summary.json")
    rows = {row["name"]: row["prev_value"] is not None for row in json.loads(summary.read_text())}
    return sorted({one[0] for one in found}), rows


@pytest.mark.slow
def test_a_rise_of_tokens_per_second_is_no_regression(history):
    """Without the plugin asv calls both a regression and paints both red; with it only the slower one."""
    both = sorted(NAMES)
    assert publish(history) == (both, dict.fromkeys(both, True))
    found, changes = publish(history, plugins=[".qwenperf.asv_plugin.publishing"])
    assert found == ["suite.track_ms"]
    assert changes == {"suite.track_ms": True, "suite.track_shown_rate": False}


@pytest.mark.slow
def test_without_the_plugin_one_line_of_configuration_keeps_the_finder_away(history):
    """For those who cannot load it: the list still has its colour."""
    found, _ = publish(history, regressions_first_commits={r".*\.track_shown_": None})
    assert found == ["suite.track_ms"]
