"""Does a capture change what is timed after it? `python -m benchmarks.capture_cost` compares it as any change.

Both sides are this code, in process pairs as `qwenperf compare` makes them. Halfway through a pair's rounds head saves
a trace of a few requests, while base makes the same requests without the profiler. What counts of a pair is how far its
log ratios after that lie from those before it: so each process is its own control, and what a process keeps for life
(where its memory lies) cancels out. `qwenperf.stats` decides on the pairs, against a margin of 1%; a capture that
compiles anything is a failure.

Why so many rounds: on a shared 2-core machine the log ratio of a round of 4 trials of 85 ms varies by 7%, and whole
pairs by no more than that explains, so that it is time on the clock that is needed. With a standard deviation s of a
round, n rounds in either half and p pairs the standard error is s * sqrt(2 / n) / sqrt(p): for rounds of 4 single
requests (s = 11%), n = 88 and p = 24 it is 0.34%, and the upper bound lies 0.6% above the estimate. That takes about
8 minutes. Other work on the machine slows both sides by turns, and costs sight more than truth. `--quick` is a small
model and few pairs, to see that it works.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, stdev
from typing import Any, Literal

from qwenperf.errors import MeasurementError, QwenperfError
from qwenperf.gate.comparison import TOO_MANY_BROKEN
from qwenperf.lab.compare import create_folder
from qwenperf.lab.pairs import PairOptions, Pairs
from qwenperf.lab.revisions import own_code
from qwenperf.lab.sides import Side
from qwenperf.lab.subject import Subject
from qwenperf.measure.default_platform import default_platform
from qwenperf.measure.measuring_lock import one_measurement
from qwenperf.schema.comparison import PairRecord, RoundRecord
from qwenperf.schema.records import Outcome
from qwenperf.stats.pairs import relative
from qwenperf.stats.sequential import Decision, decide
from qwenperf.stats.spending import LEAST_PAIRS, Plan
from qwenperf.stats.turns import side_time
from qwenperf.workloads.case import Case, Workload

MARGIN = 0.01
RESULT = Path(__file__).parent / "verdicts" / "results" / "capture.json"
_LIMIT_S = 120.0
_REQUESTS = 3
"""As many as a trace of requests holds."""
_SETTLE = 2
_CODES = {Outcome.PASS: 0, Outcome.FAIL: 1, Outcome.IMPROVED: 1, Outcome.INCONCLUSIVE: 3}
_Clock = Literal["wall_s", "cpu_s"]


@dataclass(kw_only=True)
class Capturing:
    """Has head save a trace after the first ``half`` rounds of each pair, and removes it again.

    Base makes as many requests meanwhile; then both run ``_SETTLE`` times uncounted, for one of them has idled.
    """

    place: Path
    half: int
    taken: int = 0
    compiles: int = 0
    lost: list[str] = field(default_factory=list)
    _head: Subject | None = None
    _rounds: int = 0

    def __call__(self, case: str, subjects: Mapping[str, Subject]) -> None:
        """Capture, if this is the middle of a pair.

        Raises:
          MeasurementError: there is no trace: the pair's second half would be of nothing.
        """
        if subjects["head"] is not self._head:  # fresh processes: another pair
            self._head, self._rounds = subjects["head"], 0
        self._rounds += 1
        if self._rounds != self.half:
            return
        subjects["base"].ask({"case": case, "repeats": _REQUESTS}, _LIMIT_S)
        self._capture(case, subjects["head"])
        for subject in subjects.values():
            subject.ask({"case": case, "repeats": _SETTLE}, _LIMIT_S)

    def _capture(self, case: str, head: Subject) -> None:
        folder = self.place / f"capture-{self.taken + len(self.lost)}"
        folder.mkdir(parents=True)
        asked = {"case": case, "trace": str(folder), "session": "cost", "of": "requests"}
        seen = head.ask(asked, _LIMIT_S)
        shutil.rmtree(folder)
        self.compiles += seen["compiles"]
        if not seen["trace"]:
            self.lost += (seen["lost"] or ["no trace"])[:1]
            raise MeasurementError(f"no trace was saved: {self.lost[-1]}")
        self.taken += 1


@dataclass(kw_only=True)
class Cost:
    """Measures pairs with a capture in the middle until there are as many as ``plan`` says, or ``limit_s`` is over."""

    pairs: Pairs
    hook: Capturing
    plan: Plan
    limit_s: float
    seen: list[PairRecord] = field(default_factory=list)

    def measure(self) -> None:
        """Measure; a pair that breaks is left out, and three of them end it."""
        begun = time.monotonic()
        longest = 0.0
        while len(self.whole()) < self.plan.looks[-1] and len(self.seen) - len(self.whole()) < TOO_MANY_BROKEN:
            if time.monotonic() - begun + longest > self.limit_s:
                return
            started = time.monotonic()
            self.seen.append(self.pairs.measure(len(self.seen) + 1))
            longest = max(longest, time.monotonic() - started)
            print(self._so_far(), file=sys.stderr, flush=True)  # noqa: T201 - progress

    def whole(self) -> list[Sequence[RoundRecord]]:
        """Return the rounds of each pair that has them all."""
        return [next(iter(pair.rounds.values())) for pair in self.seen if pair.failed is None and pair.rounds]

    def shifts(self, clock: _Clock = "wall_s") -> list[float]:
        """Return what each whole pair says, as log ratios."""
        return [shift(rounds, self.hook.half, clock) for rounds in self.whole()]

    def decision(self) -> Decision | None:
        """Return what the pairs decide; ``None`` where there are too few."""
        found = self.shifts()
        return None if len(found) < LEAST_PAIRS else decide({"case": found}, {}, self.plan, 0)["case"]

    def _so_far(self) -> str:
        failed, found = self.seen[-1].failed, self.shifts()
        told = f": {failed}" if failed or not found else f", {relative(median(found)):+.2%}"
        return f"pair {len(found)} of at most {self.plan.looks[-1]}{told}"


def shift(rounds: Sequence[RoundRecord], half: int, clock: _Clock = "wall_s") -> float:
    """Return by how much log(head / base) is higher after the first ``half`` rounds than in them.

    The median of all differences of a later and an earlier round: Hodges and Lehmann's estimate of a shift.
    """
    ratios = [_ratio(one, clock) for one in rounds]
    before, after = ([one for one in part if one is not None] for part in (ratios[:half], ratios[half:]))
    return median(later - earlier for later in after for earlier in before)


def _ratio(one: RoundRecord, clock: _Clock) -> float | None:
    base, head = (side_time(getattr(one, clock), one.order, letter) for letter in "AB")
    return math.log(head / base) if base > 0 and head > 0 else None


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print a line, keep the numbers; 0 where captures change nothing by the margin and compile nothing."""
    asked = _parser().parse_args(arguments)
    os.environ.update(default_platform(os.environ))
    try:
        with one_measurement():  # before there is a folder: who waits too long leaves none
            told = result(compare(asked))
    except QwenperfError as error:
        print(error, file=sys.stderr)  # noqa: T201 - what it ends with
        return error.exit_code
    if not asked.quick:
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        asked.out.write_text(f"{json.dumps(told, indent=1)}\n", encoding="utf-8")
    print(json.dumps(told, indent=1) if asked.as_json else line(told))  # noqa: T201 - the result
    return exit_code(told)


def compare(asked: argparse.Namespace) -> Cost:
    """Return the measured pairs of this code with itself, captures in head."""
    root = own_code(Path(__file__).resolve().parent.parent)
    base, head = (
        Side(name=name, label="this code", kind="same", root=root, python=sys.executable) for name in ("base", "head")
    )
    model, tokens, rounds = ("tiny", 16, 4) if asked.quick else (asked.model, asked.new_tokens, asked.rounds)
    case = Case(model=model, engine="cached", workload=Workload(prompt_length=16, new_tokens=tokens))
    folder = create_folder(asked.folder)
    # The processes have another working directory: a relative place would be another one to them.
    hook = Capturing(place=(folder / "captures").resolve(), half=max(1, rounds // 2))
    with tempfile.TemporaryDirectory(prefix="qwenperf-pairs-", ignore_cleanup_errors=True) as programs:
        pairs = Pairs(
            base=base, head=head, cases=(case,), logs=folder / "logs", seed=int(folder.name[-6:], 16),
            cache=Path(programs), after_round=hook,
            options=PairOptions(rounds=rounds, trial_s=asked.trial_s, cores=asked.cores, anchors=False),
        )  # fmt: skip
        plan = Plan(looks=(LEAST_PAIRS if asked.quick else asked.pairs,), margin=MARGIN)
        cost = Cost(pairs=pairs, hook=hook, plan=plan, limit_s=60 * asked.minutes)
        cost.measure()
    return cost


def result(cost: Cost) -> dict[str, Any]:
    """Return what was found out, as it is kept."""
    found, cpu = cost.decision(), cost.shifts("cpu_s")
    known = {} if found is None else {name: getattr(found, name) for name in ("estimate", "low", "high")}
    environment = cost.pairs.environments.get("base", {})
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "case": cost.pairs.cases[0].id,
        "outcome": Outcome.SKIPPED.value if found is None else found.outcome.value,
        "margin": cost.plan.margin,
        **{name: _finite(known.get(name)) for name in ("estimate", "low", "high")},
        "cpu": relative(median(cpu)) if cpu else None,
        "pairs": len(cost.whole()),
        "rounds": cost.pairs.options.rounds,
        "repeats": cost.pairs.repeats.get(cost.pairs.cases[0].id),
        "cores": cost.pairs.options.cores,
        "round_deviation": round_deviation(cost.whole()),
        "shifts": [round(one, 6) for one in cost.shifts()],
        "captures": cost.hook.taken,
        "compiles": cost.hook.compiles,
        "lost": cost.hook.lost,
        "broken": [pair.failed for pair in cost.seen if pair.failed],
        "ready_s": median(seen) if (seen := [one.extra["ready_s"] for one in cost.seen if one.extra]) else None,
        "machine": {name: environment.get(name) for name in ("cpu_model", "cores", "jax", "python")},
    }


def round_deviation(whole: Sequence[Sequence[RoundRecord]]) -> float | None:
    """Return the standard deviation of a round's log ratio in its pair, the median over pairs."""
    seen = [[ratio for one in rounds if (ratio := _ratio(one, "wall_s")) is not None] for rounds in whole]
    found = [stdev(one) for one in seen if len(one) > 1]
    return round(median(found), 6) if found else None


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


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
    """Return 1 where captures compile or change times by the margin, 3 where it is not known, 5 without captures."""
    if not told["captures"]:
        return 5
    return 1 if told["compiles"] else _CODES.get(Outcome(told["outcome"]), 5)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.capture_cost", description=__doc__)
    parser.add_argument("--model", default="4x128")
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--pairs", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=176, help="of 4 trials in a pair, half of them after the capture")
    parser.add_argument("--trial-s", type=float, default=0.02, help="seconds of a trial")
    parser.add_argument("--cores", type=int, help="pin both sides to the first so many cores")
    parser.add_argument("--minutes", type=float, default=9.0, help="begin no pair that would end later")
    parser.add_argument("--folder", type=Path, default=Path("profiles/capture-cost"), help="of logs")
    parser.add_argument("--out", type=Path, default=RESULT, help="file of the result")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", dest="as_json", action="store_true")
    return parser


if __name__ == "__main__":
    sys.exit(main())
