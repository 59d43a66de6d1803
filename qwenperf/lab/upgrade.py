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
from qwenperf.gate.excuses import excuse
from qwenperf.lab.aot_sides import compile_side
from qwenperf.lab.compare import Listener as PairListener
from qwenperf.lab.interpreters import ask
from qwenperf.lab.inventory import take_inventory
from qwenperf.lab.run_folder import new_run_id, write_text, writing
from qwenperf.lab.run_pairs import Listener as RunListener
from qwenperf.lab.side_command import run_side
from qwenperf.lab.sides import Side
from qwenperf.lab.upgrade_compare import UpgradeOptions, compare_processes, judge_runs, runs_codes
from qwenperf.lab.upgrade_record import version_case
from qwenperf.lab.version_sides import Version
from qwenperf.schema.analysis import AotRecord
from qwenperf.schema.codec import dumps
from qwenperf.schema.records import RunRecord, Verdict
from qwenperf.schema.upgrade import UpgradeRecord, VersionRecord, upgrade_dumps

FILE = "upgrade.json"


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
        self._take(label, run_side(self._sides[label], self.options.arguments))

    def _take(self, label: str, run: RunRecord) -> None:
        """Put a run of a version on disk, before the next one begins."""
        self._runs.setdefault(label, []).append(run)
        self._keep()

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
        compared, place = compare_processes(
            self.options, old, new, inventory, folder=self.folder, listener=self.pair_listener()
        )
        for case in compared.cases:
            verdicts[case.id] = (*case.verdicts, *verdicts.get(case.id, ()))
        self._set(label, verdicts=compared.verdicts, comparison=place)
        self._cases(label, verdicts)
        told = self.options.inconclusive
        codes = [comparison_exit_code(compared, told), *runs_codes(verdicts, told)]
        self._set(label, exit_code=verdict.strongest(codes))
        if compared.interrupted:
            raise KeyboardInterrupt
        codes.append(self._by_programs(base, label))
        self._set(label, exit_code=verdict.strongest(codes))

    def _by_runs(
        self, base: str, label: str, old: Side, new: Side, names: Sequence[str]
    ) -> dict[str, tuple[Verdict, ...]]:
        """Keep whole runs of both, and judge what pairs of them say; without pairs each version has one run."""
        if self.options.runs == 0:
            for whose, side in ((base, old), (label, new)):
                if whose not in self._runs:
                    self._take(whose, run_side(side, self.options.arguments))
            return {}
        labels = {"base": base, "head": label}
        return judge_runs(
            self.options, old, new, names, seed=int(self.folder.name[-6:], 16), listener=self.run_listener,
            measured=lambda side, run: self._take(labels[side], run),
        )  # fmt: skip

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
