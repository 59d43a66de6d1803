"""The tables of the live run, from its logs alone: by machine, and together. Intervals are exact: counts are small."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.verdicts.live_kinds import KINDS, decided
from benchmarks.verdicts.live_log import LiveLog
from benchmarks.verdicts.live_peers import ON_RECORDED, Rule
from benchmarks.verdicts.read_pairs import TimedPair, read_pairs
from benchmarks.verdicts.table import exact, of, table
from qwenperf.gate.anchors import APART
from qwenperf.stats.pairs import log_ratio
from qwenperf.stats.so_far import so_far

Array = NDArray[np.float64]

LIMIT_S = 180.0
"""In which a case of unchanged code is to be decided."""

_UNCHANGED = [name for name, kind in KINDS.items() if not kind.slowdown]


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What the log of one machine holds."""

    tries: Sequence[Mapping[str, Any]]
    pairs: Sequence[TimedPair]
    log: LiveLog

    def of(self, kind: str) -> list[TimedPair]:
        """Return the pairs of a kind."""
        return [pair for pair in self.pairs if pair.kind == kind]


def markdown(logs: Mapping[str, LiveLog]) -> str:
    """Return the tables of each machine and, of several, of all together; without comparisons, a line that says so."""
    seen = {name: _see(log) for name, log in logs.items()}
    seen = {name: one for name, one in seen.items() if one.tries}
    if not seen:
        return "No comparison is finished."
    parts = ["`python -m benchmarks.verdicts.live`. In brackets: exact 95% intervals.\n"]
    for name, one in seen.items():
        parts += [f"### {name}\n", _made(one), *_tables([one]), *_calibration(one)]
    if len(seen) > 1:
        parts += ["### All machines\n", *_together(list(seen.values()))]
    return "\n".join(parts)


def _see(log: LiveLog) -> Seen:
    return Seen(tries=log.tries(), pairs=read_pairs(log.pairs) if log.pairs.is_file() else [], log=log)


def _made(one: Seen) -> str:
    machines = dict.fromkeys(
        ", ".join(f"{name} {value}" for name, value in line["machine"].items()) for line in one.tries
    )
    return f"{one.tries[0]['at']} to {one.tries[-1]['at']}, {'; and '.join(machines)}.\n"


def _together(seen: Sequence[Seen]) -> list[str]:
    """Return the tables of all machines, whose comparisons must have been alike."""
    begun = [one.log.begun() for one in seen]
    if any(one != begun[0] for one in begun):
        return [f"Not counted together, for they were begun differently: {'; '.join(map(str, begun))}.\n"]
    return _tables(seen)


def _tables(seen: Sequence[Seen]) -> list[str]:
    return [
        table("What was said", ("comparisons", *_SAID), dict(_said(seen))),
        table("Time and noise", ("comparisons", *_SPENT), dict(_spent(seen))),
        table("Side by side", ("who", *_BESIDE), dict(_beside(seen))),
    ]


_SAID = (
    "decided",
    "fail",
    "fail before confirmation",
    "inconclusive",
    "pass",
    "improved",
    "nothing measured",
    "interrupted",
)


def _said(seen: Sequence[Seen]) -> Iterator[tuple[str, list[str]]]:
    for kind, made in _by_kind(seen):
        own = decided(made, kind)
        outcomes = [one["outcome"] for one in own]
        first = sum((one["stage_1"] or {}).get("outcome") == "fail" for one in own)
        counts = [
            outcomes.count("fail"),
            first,
            *(outcomes.count(name) for name in ("inconclusive", "pass", "improved")),
        ]
        cells = [of(exact(hits, len(own))) for hits in counts]
        cut = sum(one.log.cut(kind) for one in seen)
        yield KINDS[kind].title, [str(len(own)), *cells, str(len(made) - len(own)), str(cut)]


_SPENT = ("seconds, median", "most", "decided in 3 minutes", "seconds a pair", "pairs, median", "deviation of pairs")


def _spent(seen: Sequence[Seen]) -> Iterator[tuple[str, list[str]]]:
    for kind, own in _by_kind(seen):
        seconds = [one["seconds"] for one in own]
        quick = sum(one["seconds"] <= LIMIT_S and one["outcome"] in {"pass", "fail", "improved"} for one in own)
        each = [one["pair_s"] for one in own if one["pair_s"]]
        needed = median(one["pairs"] + one["confirming"] for one in own)
        yield (
            KINDS[kind].title,
            [
                f"{median(seconds):.0f}", f"{max(seconds):.0f}", of(exact(quick, len(own))),
                f"{median(each):.1f}" if each else "-", f"{needed:g}",
                "; ".join(_deviation([pair.value for pair in one.of(kind)]) for one in seen),
            ],
        )  # fmt: skip


def _deviation(values: Sequence[float]) -> str:
    return f"{np.std(values, ddof=1):.3f} of {len(values)}" if len(values) > 1 else "-"


_BESIDE = (
    *(f"alarms, {kind.title}" for kind in KINDS.values() if not kind.slowdown),
    *(f"missed, {kind.title}" for kind in KINDS.values() if kind.slowdown),
    "seconds a try",
)


_RUN = {
    "pytest_benchmark": "pytest-benchmark, mean:10% (run)",
    "asv_continuous": "asv continuous, factor 1.1 (run)",
}
"""Tools that are really run, by their place in a line of the log."""


def _beside(seen: Sequence[Seen]) -> Iterator[tuple[str, list[str]]]:
    tries = [line for one in seen for line in one.tries]
    ours = [(one["kind"], one["outcome"] == "fail", one["seconds"]) for one in tries if one["outcome"] != "skipped"]
    yield "qwenperf compare", _cells(ours)
    for peer, title in _RUN.items():
        theirs = [(one["kind"], one[peer]) for one in tries if peer in one]
        yield title, _cells([(kind, one["alarm"], one["seconds"]) for kind, one in theirs if "alarm" in one])
    for rule in ON_RECORDED:
        yield rule.name, _cells([said for one in seen for said in _by_rule(rule, one)])


def _by_rule(rule: Rule, one: Seen) -> Iterator[tuple[str, bool, float]]:
    """Yield what ``rule`` says of the first pairs of each comparison of a machine."""
    for line in one.tries:
        own = [(pair.base, pair.head) for pair in one.of(line["kind"]) if (pair.number, pair.stage) == (line["try"], 1)]
        alarm = rule.asked(own)
        if alarm is not None:
            yield line["kind"], alarm, rule.processes * (line["pair_s"] or 0.0)


def _cells(said: Sequence[tuple[str, bool, float]]) -> list[str]:
    """Return alarms on each unchanged kind, misses of each slower one, and the median of the seconds."""
    cells = []
    for kind in (*_UNCHANGED, *(name for name in KINDS if name not in _UNCHANGED)):
        alarms = [alarm for name, alarm, _ in said if name == kind]
        cells.append(of(exact(alarms.count(kind in _UNCHANGED), len(alarms))))
    return [*cells, f"{median(seconds for _, _, seconds in said):.0f}" if said else "-"]


def _calibration(one: Seen) -> Iterator[str]:
    """Yield what the slowdowns really were, and what anchors have to do with the pairs of unchanged code."""
    found = one.log.calibration()
    if found is not None:
        for target, count, error in zip(found["wanted"], found["products"], found["standard_error"], strict=True):
            kind = next(name for name, kind in KINDS.items() if kind.slowdown == target)
            told = so_far([pair.value for pair in one.of(kind)])
            later = (
                "" if told is None else f"; all its pairs together: {told[0]:+.1%} ({told[1]:+.1%} to {told[2]:+.1%})"
            )
            calibrated = f"{target:+.1%} in the calibration, with a standard error of {error:.1%}"
            yield f"{KINDS[kind].title}: {count:.1f} needless products a step, {calibrated}{later}\n"
    for kind in _UNCHANGED:
        own = one.of(kind)
        if len(own) > 2:
            yield f"Anchors, {KINDS[kind].title}: {_anchors(own)}\n"


def _anchors(own: Sequence[TimedPair]) -> str:
    """Say how pairs and anchors go together, and what would be gained by leaving out pairs whose anchors are apart."""
    values, memory, compute = (
        np.asarray([getattr(one, name) for one in own]) for name in ("value", "memory", "compute")
    )
    together = [_correlation(values, anchor) for anchor in (memory, compute)]
    near = np.maximum(np.abs(memory), np.abs(compute)) < log_ratio(APART)
    kept = values[near]
    left = f"{kept.std(ddof=1):.3f}" if len(kept) > 1 else "-"
    return (
        f"correlation with the pairs {together[0]} (memory) and {together[1]} (compute) in {len(own)} pairs; "
        f"deviation {values.std(ddof=1):.3f}, and {left} in the {len(kept)} whose anchors differ by less than "
        f"{APART:.0%}"
    )


def _correlation(values: Array, others: Array) -> str:
    if min(float(values.std()), float(others.std())) == 0:
        return "-"
    return f"{float(np.corrcoef(values, others)[0, 1]):+.2f}"


def _by_kind(seen: Sequence[Seen]) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    for kind in KINDS:
        own = [line for one in seen for line in one.tries if line["kind"] == kind]
        if own:
            yield kind, own
