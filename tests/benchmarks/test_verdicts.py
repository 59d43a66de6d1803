"""The simulation of pull requests: its parts, and one small run."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest


class InProcess(ThreadPoolExecutor):
    """Calls what is mapped here, where a pool starts processes."""

    def __init__(self, jobs, **_):
        super().__init__(jobs)


@pytest.fixture(scope="module")
def verdicts(repository):
    sys.path.insert(0, str(repository))
    from benchmarks.verdicts import alone, intervals, others, scenarios, simulate, table

    return {
        "alone": alone,
        "intervals": intervals,
        "others": others,
        "scenarios": scenarios,
        "simulate": simulate,
        "table": table,
    }


def test_the_recording_holds_the_deviations_that_its_page_states(verdicts):
    """To the third digit; three of six are calm."""
    found = {one.name: one for one in verdicts["scenarios"].recordings()}
    assert {name: round(one.pairs.std(ddof=1), 3) for name, one in found.items()} == {
        "default 1": 0.095,
        "pin 1": 0.049,
        "duet 1": 0.135,
        "default 2": 0.040,
        "pin 2": 0.044,
        "duet 2": 0.121,
    }
    assert sorted(name for name, one in found.items() if one.calm) == ["default 2", "pin 1", "pin 2"]


@pytest.mark.parametrize(
    ("hits", "count", "low", "high"), [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (10, 10, 0.7225, 1.0)]
)
def test_rates_carry_the_interval_of_wilson(verdicts, hits, count, low, high):
    """Figures from the paper's formula by hand."""
    found = verdicts["table"].rate(hits, count)
    assert (found["low"], found["high"]) == pytest.approx((low, high), abs=1e-4)


def test_the_slowdown_that_is_found_in_80_of_100_is_read_off_a_curve(verdicts):
    """Where the truth is known."""
    random = np.random.default_rng(1)
    slowdowns = random.uniform(0.01, 0.15, size=20_000)
    fails = random.random(20_000) < 1 / (1 + np.exp(-(slowdowns - 0.06) / 0.01))
    assert verdicts["simulate"].found_in(slowdowns, fails, 0.8) == pytest.approx(0.06 + 0.01 * np.log(4), abs=0.001)


def test_the_rules_in_use_say_what_they_document(verdicts):
    """Twelve rounds a side, 7% slower but for one stalled round of base."""
    base = np.asarray([1.0] * 11 + [3.0]) + np.arange(12) * 1e-4
    head = np.full(12, 1.07) + np.arange(12) * 1e-4
    rules = verdicts["others"].RULES
    assert {name for name, rule in rules.items() if rule(base, head)} == {"pytest-benchmark min:5%"}
    assert {name for name, rule in rules.items() if rule(base, head * 1.2)} >= {"asv continuous, factor 1.1"}


def test_the_ranks_of_asv_are_those_of_mann_and_whitney(verdicts):
    """All of head above all of base, 12 each: U = 144, z = (72 - 0.5) / sqrt(300)."""
    found = verdicts["others"].mann_whitney_p(np.arange(12.0), np.arange(12.0) + 20)
    assert found == pytest.approx(3.66e-5, rel=0.01)


@pytest.mark.slow
def test_a_small_run_measures_every_kind_of_noise_and_writes_both_files(verdicts, tmp_path, monkeypatch, capsys):
    """Every rate with its interval, the command that made them, and the tables on the terminal."""
    monkeypatch.setattr(sys, "argv", ["simulate", "--count", "4", "--jobs", "1", "--out", str(tmp_path)])
    verdicts["simulate"].main()
    found = json.loads((tmp_path / "simulated.json").read_text())
    assert set(found["noise"]) == set(verdicts["scenarios"].scenarios())
    assert found["command"].endswith("--count 4 --seed 20261128")
    assert found["noise"]["iid"]["changed"]["+10%"]["fail"]["count"] == 4
    assert (tmp_path / "simulated.md").read_text() == capsys.readouterr().out.removesuffix("\n")


def test_some_kinds_of_noise_are_simulated_alone_into_files_of_their_own(verdicts, tmp_path, monkeypatch):
    """Replays of own pairs, once there are new ones; what else was simulated stays, and a mistyped name is told."""
    asked = ["simulate", "--count", "2", "--jobs", "1", "--out", str(tmp_path), "--noise"]
    monkeypatch.setattr(sys, "argv", [*asked, "nothing*"])
    with pytest.raises(SystemExit):
        verdicts["simulate"].main()
    monkeypatch.setattr(verdicts["simulate"], "ProcessPoolExecutor", InProcess)
    monkeypatch.setattr(sys, "argv", [*asked, "replay, [cn]*", "--name", "some"])
    verdicts["simulate"].main()
    found = json.loads((tmp_path / "some.json").read_text())
    assert set(found["noise"]) == {"replay, calm", "replay, noisy"}
    assert found["command"].endswith("--noise 'replay, [cn]*' --name some")
    assert "Other rules" not in (tmp_path / "some.md").read_text()
    assert not (tmp_path / "simulated.json").exists()


def test_the_ranks_that_were_chosen_are_those_that_judge(verdicts):
    """The comparison of intervals computes the bound that the verdicts have."""
    from qwenperf.stats import signs
    from qwenperf.stats.bounds import LogRatios

    rows = np.random.default_rng(5).normal(size=(3, 20))
    centres, found = verdicts["intervals"].by_ranks(rows)
    cases = [LogRatios(values=row, averages=signs.walsh(row), widening=1.0) for row in rows]
    assert centres.tolist() == pytest.approx([case.centre for case in cases])
    assert found.tolist() == pytest.approx([case.lower(verdicts["intervals"].LEVEL) for case in cases])


def test_what_is_found_is_confirmed_unless_fresh_pairs_deny_it(verdicts, monkeypatch):
    """Of a few comparisons of one case: a large slowdown that lasts, and one that is gone in the second stage."""
    alone = verdicts["alone"]
    monkeypatch.setattr(alone, "EFFECT", 0.3)
    assert alone.measure("iid", 8) == (0, 8, 8, 0)
    real, drawn = alone._pairs, iter([0.0, 0.3, 0.0] * 8)
    monkeypatch.setattr(alone, "_pairs", lambda kind, random, effect: real(kind, random, next(drawn)))  # noqa: ARG005
    assert alone.measure("iid", 8) == (0, 8, 0, 0)
