"""How often a search names the wrong commit, and how many pairs it takes: `python -m benchmarks.bisect.simulate`.

Whole searches for a slowdown in one of 16 commits, with the package's own search and statistics, on noise that is
generated or that was recorded of unchanged code. Beside it the same searches with every question asked as of a pull
request.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.bisect.repository import COMMITS
from benchmarks.verdicts.scenarios import own_recordings, recordings
from benchmarks.verdicts.table import rate, shown
from qwenperf.lab.bisect_probe import Measured, Probe
from qwenperf.lab.bisect_search import Answer, End, Kind, Question, Search
from qwenperf.lab.sides import Side
from qwenperf.schema.bisection import AnswerRecord
from qwenperf.schema.records import Outcome
from qwenperf.stats.confirm import confirm
from qwenperf.stats.levels import Level, Levels, tell
from qwenperf.stats.noise import KINDS, pair_noise, replay
from qwenperf.stats.pairs import relative
from qwenperf.stats.sequential import judge
from qwenperf.stats.spending import Plan

Array = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Array]

SEED = 20261128
SLOWDOWNS = (0.08, 0.05)
DEVIATION = 0.055
"""Of single pairs of the benchmark's case on the machine of these pages."""

_NAME = ""
_OUTCOMES = {Level.CHANGED: Outcome.FAIL, Level.UNCHANGED: Outcome.PASS, Level.OPEN: Outcome.INCONCLUSIVE}


@dataclass(kw_only=True)
class Simulated:
    """Answers of pairs that are drawn. ``levels`` are log ratios of commits to good.

    ``ordinary``: every question is asked as of a pull request, and confirmed.
    """

    levels: Mapping[str, float]
    draw: Callable[[int], Array]
    ordinary: bool

    def __call__(
        self, base: Side, head: Side, plan: Plan, levels: Levels | None = None, *, traced: bool = False
    ) -> Measured:
        """Return what pairs of both say."""
        shift = self.levels[head.label] - self.levels[base.label]
        if levels is None:
            return self._decided(shift, plan, plan.margin)
        if self.ordinary:  # half of what the ends differ by, a quarter for a step
            return self._decided(shift, plan, relative(levels.expected) * (0.25 if traced else 0.5))
        values = shift + self.draw(levels.most)
        told = tell(values.tolist(), levels)
        return Measured(outcome=_OUTCOMES[told.level], estimate=relative(float(np.median(values))), pairs=told.pairs)

    def _decided(self, shift: float, plan: Plan, margin: float) -> Measured:
        values = shift + self.draw(plan.looks[-1])
        first = judge({_NAME: values.tolist()}, {_NAME: margin}, plan)
        one = first[_NAME]
        used = values[: one.pairs].tolist()
        if one.outcome is not Outcome.FAIL:
            return Measured(outcome=one.outcome, estimate=one.estimate, pairs=one.pairs, values=tuple(used))
        fresh = shift + self.draw(20)
        two = confirm(first, {_NAME: fresh.tolist()})[_NAME]
        used += fresh[: two.second.pairs].tolist()
        return Measured(outcome=two.outcome, estimate=two.second.estimate, pairs=len(used), values=tuple(used))


@dataclass(frozen=True, kw_only=True)
class Search16:
    """What came of one search."""

    outcome: str
    pairs: int
    comparisons: int
    reopened: bool


def one_search(draw: Callable[[int], Array], *, culprit: int, slowdown: float, ordinary: bool) -> Search16:
    """Search for the ``culprit``-th commit, which is slower by ``slowdown``; with 0 nothing is there to be found."""
    names = ["good", *(f"c{number:02d}" for number in range(1, COMMITS + 1))]
    slower = math.log1p(slowdown)
    answers = Simulated(
        levels={name: slower * (number >= culprit) for number, name in enumerate(names)}, draw=draw, ordinary=ordinary
    )
    probe = Probe(
        case="4x128/cached/b1-p16-n64-f32", metric="request_s", arguments=(), plan=Plan(), compare=answers,
        side=lambda sha: Side(name=sha, label=sha, kind="simulated", root=Path(), python=""),
    )  # fmt: skip
    search = Search(good=names[0], bad=names[-1], parents=dict(zip(names[1:], ((one,) for one in names), strict=False)))
    said: list[tuple[Question, Answer]] = []
    ends: AnswerRecord | None = None
    pairs = 0
    while isinstance(step := search.next_step(said), Question):
        answer = probe.ask(step, ends)
        said.append((step, Answer(answer.answer)))
        pairs += answer.pairs or 0
        if step.kind is Kind.ENDS and answer.answer == Answer.BAD:
            ends = answer
    right = step.suspects == (names[culprit],) and slowdown > 0
    named = ("right" if right else "wrong") if step.end is End.CULPRIT else str(step.end)
    reopened = any(question.kind is Kind.STEP and answer is Answer.GOOD for question, answer in said)
    return Search16(outcome=named, pairs=pairs, comparisons=len(said), reopened=reopened)


def noises() -> dict[str, Draw]:
    """Return every kind of noise: generated by kind, and each sitting of recorded pairs."""
    found: dict[str, Draw] = {f"{kind}, {DEVIATION:g}": _generated(kind, DEVIATION) for kind in KINDS}
    found |= {f"{kind}, 0.03": _generated(kind, 0.03) for kind in ("iid", "heavy-tailed")}
    known = [one for one in (*recordings(), *own_recordings()) if len(one.pairs) >= 10]
    for one in known:
        found[f"recorded, {one.name}, {float(one.pairs.std(ddof=1)):.3f}"] = _recorded(one.pairs)
    return found


def _generated(kind: str, sd: float) -> Draw:
    return lambda random, count: pair_noise(kind, random, cases=1, pairs=count, sd=sd)[0]


def _recorded(pairs: Array) -> Draw:
    centred = (pairs - np.median(pairs)).tolist()
    return lambda random, count: replay(centred, random, cases=1, pairs=count)[0]


def simulate(draw: Draw, name: str, slowdown: float, count: int, seed: int, *, ordinary: bool) -> dict[str, Any]:
    """Return how ``count`` searches ended and what they took."""
    random = np.random.default_rng([seed, *name.encode(), int(1000 * slowdown)])
    found = [
        one_search(
            lambda pairs: draw(random, pairs), culprit=1 + number % COMMITS, slowdown=slowdown, ordinary=ordinary
        )
        for number in range(count)
    ]
    spent = [one.pairs for one in found]
    return {
        **{outcome: rate(sum(one.outcome == outcome for one in found), count) for outcome in ("right", "wrong")},
        "told": rate(sum(one.outcome not in {"right", "wrong"} for one in found), count),
        "reopened": rate(sum(one.reopened for one in found), count),
        "pairs": float(np.mean(spent)),
        "most": int(np.quantile(spent, 0.95)),
        "comparisons": float(np.mean([one.comparisons for one in found])),
    }


def table(rows: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]]) -> list[str]:
    """Return a table, a row a noise."""
    head = ["noise", "right", "wrong", "told as unclear", "asked again", "comparisons", "pairs", "pairs, 95%"]
    head += ["as pull requests: right", "wrong", "pairs"]
    lines = [f"| {' | '.join(head)} |", f"| {' | '.join('---' for _ in head)} |"]
    for name, (new, old) in rows.items():
        rates = [shown(new[key]) for key in ("right", "wrong", "told", "reopened")]
        numbers = [f"{new['comparisons']:.1f}", f"{new['pairs']:.0f}", str(new["most"])]
        cells = [name, *rates, *numbers, shown(old["right"]), shown(old["wrong"]), f"{old['pairs']:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Simulate, print the tables, write them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bisect.simulate", description=__doc__)
    parser.add_argument("--count", type=int, default=400, help="searches of each kind of noise and slowdown")
    parser.add_argument("--ordinary", type=int, default=40, help="of these so many asked as of pull requests, too")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    asked = parser.parse_args()
    options = f"--count {asked.count} --ordinary {asked.ordinary} --seed {asked.seed}"
    command = f"`python -m benchmarks.bisect.simulate {options}`"
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}"
    versions = f"Python {platform.python_version()}, numpy {np.__version__}"
    told = [f"{command}, {datetime.now(UTC):%Y-%m-%d}, {machine}, {versions}. In brackets: 95% intervals."]
    for slowdown in SLOWDOWNS:
        rows = {
            name: tuple(
                simulate(draw, name, slowdown, count, asked.seed, ordinary=ordinary)
                for ordinary, count in ((False, asked.count), (True, asked.ordinary))
            )
            for name, draw in noises().items()
        }
        told += ["", f"**{slowdown:.0%} slower, in one of {COMMITS} commits**", "", *table(rows)]  # type: ignore[arg-type]
        asked.out.mkdir(parents=True, exist_ok=True)
        (asked.out / "simulated.md").write_text("\n".join(told) + "\n")
    print("\n".join(told))  # noqa: T201 - the tables are what the command is for


if __name__ == "__main__":
    main()
