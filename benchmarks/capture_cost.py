"""Does a capture change what is timed after it? `python -m benchmarks.capture_cost` compares it as any change.

Both sides are this code. Head saves a trace of a few requests after each of its rounds, base does not, so that all of
head's later trials come after a capture in the same process. The margin is 1%; a capture that compiles anything is a
failure. Run it while nothing else runs. `--quick` is a small model and few pairs, to see that it works.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from qwenperf.cli.compare_progress import PairProgress
from qwenperf.errors import QwenperfError
from qwenperf.gate.speed import GATE
from qwenperf.lab.compare import Comparison, create_folder
from qwenperf.lab.inventory import Inventory
from qwenperf.lab.pairs import ANCHORS, PairOptions
from qwenperf.lab.revisions import own_code
from qwenperf.lab.sides import Side
from qwenperf.lab.subject import Subject
from qwenperf.measure.default_platform import default_platform
from qwenperf.schema.comparison import ComparisonRecord
from qwenperf.schema.records import Outcome
from qwenperf.stats.spending import Plan
from qwenperf.workloads.case import Case, Workload

MARGIN = 0.01
RESULT = Path(__file__).parent / "verdicts" / "results" / "capture.json"
_LIMIT_S = 120.0
_CODES = {Outcome.PASS: 0, Outcome.IMPROVED: 0, Outcome.FAIL: 1, Outcome.INCONCLUSIVE: 3}


@dataclass(kw_only=True)
class Capturing:
    """Has head save a trace after each round of a case, and removes it again; then both run once, uncounted."""

    place: Path
    taken: int = 0
    compiles: int = 0
    lost: list[str] = field(default_factory=list)

    def __call__(self, case: str, subjects: Mapping[str, Subject]) -> None:
        """Capture, unless the round was an anchor's."""
        if case in ANCHORS:
            return
        folder = self.place / f"capture-{self.taken + len(self.lost)}"
        folder.mkdir(parents=True)
        asked = {"case": case, "trace": str(folder), "session": "cost", "of": "requests"}
        seen = subjects["head"].ask(asked, _LIMIT_S)
        self.taken += bool(seen["trace"])
        self.compiles += seen["compiles"]
        self.lost += [] if seen["trace"] else seen["lost"] or ["no trace"]
        shutil.rmtree(folder)
        for subject in subjects.values():  # the one that captured has been busy, the other one idle
            subject.ask({"case": case, "repeats": 1}, _LIMIT_S)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print a line, keep the numbers; 0 where captures change nothing by the margin and compile nothing."""
    asked = _parser().parse_args(arguments)
    os.environ.update(default_platform(os.environ))
    try:
        record, hook = compare(asked)
    except QwenperfError as error:
        print(error, file=sys.stderr)  # noqa: T201 - what it ends with
        return error.exit_code
    told = result(record, hook)
    if not asked.quick:
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        asked.out.write_text(f"{json.dumps(told, indent=1)}\n", encoding="utf-8")
    print(json.dumps(told, indent=1) if asked.as_json else line(told))  # noqa: T201 - the result
    return exit_code(told)


def compare(asked: argparse.Namespace) -> tuple[ComparisonRecord, Capturing]:
    """Return the comparison of this code with itself, captures in head, and what became of them."""
    root = own_code(Path(__file__).resolve().parent.parent)
    base, head = (
        Side(name=name, label="this code", kind="same", root=root, python=sys.executable) for name in ("base", "head")
    )
    model, tokens = ("tiny", 16) if asked.quick else (asked.model, asked.new_tokens)
    case = Case(model=model, engine="cached", workload=Workload(prompt_length=16, new_tokens=tokens))
    folder = create_folder(asked.folder)
    hook = Capturing(place=folder / "captures")
    plan = Plan(looks=(6,), margin=0.5, alpha=0.05) if asked.quick else Plan(margin=MARGIN)
    options = PairOptions(rounds=2, trial_s=0.01) if asked.quick else PairOptions()
    record = Comparison(
        base=base, head=head, inventory=Inventory(shared=(case,)), plan=plan, options=options, folder=folder,
        listener=PairProgress(lambda text: print(text, file=sys.stderr, flush=True)),  # noqa: T201 - progress
        facts={"plan": {"aa": True}, "extra": {"same_code": True}}, after_round=hook,
    ).run()  # fmt: skip
    return record, hook


def result(record: ComparisonRecord, hook: Capturing) -> dict[str, Any]:
    """Return what was found out, as it is kept."""
    speed = next((one for one in record.cases[0].verdicts if one.gate == GATE), None)
    stage = {} if speed is None else dict(speed.data.get("stage_1") or {})
    ready = [pair.extra["ready_s"] for pair in record.pairs if pair.failed is None]
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "case": record.cases[0].id,
        "outcome": Outcome.SKIPPED.value if speed is None else speed.outcome.value,
        "margin": record.plan["margin"],
        **{name: stage.get(name) for name in ("estimate", "low", "high", "pairs")},
        "cpu": None if speed is None else speed.data.get("cpu"),
        "captures": hook.taken,
        "compiles": hook.compiles,
        "lost": hook.lost,
        "broken": [pair.failed for pair in record.pairs if pair.failed],
        "ready_s": median(ready) if ready else None,
        "machine": {name: record.base.environment.get(name) for name in ("cpu_model", "cores", "jax", "python")},
    }


def line(told: Mapping[str, Any]) -> str:
    """Say it in words."""
    spent = "not timed"
    if told["estimate"] is not None:
        low, high = ("?" if told[name] is None else f"{told[name]:+.2%}" for name in ("low", "high"))
        spent = (
            f"time {told['estimate']:+.2%} ({low} to {high}) over {told['pairs']} pairs, margin {told['margin']:.0%}"
        )
    lost = f", {len(told['lost'])} lost ({told['lost'][0]})" if told["lost"] else ""
    return f"{told['outcome']}: {told['captures']} captures{lost}, {told['compiles']} compiles in them; {spent}"


def exit_code(told: Mapping[str, Any]) -> int:
    """Return 1 where captures compile or slow down by the margin, 3 where it is not known, 5 without captures."""
    if not told["captures"]:
        return 5
    return 1 if told["compiles"] else _CODES.get(Outcome(told["outcome"]), 5)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.capture_cost", description=__doc__)
    parser.add_argument("--model", default="4x128")
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--folder", type=Path, default=Path("profiles/capture-cost"), help="of the comparison")
    parser.add_argument("--out", type=Path, default=RESULT, help="file of the result")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", dest="as_json", action="store_true")
    return parser


if __name__ == "__main__":
    sys.exit(main())
