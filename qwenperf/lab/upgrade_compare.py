"""What a version of JAX is compared with the first one by: pairs of whole runs, and pairs of processes.

Both are told in verdicts. Which versions there are, and what becomes of one that breaks, is ``upgrade``'s business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from qwenperf.errors import UsageError
from qwenperf.gate import verdict
from qwenperf.gate.excuses import Excuse
from qwenperf.gate.runs import runs_verdict
from qwenperf.lab.compare import Comparison, create_folder
from qwenperf.lab.compare import Listener as PairListener
from qwenperf.lab.inventory import Inventory
from qwenperf.lab.pairs import PairOptions
from qwenperf.lab.run_pairs import Key, RunPairs
from qwenperf.lab.run_pairs import Listener as RunListener
from qwenperf.lab.sides import Side
from qwenperf.schema.comparison import ComparisonRecord
from qwenperf.schema.records import Outcome, RunRecord, Verdict
from qwenperf.stats.spending import Plan, least_last

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


def judge_runs(
    options: UpgradeOptions, old: Side, new: Side, names: Sequence[str], *, seed: int, listener: RunListener,
    measured: Callable[[str, RunRecord], None],
) -> dict[str, tuple[Verdict, ...]]:  # fmt: skip
    """Return verdicts by case on what pairs of whole runs say of compiling and memory; ``measured`` is told each run.

    Raises:
      MeasurementError: three pairs broke; says how the last one did.
      UsageError: so few pairs can fail none of the cases.
    """
    keys: list[Key] = [(name, metric) for name in names for metric in JUDGED]
    plan = replace(RUNS, margin=options.plan.margin)
    least = least_last(plan, len(keys))
    if options.runs and options.runs < least:
        raise UsageError(
            f"--runs {options.runs}: so few pairs can fail none of {len(names)} cases.",
            advice=f"Write {least} or more; 0 judges none.",
        )
    plan = replace(plan, looks=(options.runs or least,))
    found = RunPairs(
        base=old, head=new, arguments=options.arguments, keys=keys, plan=plan, listener=listener, seed=seed,
        margins={(name, "compile_s"): options.compile_margin for name in names}, measured=measured,
    ).run()  # fmt: skip
    judged: dict[str, tuple[Verdict, ...]] = {}
    for (name, metric), one in found.items():
        judged[name] = (*judged.get(name, ()), runs_verdict(metric, one.first, one.second))
    return judged


def runs_codes(verdicts: Mapping[str, Sequence[Verdict]], inconclusive: str) -> list[int]:
    """Return the exit codes of the verdicts on whole runs; a comparison knows its own."""
    found = {one.outcome for each in verdicts.values() for one in each if one.gate in JUDGED}
    codes = [verdict.FAILED] if Outcome.FAIL in found else []
    if Outcome.INCONCLUSIVE in found and inconclusive == "fail":
        codes.append(verdict.INCONCLUSIVE)
    return codes


def compare_processes(
    options: UpgradeOptions, old: Side, new: Side, inventory: Inventory, *, folder: Path, listener: PairListener
) -> tuple[ComparisonRecord, str]:
    """Compare as ``qwenperf compare --jax`` does; return the record and the name of its folder below ``folder``.

    Raises:
      OutputError: the folder cannot be made.
    """
    place = create_folder(folder)
    enough = least_last(options.plan, len(inventory.shared))
    record = Comparison(
        base=old, head=new, inventory=inventory,
        plan=replace(options.plan, looks=(*options.plan.looks[:-1], enough)), options=options.pairs, folder=place,
        listener=listener, excuses=options.excuses, facts={"plan": {"varies": list(VARIES)}},
    ).run()  # fmt: skip
    return record, place.name
