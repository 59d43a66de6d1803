"""An upgrade from start to end: the same code under several versions of JAX, each compared with the first that works.

A version that cannot be had, or breaks, is told and costs the others nothing. ``upgrade.json`` is rewritten after each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from qwenperf.errors import QwenperfError
from qwenperf.gate import verdict
from qwenperf.gate.aot import exit_code as aot_exit_code
from qwenperf.gate.aot_difference import compare_records
from qwenperf.gate.comparison import exit_code as comparison_exit_code
from qwenperf.gate.excuses import Excuse, excuse
from qwenperf.gate.runs import runs_verdict
from qwenperf.lab.aot_sides import compile_side
from qwenperf.lab.compare import Comparison, create_folder
from qwenperf.lab.compare import Listener as PairListener
from qwenperf.lab.interpreters import ask
from qwenperf.lab.inventory import Inventory, take_inventory
from qwenperf.lab.pairs import PairOptions
from qwenperf.lab.run_folder import new_run_id, write_text, writing
from qwenperf.lab.run_pairs import Key, RunPairs
from qwenperf.lab.run_pairs import Listener as RunListener
from qwenperf.lab.side_command import run_side
from qwenperf.lab.sides import Side
from qwenperf.lab.upgrade_record import version_case
from qwenperf.lab.version_sides import Version
from qwenperf.schema.analysis import AotRecord
from qwenperf.schema.codec import dumps
from qwenperf.schema.comparison import ComparisonRecord
from qwenperf.schema.records import Outcome, RunRecord, Verdict
from qwenperf.schema.upgrade import UpgradeRecord, VersionRecord, upgrade_dumps
from qwenperf.stats.spending import Plan, least_last

FILE = "upgrade.json"
VARIES = ("jax", "jaxlib", "libtpu", "python")
JUDGED = ("compile_s", "peak_rss_bytes")
"""Metrics of whole runs that are judged; times of requests are the comparison's."""

RUNS = Plan(looks=(6,), alpha=0.05)
"""One look: a run is long, and what it says of compiling is confirmed by fresh ones."""


@dataclass(frozen=True, kw_only=True)
class UpgradeOptions:
    """How an upgrade measures.

    ``runs`` are pairs of whole runs a version; ``None``: as many as are needed to fail one of the cases, 0: one run a
    version, unjudged. ``aot`` are arguments of ``qwenperf aot``; ``None`` compiles for no other chip.
    """

    arguments: Sequence[str]
    plan: Plan
    pairs: PairOptions
    runs: int | None = None
    compile_margin: float = 0.1
    aot: Sequence[str] | None = None
    inconclusive: str = "warn"
    excuses: Sequence[Excuse] = ()


@dataclass(kw_only=True)
class Upgrade:
    """Runs one upgrade. ``make`` makes the side of a version; ``say`` is told what begins."""

    versions: Sequence[Version]
    make: Callable[[Version], Side]
    options: UpgradeOptions
    folder: Path
    say: Callable[[str], None]
    pair_listener: Callable[[], PairListener]
    run_listener: RunListener
    commit: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin with versions of which nothing is known."""
        self._sides: dict[str, Side] = {}
        self._runs: dict[str, list[RunRecord]] = {}
        self._compiled: dict[str, AotRecord] = {}
        self.record = UpgradeRecord(
            id=self.folder.name,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            commit=self.commit,
            plan={"runs": self.options.runs, "margin": self.options.plan.margin,
                  "compile_margin": self.options.compile_margin, "looks": list(self.options.plan.looks)},
            versions=tuple(VersionRecord(label=one.label, jax=one.jax, libtpu=one.libtpu) for one in self.versions),
        )  # fmt: skip

    def run(self) -> UpgradeRecord:
        """Measure every version; an interrupt keeps what there is.

        Raises:
          OutputError: the record cannot be written.
        """
        try:
            self._keep()
            for version in self.versions:
                self._build(version)
            working = [version.label for version in self.versions if version.label in self._sides]
            if working:
                self.record = replace(self.record, base=working[0])
            if len(working) == 1:
                self._guarded(working[0], self._alone)
            for label in working[1:]:
                self._guarded(label, lambda label: self._against(working[0], label))
        except KeyboardInterrupt:
            self.record = replace(self.record, interrupted=True)
        self._keep()
        return self.record

    def _build(self, version: Version) -> None:
        """Make the environment of a version."""
        self.say(f"making or finding an environment with {version.label}")

        def build(label: str) -> None:
            side = self.make(version)
            self._sides[label] = side
            python = ask(side.python)
            if python is not None:
                real = str(Path(side.python).resolve())
                self._set(label, python=python.short, interpreter=real)
                self.say(f"  {label}: Python {python.short} of {real}")

        self._guarded(version.label, build)

    def _guarded(self, label: str, work: Callable[[str], None]) -> None:
        """Do something for one version; what goes wrong is told of that version, and the others go on."""
        try:
            work(label)
        except QwenperfError as error:
            self.say(f"  {label}: {error}")
            known = self.record.versions[self._number(label)].exit_code
            self._set(label, error=str(error), exit_code=verdict.strongest((known, error.exit_code)))
        self._keep()

    def _alone(self, label: str) -> None:
        """Run a version that nothing can be compared with."""
        self._runs.setdefault(label, []).append(run_side(self._sides[label], self.options.arguments))

    def _against(self, base: str, label: str) -> None:
        """Compare a version with the first: whole runs, pairs of processes, programs for chips that are not here."""
        old, new = replace(self._sides[base], name="base"), replace(self._sides[label], name="head")
        inventory = take_inventory(old, new, self.options.arguments, {})
        names = [case.id for case in inventory.shared]
        self.say(f"measuring {label} against {base}: whole runs")
        verdicts = self._by_runs(base, label, old, new, names)
        self._cases(base, {})
        self._cases(label, verdicts)
        self.say(f"measuring {label} against {base}: pairs of processes")
        compared, place = self._by_pairs(old, new, inventory)
        for case in compared.cases:
            verdicts[case.id] = (*case.verdicts, *verdicts.get(case.id, ()))
        self._set(label, verdicts=compared.verdicts, comparison=place)
        self._cases(label, verdicts)
        codes = [comparison_exit_code(compared, self.options.inconclusive), *self._codes(verdicts)]
        self._set(label, exit_code=verdict.strongest(codes))
        if compared.interrupted:
            raise KeyboardInterrupt
        codes.append(self._by_programs(base, label))
        self._set(label, exit_code=verdict.strongest(codes))

    def _codes(self, verdicts: Mapping[str, Sequence[Verdict]]) -> list[int]:
        """Return the exit codes of the verdicts on whole runs; the comparison knows its own."""
        found = {one.outcome for each in verdicts.values() for one in each if one.gate in JUDGED}
        codes = [verdict.FAILED] if Outcome.FAIL in found else []
        if Outcome.INCONCLUSIVE in found and self.options.inconclusive == "fail":
            codes.append(verdict.INCONCLUSIVE)
        return codes

    def _by_runs(
        self, base: str, label: str, old: Side, new: Side, names: Sequence[str]
    ) -> dict[str, tuple[Verdict, ...]]:
        """Measure pairs of whole runs and judge what they say of compiling and memory."""
        if self.options.runs == 0:
            for whose, side in ((base, old), (label, new)):
                if whose not in self._runs:
                    self._runs[whose] = [run_side(side, self.options.arguments)]
            return {}
        keys: list[Key] = [(name, metric) for name in names for metric in JUDGED]
        plan = replace(RUNS, margin=self.options.plan.margin)
        plan = replace(plan, looks=(self.options.runs or least_last(plan, len(keys)),))
        labels = {"base": base, "head": label}
        found = RunPairs(
            base=old, head=new, arguments=self.options.arguments, keys=keys, plan=plan, listener=self.run_listener,
            seed=int(self.folder.name[-6:], 16),
            margins={(name, "compile_s"): self.options.compile_margin for name in names},
            measured=lambda side, run: self._runs.setdefault(labels[side], []).append(run),
        ).run()  # fmt: skip
        judged: dict[str, tuple[Verdict, ...]] = {}
        for (name, metric), one in found.items():
            judged[name] = (*judged.get(name, ()), runs_verdict(metric, one.first, one.second))
        return judged

    def _by_pairs(self, old: Side, new: Side, inventory: Inventory) -> tuple[ComparisonRecord, str]:
        """Compare as ``qwenperf compare --jax`` does."""
        place = create_folder(self.folder)
        plan = self.options.plan
        enough = least_last(plan, len(inventory.shared))
        record = Comparison(
            base=old, head=new, inventory=inventory, plan=replace(plan, looks=(*plan.looks[:-1], enough)),
            options=self.options.pairs, folder=place, listener=self.pair_listener(), excuses=self.options.excuses,
            facts={"plan": {"varies": list(VARIES)}},
        ).run()  # fmt: skip
        return record, place.name

    def _by_programs(self, base: str, label: str) -> int:
        """Compile for chips that are not here, and say what differs; return the exit code of that."""
        if self.options.aot is None:
            return verdict.FINE
        for one in (base, label):
            if one not in self._compiled:
                self.say(f"compiling for other chips: {one}")
                self._compiled[one] = compile_side(self._sides[one], list(self.options.aot))
                file = f"aot-{self._number(one)}.json"
                write_text(self.folder / file, dumps(self._compiled[one]))
                self._set(one, compiled=file)
        today = datetime.now(UTC).date()
        judged = excuse(compare_records(self._compiled[base], self._compiled[label]), self.options.excuses, today)
        self._set(label, programs={case.id: case.verdicts for case in judged.cases})
        return aot_exit_code(judged)

    def _cases(self, label: str, verdicts: Mapping[str, Sequence[Verdict]]) -> None:
        """Put the runs of a version and its verdicts into the record."""
        runs = self._runs.get(label, [])
        names = list(dict.fromkeys((*(name for run in runs for name in run.declared), *verdicts)))
        cases = {name: replace(version_case(runs, name), verdicts=tuple(verdicts.get(name, ()))) for name in names}
        self._set(label, cases=cases, **({"environment": runs[0].environment} if runs else {}))

    def _number(self, label: str) -> int:
        return [version.label for version in self.versions].index(label)

    def _set(self, label: str, **values: Any) -> None:
        versions = list(self.record.versions)
        number = self._number(label)
        versions[number] = replace(versions[number], **values)
        self.record = replace(self.record, versions=tuple(versions))

    def _keep(self) -> None:
        for label in self._runs:
            known = self.record.versions[self._number(label)].cases
            self._cases(label, {name: case.verdicts for name, case in known.items()})
        write_text(self.folder / FILE, upgrade_dumps(self.record))


def create_upgrade_folder(out: Path) -> Path:
    """Create a new folder for an upgrade below ``out``.

    Raises:
      OutputError: it cannot be made.
    """
    with writing(out):
        folder = out / f"upgrade-{new_run_id(datetime.now(UTC))}"
        folder.mkdir(parents=True)
    return folder
