"""One comparison of the live run: `qwenperf compare` as people run it, on sides whose difference is known."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.verdicts.live_kinds import Kind
from benchmarks.verdicts.slowed import ENGINE, PRODUCTS
from qwenperf.cli.compare_progress import PairProgress
from qwenperf.gate.speed import GATE as SPEED
from qwenperf.lab import machine
from qwenperf.lab.compare import Comparison, create_folder
from qwenperf.lab.inventory import Inventory
from qwenperf.lab.pairs import PairOptions
from qwenperf.lab.sides import Side
from qwenperf.schema.comparison import ComparisonRecord
from qwenperf.stats.spending import Plan
from qwenperf.workloads.case import Case

_SPIN = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))\n"
"""Keeps one core, and ends with its parent."""

_OF_THE_MACHINE = ("cpu_model", "cores", "kernel", "jax", "jaxlib", "python")


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What all comparisons of a live run share; ``products``: needless ones a step, by the slowdown they make."""

    root: Path
    case: Case
    plan: Plan
    options: PairOptions
    out: Path
    products: Mapping[float, float]
    commit: Mapping[str, Any]

    def sides(self, kind: Kind) -> tuple[Side, Side]:
        """Return base and head of ``kind``."""
        base = Side(name="base", label="this code", kind="same", root=self.root, python=sys.executable)
        if not kind.slowdown:
            return base, replace(base, name="head")
        environ = {PRODUCTS: str(self.products[kind.slowdown])}
        return base, replace(base, name="head", label=kind.title, kind="engine", engine=ENGINE, environ=environ)

    def compare(self, kind: Kind, say: Callable[[str], None]) -> tuple[ComparisonRecord, float]:
        """Return one comparison and the seconds that it took."""
        base, head = self.sides(kind)
        comparison = Comparison(
            base=base, head=head, inventory=Inventory(shared=(self.case,)), plan=self.plan, options=self.options,
            folder=create_folder(self.out), listener=PairProgress(say),
            # As in `compare --aa`: that both sides are the same code must excuse nothing.
            facts={"plan": {"aa": not kind.slowdown}, "extra": {"same_code": not kind.slowdown}},
        )  # fmt: skip
        begun = time.monotonic()
        record = comparison.run()
        return record, time.monotonic() - begun


@contextmanager
def conditions(kind: Kind) -> Iterator[None]:
    """Keep one core busy where ``kind`` wants it."""
    if not kind.busy:
        yield
        return
    child = subprocess.Popen([sys.executable, "-c", _SPIN])
    try:
        yield
    finally:
        child.kill()
        child.wait()


def line_of(
    record: ComparisonRecord, kind: Kind, number: int, seconds: float, commit: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what the log keeps of a comparison, besides its pairs."""
    speed = next((one for one in record.cases[0].verdicts if one.gate == SPEED), None)
    data = {} if speed is None else speed.data
    whole = [pair for pair in record.pairs if pair.failed is None]
    return {
        "kind": kind.name,
        "try": number,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 2),
        "outcome": "skipped" if speed is None else speed.outcome.value,
        "summary": "nothing was measured" if speed is None else speed.summary,
        "stage_1": data.get("stage_1"),
        "stage_2": data.get("stage_2"),
        "pairs": sum(pair.stage == 1 for pair in whole),
        "confirming": sum(pair.stage == 2 for pair in whole),
        "broken": [pair.failed for pair in record.pairs if pair.failed],
        "ready_s": median(pair.extra["ready_s"] for pair in whole) if whole else None,
        "pair_s": round(seconds / len(record.pairs), 3) if record.pairs else None,
        "cpu": data.get("cpu"),
        "anchors": data.get("anchors"),
        "load": machine.load(),
        "machine": {name: record.base.environment.get(name) for name in _OF_THE_MACHINE},
        "commit": {"sha": commit.get("sha"), "dirty": commit.get("dirty")},
    }


def child_environ(bench: Bench, kind: Kind) -> dict[str, str]:
    """Return the environment of head's processes."""
    return bench.sides(kind)[1].child_environ(os.environ)
