"""Whole comparisons with real processes: one tree of code with a pause planted in it, and one that does not start."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import qwenperf
from qwenperf.cli.compare_progress import PairProgress
from qwenperf.gate.comparison import exit_code
from qwenperf.lab import compare as compare_module
from qwenperf.lab.compare import Comparison, create_folder
from qwenperf.lab.inventory import Inventory
from qwenperf.lab.pairs import PairOptions, Pairs
from qwenperf.lab.revisions import compile_tree
from qwenperf.lab.sides import Side
from qwenperf.measure.capture_folder import is_under_way
from qwenperf.schema.codec import comparison_loads, dumps
from qwenperf.schema.comparison import PairRecord, RoundRecord
from qwenperf.schema.records import Outcome
from qwenperf.stats.spending import Plan
from qwenperf.workloads.case import Case, Workload

PACKAGE = Path(qwenperf.__file__).parent
CASE = Case(model="tiny", engine="cached-host", workload=Workload(prompt_length=4, new_tokens=16))
ROUND = RoundRecord(order="ABBA", wall_s=(1.0, 1.0, 1.0, 1.0), cpu_s=(1.0, 1.0, 1.0, 1.0))


@pytest.fixture
def run(tmp_path):
    """Return a runner of comparisons of this code with ``head``."""

    def compare(head, looks=(6,)):
        base = Side(name="base", label="base", kind="revision", root=PACKAGE.parent, python=sys.executable)
        folder = create_folder(tmp_path)
        record = Comparison(
            base=base,
            head=head,
            inventory=Inventory(shared=(CASE,)),
            plan=Plan(looks=looks, alpha=0.05),
            options=PairOptions(rounds=2, trial_s=0.02),
            folder=folder,
            listener=PairProgress(lambda _: None),
            facts={},
        ).run()
        written = (folder / "comparison.json").read_text()
        assert dumps(comparison_loads(written)) == written == dumps(record)
        return record

    return compare


@pytest.mark.slow
def test_a_pause_between_steps_is_found_confirmed_and_blamed_on_the_host(run, tmp_path, monkeypatch):
    """The programs are the same, so that only a clock can see it."""
    # Confirmed by as many pairs as it is found with; how many a real one takes is the statistics' business.
    monkeypatch.setattr(compare_module, "CONFIRM", Plan(looks=(6,), alpha=0.05))
    tree = tmp_path / "tree"
    shutil.copytree(PACKAGE, tree / "qwenperf", ignore=shutil.ignore_patterns("__pycache__"))
    file = tree / "qwenperf" / "lab" / "pair_worker.py"
    text = file.read_text()
    planted = text.replace("    return form.engine.generate(", "    time.sleep(0.01)\n    return form.engine.generate(")
    assert planted != text
    file.write_text(planted.replace("import sys\n", "import sys\nimport time\n", 1))
    compile_tree(tree, sys.executable)
    head = Side(name="head", label="head", kind="revision", root=tree, python=sys.executable)
    record = run(head)
    speed = next(verdict for verdict in record.cases[0].verdicts if verdict.gate == "speed")
    assert speed.outcome is Outcome.FAIL, json.dumps(speed.data, default=str)
    assert "the time is lost on the host" in speed.summary
    assert {pair.stage for pair in record.pairs} == {1, 2}
    assert all((tmp_path / record.id / file).is_file() for file in speed.data["traces"].values())
    assert speed.detail[0].startswith("host gap"), speed.detail
    assert exit_code(record) == 1


class Slow:
    """Pairs of which each takes a while."""

    def __init__(self):
        self.now, self.measured = 0.0, 0

    def monotonic(self):
        """Return the time."""
        return self.now

    def measure(self, number, *, stage):
        """Return a pair at once, that took 20 seconds."""
        self.now += 20.0
        self.measured += 1
        rounds = dict.fromkeys((CASE.id, "anchor/memory", "anchor/compute"), (ROUND,))
        return PairRecord(number=number, first="base", stage=stage, rounds=rounds)


def test_a_comparison_with_a_limit_begins_no_pair_that_would_not_end_in_time(tmp_path, monkeypatch):
    """What it has measured by then is kept, and nothing is decided by too few pairs."""
    slow = Slow()
    monkeypatch.setattr(Pairs, "measure", lambda _self, number, *, stage: slow.measure(number, stage=stage))
    monkeypatch.setattr(compare_module, "time", slow)
    side = Side(name="base", label="base", kind="revision", root=PACKAGE.parent, python=sys.executable)
    record = Comparison(
        base=side, head=replace(side, name="head"), inventory=Inventory(shared=(CASE,)), plan=Plan(),
        options=PairOptions(), folder=create_folder(tmp_path), listener=PairProgress(lambda _: None), facts={},
        limit_s=70.0,
    ).run()  # fmt: skip
    assert (slow.measured, len(record.pairs)) == (3, 3)
    assert not record.interrupted
    assert all(verdict.outcome is not Outcome.PASS for verdict in record.cases[0].verdicts if verdict.gate == "speed")


def test_an_interrupt_keeps_the_pairs_that_were_measured(tmp_path, monkeypatch):
    """They took minutes."""
    measured = PairRecord(number=1, first="base", rounds={CASE.id: (ROUND,)})

    marked = []

    def measure(_self, number, *, stage=1):
        marked.append(is_under_way(folder))
        if number > 2:
            raise KeyboardInterrupt
        return replace(measured, number=number, stage=stage)

    monkeypatch.setattr("qwenperf.lab.pairs.Pairs.measure", measure)
    side = Side(name="base", label="base", kind="revision", root=PACKAGE.parent, python=sys.executable)
    folder = create_folder(tmp_path)
    record = Comparison(
        base=side,
        head=replace(side, name="head"),
        inventory=Inventory(shared=(CASE,)),
        plan=Plan(),
        options=PairOptions(),
        folder=folder,
        listener=PairProgress(lambda _: None),
        facts={},
    ).run()
    assert record.interrupted
    assert (marked, is_under_way(folder)) == ([True] * 3, None)
    assert len(comparison_loads((folder / "comparison.json").read_text()).pairs) == 2
    assert exit_code(record) == 130


def test_a_comparison_that_is_killed_half_way_is_no_verdict(tmp_path, monkeypatch):
    """Its file is judged after each pair, and a kill leaves nobody to say that it was not over."""
    slow, seen = Slow(), []

    def measure(_self, number, *, stage):
        if number > 1:
            record = comparison_loads((folder / "comparison.json").read_text())
            seen.append((record.interrupted, exit_code(record)))
        return slow.measure(number, stage=stage)

    monkeypatch.setattr(Pairs, "measure", measure)
    side = Side(name="base", label="base", kind="revision", root=PACKAGE.parent, python=sys.executable)
    folder = create_folder(tmp_path)
    record = Comparison(
        base=side, head=replace(side, name="head"), inventory=Inventory(shared=(CASE,)), plan=Plan(looks=(6,)),
        options=PairOptions(), folder=folder, listener=PairProgress(lambda _: None), facts={},
    ).run()  # fmt: skip
    assert seen == [(True, 130)] * 5
    assert comparison_loads((folder / "comparison.json").read_text()) == record
    assert not record.interrupted


@pytest.mark.slow
def test_a_side_that_never_starts_ends_the_comparison_soon(run):
    """Three broken pairs say enough, and nothing is green."""
    record = run(Side(name="head", label="head", kind="revision", root=PACKAGE.parent, python="/bin/false"))
    assert [bool(pair.failed) for pair in record.pairs] == [True] * 3
    assert exit_code(record) == 5
