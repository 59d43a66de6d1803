"""An upgrade with real processes; its versions are one JAX, with other tokens planted under one of them."""

import sys
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

import qwenperf
from qwenperf.errors import MeasurementError, UsageError
from qwenperf.lab import run_pairs
from qwenperf.lab import upgrade as lab_upgrade
from qwenperf.lab.inventory import Inventory
from qwenperf.lab.pairs import PairOptions
from qwenperf.lab.sides import Side
from qwenperf.lab.upgrade import FILE, Upgrade, create_upgrade_folder
from qwenperf.lab.upgrade_compare import UpgradeOptions, judge_runs
from qwenperf.lab.upgrade_record import exit_code
from qwenperf.lab.version_sides import Version
from qwenperf.report.upgrade import upgrade_report
from qwenperf.schema.published import upgrade_schema
from qwenperf.schema.records import CaseRecord, Outcome, RunRecord, Verdict, metric
from qwenperf.schema.upgrade import (
    UpgradeRecord,
    VersionCase,
    VersionRecord,
    upgrade_dumps,
    upgrade_loads,
    upgrade_to_json,
)
from qwenperf.stats.spending import Plan
from qwenperf.workloads.case import Case, Workload

ROOT = Path(qwenperf.__file__).parent.parent
ENGINE = '''"""An engine that says one token all the time, which its environment names."""

import os

import jax
import numpy as np


@jax.jit
def answer(tokens_BT):
    return tokens_BT[:, :1] * 0 + int(os.environ.get("PLANTED", "3"))


class Constant:
    name = "constant"

    def generate(self, tokens_BT, new_tokens):
        return np.repeat(np.asarray(answer(tokens_BT)), new_tokens, axis=1)


def make(model, capacity):
    return Constant()
'''
OLD, NEW, NONE = Version(jax="0.10.1"), Version(jax="0.10.2"), Version(jax="9.9.9")


class Quiet:
    """Listens to pairs and to runs."""

    def pair_ended(self, comparison, pair, most):
        """Hear of a pair."""

    def looked(self, comparison, look, decisions):
        """Hear of a look."""

    def run_pair_ended(self, number, most, stage, failed):
        """Hear of a pair of runs."""


def make(version):
    """Return the side of a version, or none."""
    if version is NONE:
        raise MeasurementError("there is no version of jax==9.9.9")
    environ = {"PLANTED": "4"} if version is NEW else {}
    return Side(name="base", label=version.label, kind="versions", root=ROOT, python=sys.executable, environ=environ)


def upgrade(folder, *versions):
    arguments = ("--model", "tiny", "--engine", "planted:make", "--prompt-length", "4", "--new-tokens", "8")
    options = UpgradeOptions(
        arguments=arguments, plan=Plan(looks=(6,), alpha=0.05), pairs=PairOptions(rounds=1, trial_s=0.01), runs=0
    )
    return Upgrade(
        versions=versions, make=make, options=options, folder=create_upgrade_folder(folder), say=lambda _: None,
        pair_listener=Quiet, run_listener=Quiet(),
    )  # fmt: skip


def text_of(record):
    return "\n".join(str(one) for one in upgrade_report(record, "file"))


@pytest.mark.slow
def test_what_a_version_makes_wrong_fails_and_one_that_is_not_there_is_told(tmp_path, monkeypatch):
    """Each case has its values under each version that works; the record is whole on disk."""
    (tmp_path / "planted.py").write_text(ENGINE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    one = upgrade(tmp_path / "out", OLD, NONE, NEW)
    record = one.run()
    written = (one.folder / FILE).read_text()
    assert upgrade_dumps(upgrade_loads(written, "file")) == written == upgrade_dumps(record)
    old, none, new = record.versions
    assert none.error == "there is no version of jax==9.9.9"
    assert record.base == old.label
    (case,) = new.cases.values()
    verdicts = {verdict.gate: verdict.outcome for verdict in case.verdicts}
    assert verdicts["tokens"] is Outcome.FAIL
    assert verdicts["speed"] is not Outcome.SKIPPED
    assert {*next(iter(old.cases.values())).metrics} == {*case.metrics} >= {"compile_s", "request_s", "peak_rss_bytes"}
    assert (new.exit_code, exit_code(record)) == (1, 5)
    told = text_of(record)
    assert "jax 9.9.9: there is no version" in told
    assert "FAIL: jax 0.10.2: tiny/planted:make/b1-p4-n8-f32: tokens: row 0, new token 0: 3 in base, 4 in head" in told


def test_without_a_version_that_works_nothing_is_measured(tmp_path):
    """Exit code 5, and the reason of each."""
    one = upgrade(tmp_path, NONE)
    record = one.run()
    assert exit_code(record) == 5
    assert "compared with none: no version works" in text_of(record)
    assert "there is no version of jax==9.9.9" in text_of(record)


@pytest.mark.parametrize("pairs", [0, 6])
def test_each_run_is_on_disk_before_the_next_begins(tmp_path, monkeypatch, pairs):
    """What was measured before a power cut is not lost, whether in pairs or alone."""
    one = upgrade(tmp_path, OLD, NEW)
    one.options = replace(one.options, runs=pairs)
    on_disk = []

    def run_side(side, arguments):  # noqa: ARG001
        kept = upgrade_loads((one.folder / FILE).read_text(), "file").versions
        on_disk.append(sum(len(case.metrics["compile_s"].samples) for each in kept for case in each.cases.values()))
        if len(on_disk) > (pairs or 1):
            raise KeyboardInterrupt
        case = CaseRecord(id="case", spec={}, metrics={"compile_s": metric("compile_s", 2.0)})
        return RunRecord(
            id="r", created_at="2026-01-01T00:00:00+00:00", suite="s", environment={}, cases=(case,), declared=("case",)
        )

    shared = Case(model="tiny", engine="cached", workload=Workload(prompt_length=4, new_tokens=8))
    monkeypatch.setattr(lab_upgrade, "run_side", run_side)
    monkeypatch.setattr(run_pairs, "run_side", run_side)
    monkeypatch.setattr(lab_upgrade, "take_inventory", lambda *_: Inventory(shared=(shared,)))
    monkeypatch.setattr(run_pairs.RunPairs, "_check", lambda *_: None)
    assert one.run().interrupted
    assert on_disk == list(range(len(on_disk)))
    assert len(on_disk) == (pairs or 1) + 1


def test_so_few_pairs_of_runs_that_nothing_could_fail_are_refused(tmp_path):
    """A doubled compile time would never be found, and the upgrade would end with 0."""
    options = replace(upgrade(tmp_path, OLD, NEW).options, runs=6)
    side = make(OLD)
    with pytest.raises(UsageError, match=r"--runs 6: so few pairs can fail none of 2 cases\. Write 7 or more"):
        judge_runs(options, side, side, ("a", "b"), seed=1, listener=Quiet(), measured=lambda *_: None)


def made_record(**more):
    """Return a record of two versions, of which the second is worse in one thing."""
    cases = [
        VersionCase(metrics={"compile_s": metric("compile_s", seconds)}, verdicts=verdicts)
        for seconds, verdicts in (
            (2.0, ()),
            (3.0, (Verdict(gate="compile_s", outcome=Outcome.FAIL, summary="compile_s +50.0%"),)),
        )
    ]
    versions = tuple(
        VersionRecord(label=label, python="3.12.1", interpreter="/usr/bin/python3.12", cases={"case": case}, **other)
        for label, case, other in (("jax 1", cases[0], {}), ("jax 2", cases[1], more))
    )
    return UpgradeRecord(id="upgrade-1", created_at="2026-01-01T00:00:00+00:00", base="jax 1", versions=versions)


def test_a_table_shows_each_version_beside_the_first():
    """With the Python that it ran on."""
    told = made_record(exit_code=1)
    assert exit_code(told) == 1
    lines = text_of(told)
    assert "jax 2, Python 3.12.1 of /usr/bin/python3.12" in lines
    assert "FAIL: jax 2: case: compile_s: compile_s +50.0%" in lines
    assert upgrade_loads(upgrade_dumps(told), "file") == told
    jsonschema.validate(upgrade_to_json(told), upgrade_schema())


def test_an_error_of_one_version_wins_over_a_regression_of_another():
    """What was not measured is never green, nor red for something else."""
    assert exit_code(made_record(exit_code=1, error="its process died")) == 5
    assert (
        exit_code(UpgradeRecord(id="u", created_at="", versions=(VersionRecord(label="a"),), interrupted=True)) == 130
    )
