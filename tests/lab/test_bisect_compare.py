"""What pairs say of a commit: which of two known levels they lie at, with as few of them as that takes."""

import json
import math
from dataclasses import replace
from functools import partialmethod
from pathlib import Path

import pytest

from qwenperf.cli.compare_progress import PairProgress
from qwenperf.errors import EnvironmentUnfitError, MachineBusyError, MeasurementError, RecordError
from qwenperf.gate.comparison import exit_code
from qwenperf.lab import bisect_traces, run_pairs
from qwenperf.lab import compare as compare_module
from qwenperf.lab.bisect_compare import ByPairs, ByRuns
from qwenperf.lab.bisect_traces import Traces
from qwenperf.lab.pairs import PairOptions, Pairs
from qwenperf.lab.run_pair_files import PairFolders
from qwenperf.lab.sides import Side
from qwenperf.schema.codec import comparison_loads
from qwenperf.schema.comparison import PairRecord, RoundRecord
from qwenperf.schema.documents import read_document
from qwenperf.schema.evidence import Evidence
from qwenperf.schema.records import CaseRecord, Outcome, RunRecord, metric
from qwenperf.stats.levels import Levels
from qwenperf.stats.spending import Plan
from qwenperf.workloads.case import Case, Workload

CASE = Case(model="tiny", engine="cached", workload=Workload(prompt_length=4, new_tokens=8))
LEVELS = Levels(changed=math.log(1.06), expected=math.log(1.08), deviation=0.01)
BASE, HEAD = (
    Side(name=name, label=name, kind="revision", root=Path(name), python="python") for name in ("base", "head")
)


@pytest.fixture
def compare(tmp_path, monkeypatch):
    """Return a maker of answers by pairs of which head is slower by a factor, or of which each breaks."""

    def ask(factor, noise=0.0, **more):
        def measure(self, number, *, stage=1):
            seen = {CASE.id: {"tokens": [[1]], "programs": {"step": "a"}}}
            self.evidence.update({"base": seen, "head": seen})
            if factor is None:
                return PairRecord(number=number, first="base", stage=stage, failed="out of memory")
            if factor is KeyboardInterrupt:
                raise factor
            head = factor * (1 + 0.002 * (number % 3)) * math.exp(noise * (-1) ** number)
            rounds = RoundRecord(order="ABBA", wall_s=(1.0, head, head, 1.0), cpu_s=(1.0, head, head, 1.0))
            return PairRecord(number=number, first="base", stage=stage, rounds={CASE.id: (rounds,)})

        monkeypatch.setattr(Pairs, "measure", measure)
        pairs = ByPairs(
            case=CASE, options=PairOptions(), folder=tmp_path, listener=lambda: PairProgress(lambda _: None)
        )
        found = pairs(BASE, HEAD, Plan(), LEVELS, **more)
        return found, comparison_loads((tmp_path / found.folder / "comparison.json").read_text())

    return ask


@pytest.mark.parametrize(("factor", "outcome"), [(1.08, Outcome.FAIL), (1.0, Outcome.PASS)])
def test_six_calm_pairs_tell_a_commit(compare, factor, outcome):
    """The comparison beside fails nothing: it was asked less than a pull request is."""
    found, record = compare(factor)
    assert (found.outcome, found.pairs, len(found.values), len(record.pairs)) == (outcome, 6, 6, 6)
    assert found.estimate == pytest.approx(factor - 1, abs=0.005)
    assert found.low <= found.estimate <= found.high
    assert "after 6 pairs" in found.why
    assert {pair.stage for pair in record.pairs} == {1}
    assert record.plan["levels"]["changed"] == pytest.approx(math.log(1.06))
    assert exit_code(record) == 0
    json.dumps(record.plan)


def test_pairs_between_the_levels_end_at_the_most_and_tell_nothing(compare):
    """They are asked again with more."""
    found, record = compare(1.03, noise=0.2)
    assert (found.outcome, len(record.pairs)) == (Outcome.INCONCLUSIVE, LEVELS.most)


def test_a_step_is_measured_by_pairs_that_are_traced(compare):
    """Those of the second stage are."""
    found, record = compare(1.08, traced=True)
    assert found.outcome is Outcome.FAIL
    assert {pair.stage for pair in record.pairs} == {2}


def test_pairs_that_break_skip_the_commit_with_the_reason(compare):
    """Three of them say enough."""
    found, record = compare(None)
    assert (found.outcome, found.why, len(record.pairs)) == (Outcome.SKIPPED, "out of memory", 3)


def test_an_interrupt_ends_the_search_and_not_the_answer(compare):
    """The same question is asked again next time."""
    with pytest.raises(KeyboardInterrupt):
        compare(KeyboardInterrupt)


class Cut:
    """Pairs of processes of which head is slower, until power is cut; ``ready`` is what each side's process says."""

    def __init__(self, pairs_left, ready=None):
        self.left, self.asked, self.known = pairs_left, [], []
        self.ready = ready or {"tokens": [[1]], "programs": {"step": "a"}}

    def __call__(self, pairs, number, *, stage=1):
        """Return a pair, or be killed."""
        if len(self.asked) == self.left:
            raise KeyboardInterrupt
        self.asked.append((stage, number))
        self.known.append((pairs.evidence["base"].get(CASE.id), dict(pairs.repeats)))
        pairs.evidence = {side: {CASE.id: self.ready} for side in ("base", "head")}
        pairs.repeats.setdefault(CASE.id, 3)
        head = 1.08 * (1 + 0.002 * (number % 3))
        rounds = RoundRecord(order="ABBA", wall_s=(1.0, head, head, 1.0), cpu_s=(1.0, head, head, 1.0))
        return PairRecord(number=number, first="base", stage=stage, rounds={CASE.id: (rounds,)})


def by_pairs(folder, monkeypatch, cut, **more):
    monkeypatch.setattr(Pairs, "measure", partialmethod(cut))
    return ByPairs(
        case=CASE, options=PairOptions(), folder=folder, listener=lambda: PairProgress(lambda _: None), **more
    )


def kept(folder):
    """Return the one comparison of a folder."""
    (file,) = folder.glob("compare-*/comparison.json")
    return comparison_loads(file.read_text())


@pytest.mark.parametrize("levels", [LEVELS, None])
@pytest.mark.parametrize("left", [1, 7, 25])
def test_pairs_of_processes_that_were_cut_short_are_gone_on_behind(tmp_path, monkeypatch, levels, left):
    """No pair is measured twice, whatever was asked; the answer is that of one go."""
    whole = by_pairs(tmp_path / "whole", monkeypatch, one_go := Cut(99))(BASE, HEAD, Plan(), levels)
    monkeypatch.undo()
    cut = Cut(min(left, len(one_go.asked) - 1))
    with pytest.raises(KeyboardInterrupt):
        by_pairs(tmp_path / "cut", monkeypatch, cut)(BASE, HEAD, Plan(), levels)
    assert len(kept(tmp_path / "cut").pairs) == len(cut.asked)
    rest = Cut(99)
    found = by_pairs(tmp_path / "cut", monkeypatch, rest)(BASE, HEAD, Plan(), levels)
    assert cut.asked + rest.asked == one_go.asked
    assert rest.known[0] == ({"tokens": [[1]], "programs": {"step": "a"}, "metrics": {}}, {CASE.id: 3})
    assert replace(found, folder=None) == replace(whole, folder=None)
    assert not kept(tmp_path / "cut").interrupted


def test_pairs_that_had_told_enough_when_the_power_was_cut_are_an_answer(tmp_path, monkeypatch):
    """As their processes said it: none is started again."""
    by_pairs(tmp_path, monkeypatch, Cut(99))(BASE, HEAD, Plan(), LEVELS)
    again = Cut(0)
    found = by_pairs(tmp_path, monkeypatch, again)(BASE, HEAD, Plan(), LEVELS)
    assert (found.outcome, found.pairs, again.asked) == (Outcome.FAIL, 6, [])


@pytest.mark.parametrize("how", ["answered", "other process", "restarted", "another question", "damaged"])
def test_pairs_that_answered_or_are_of_another_question_are_not_gone_on_with(tmp_path, monkeypatch, how):
    """A question that is asked again is answered by fresh pairs."""
    pairs = by_pairs(tmp_path, monkeypatch, Cut(99))
    first = pairs(BASE, HEAD, Plan(), LEVELS)
    if how == "other process":
        pairs = by_pairs(tmp_path, monkeypatch, Cut(99), answered={first.folder})
    if how in {"restarted", "another question", "damaged"}:
        pairs = by_pairs(tmp_path, monkeypatch, Cut(99), begun="later" if how == "restarted" else "")
    if how == "damaged":
        (tmp_path / first.folder / "comparison.json").write_text("{")
    asked = replace(LEVELS, most=40) if how == "another question" else LEVELS
    assert pairs(BASE, HEAD, Plan(), asked).folder != first.folder


def test_a_pair_that_was_measured_in_another_environment_is_not_kept(tmp_path, monkeypatch):
    """Those of before are, for whoever installs again what was there."""
    asked = []

    def check():
        asked.append(1)
        if len(asked) == 4:
            raise EnvironmentUnfitError("jax 1 -> 2")

    with pytest.raises(EnvironmentUnfitError, match="jax 1 -> 2"):
        by_pairs(tmp_path, monkeypatch, Cut(99), check=check)(BASE, HEAD, Plan(), LEVELS)
    assert len(kept(tmp_path).pairs) == 3
    rest = Cut(99)
    assert by_pairs(tmp_path, monkeypatch, rest)(BASE, HEAD, Plan(), LEVELS).outcome is Outcome.FAIL
    assert len(rest.asked) == 3


def test_a_machine_that_is_busy_costs_no_pair_that_was_measured(tmp_path, monkeypatch):
    """Only a folder in which there is nothing is removed."""
    with pytest.raises(KeyboardInterrupt):
        by_pairs(tmp_path, monkeypatch, Cut(3))(BASE, HEAD, Plan(), LEVELS)

    def busy():
        raise MachineBusyError("another measurement runs")

    monkeypatch.setattr(compare_module, "one_measurement", busy)
    with pytest.raises(MachineBusyError):
        by_pairs(tmp_path, monkeypatch, Cut(99))(BASE, HEAD, Plan(), LEVELS)
    assert len(kept(tmp_path).pairs) == 3
    with pytest.raises(MachineBusyError):
        by_pairs(tmp_path / "new", monkeypatch, Cut(99))(BASE, HEAD, Plan(), LEVELS)
    assert not list((tmp_path / "new").glob("compare-*"))


class Quiet:
    """A listener of pairs of runs."""

    def run_pair_ended(self, number, most, stage, failed):
        """Hear of a pair."""


def run_of(compile_s, summary=None):
    case = CaseRecord(
        id=CASE.id,
        spec={},
        metrics={"compile_s": metric("compile_s", compile_s)},
        evidence=Evidence(trace_summary=summary),
    )
    return RunRecord(id="r", created_at="2026-01-01T00:00:00+00:00", suite="ad-hoc", environment={}, cases=(case,))


def by_runs(folder, begun="now", answered=()):
    places = PairFolders(folder=folder, begun=begun, answered=set(answered))
    return ByRuns(case=CASE.id, metric="compile_s", arguments=(), seed=1, listener=Quiet(), places=places)


@pytest.mark.parametrize(("slower", "outcome"), [(1.08, Outcome.FAIL), (1.0, Outcome.PASS)])
def test_pairs_of_whole_runs_tell_a_commit_in_the_same_way(tmp_path, monkeypatch, slower, outcome):
    """Six runs of either side."""
    asked = []

    def run_side(side, arguments):  # noqa: ARG001
        asked.append(side.name)
        return run_of(2.0 * (slower if side.name == "head" else 1.0))

    monkeypatch.setattr(run_pairs, "run_side", run_side)
    found = by_runs(tmp_path)(BASE, HEAD, Plan(), LEVELS)
    assert (found.outcome, found.pairs, len(asked)) == (outcome, 6, 12)
    assert {asked[0], asked[1]} == {"base", "head"}


def test_what_ordinary_pairs_of_runs_measured_is_kept_for_later_answers(tmp_path, monkeypatch):
    """The search learns from both stages how far its ends are apart."""
    monkeypatch.setattr(run_pairs, "run_side", lambda side, _: run_of(2.0 if side.name == "base" else 3.0))
    found = by_runs(tmp_path)(BASE, HEAD, Plan())
    assert found.outcome is Outcome.FAIL
    assert len(found.values) == found.pairs == 24
    assert found.values[0] == pytest.approx(math.log(1.5))


class Killed:
    """Answers with runs until power is cut; what is on disk then is looked at before each."""

    def __init__(self, folder, runs_left):
        self.folder, self.left, self.asked, self.on_disk = folder, runs_left, [], []

    def __call__(self, side, arguments):  # noqa: ARG002
        """Return a run, or be killed."""
        self.on_disk.append(sum(path.read_text().count('"compile_s"') for path in self.folder.glob("*/pair-*.json")))
        if len(self.asked) == self.left:
            raise KeyboardInterrupt
        self.asked.append(side.name)
        return run_of(2.0 if side.name == "base" else 2.16)


def test_a_question_that_was_cut_short_goes_on_behind_its_pairs(tmp_path, monkeypatch):
    """Each run is on disk before the next begins; half a pair is made again; the answer is that of one go."""
    monkeypatch.setattr(run_pairs, "run_side", run_side := Killed(tmp_path, runs_left=7))
    with pytest.raises(KeyboardInterrupt):
        by_runs(tmp_path)(BASE, HEAD, Plan(), LEVELS)
    runs, each = run_side.on_disk, run_side.on_disk[1]
    assert each > 0
    assert runs == [each * number for number in range(8)]
    monkeypatch.setattr(run_pairs, "run_side", again := Killed(tmp_path, runs_left=99))
    resumed = by_runs(tmp_path)
    found = resumed(BASE, HEAD, Plan(), LEVELS)
    assert (found.outcome, found.pairs, len(again.asked)) == (Outcome.FAIL, 6, 6)
    assert again.asked[0] == run_side.asked[6]
    assert len(list((tmp_path / found.folder).iterdir())) == 6


@pytest.mark.parametrize("how", ["answered", "other process", "restarted"])
def test_a_question_that_is_asked_again_is_answered_by_fresh_pairs(tmp_path, monkeypatch, how):
    """And so is one of a search that was begun anew."""
    monkeypatch.setattr(run_pairs, "run_side", asked := Killed(tmp_path, runs_left=99))
    runs = by_runs(tmp_path)
    first = runs(BASE, HEAD, Plan(), LEVELS)
    if how == "other process":
        runs = by_runs(tmp_path, answered={first.folder})
    if how == "restarted":
        runs = by_runs(tmp_path, begun="later")
    assert runs(BASE, HEAD, Plan(), LEVELS).folder != first.folder
    assert len(asked.asked) == 24


def test_pairs_that_broke_are_not_gone_on_with(tmp_path, monkeypatch):
    """Three of them have ended the question; one that is asked again is another."""

    def broken(*_):
        raise MeasurementError("no weights")

    monkeypatch.setattr(run_pairs, "run_side", broken)
    with pytest.raises(MeasurementError, match="no weights"):
        by_runs(tmp_path)(BASE, HEAD, Plan(), LEVELS)
    monkeypatch.setattr(run_pairs, "run_side", Killed(tmp_path, runs_left=99))
    assert by_runs(tmp_path)(BASE, HEAD, Plan(), LEVELS).outcome is Outcome.FAIL


def test_a_run_in_another_environment_is_not_kept(tmp_path, monkeypatch):
    """Neither half a pair nor a whole one."""
    monkeypatch.setattr(run_pairs, "run_side", Killed(tmp_path, runs_left=99))
    runs, asked = by_runs(tmp_path), []

    def check():
        asked.append(1)
        if len(asked) == 4:
            raise EnvironmentUnfitError("jax 1 -> 2")

    runs.check = check
    with pytest.raises(EnvironmentUnfitError):
        runs(BASE, HEAD, Plan(), LEVELS)
    assert [len(pair.runs) for pair in map(read_pair, sorted(tmp_path.glob("*/pair-*.json")))] == [2, 1]


def read_pair(file):
    return read_document(file.read_text(), str(file), run_pairs.RunPair, run_pairs.PAIR_SCHEMA, advice="")


def test_a_pair_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    """With what to do."""
    monkeypatch.setattr(run_pairs, "run_side", Killed(tmp_path, runs_left=7))
    with pytest.raises(KeyboardInterrupt):
        by_runs(tmp_path)(BASE, HEAD, Plan(), LEVELS)
    next(tmp_path.glob("*/pair-1-002.json")).write_text("{")
    with pytest.raises(RecordError, match=r"pair-1-002.json is not JSON.*Begin anew with --restart"):
        by_runs(tmp_path)(BASE, HEAD, Plan(), LEVELS)


def test_traces_of_a_culprit_are_those_of_one_run_of_either_side(monkeypatch):
    """What cannot be traced explains nothing and costs no answer."""
    told, traced = [], []

    def run_side(side, arguments, *, traced=False):  # noqa: ARG001
        told.append((side.name, side.label, traced))
        return run_of(2.0, {"side": side.name})

    monkeypatch.setattr(bisect_traces, "run_side", run_side)
    monkeypatch.setattr(bisect_traces, "top_lines", lambda *both: traced.append(both) or ("dot.1 +1 ms",))
    explain = Traces(case=CASE.id, arguments=(), side=lambda sha: replace(BASE, label=sha))
    assert explain("old", "new") == ("dot.1 +1 ms",)
    assert told == [("base", "old", True), ("head", "new", True)]
    assert traced == [({"side": "base"}, {"side": "head"})]

    def broken(*_, **__):
        raise MeasurementError("no profiler here.")

    monkeypatch.setattr(bisect_traces, "run_side", broken)
    said = []
    assert replace(explain, say=said.append)("old", "new") == ()
    assert "no profiler here" in said[-1]
