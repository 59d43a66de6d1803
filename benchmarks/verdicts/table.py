"""Rates with intervals, and the tables that show them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

_Z = 1.959964


def rate(hits: int, count: int) -> dict[str, float]:
    """Return ``hits`` of ``count`` with Wilson's 95% interval; of none, all of it.

    Wilson, "Probable inference, the law of succession, and statistical inference" (1927).
    """
    if count == 0:
        return {"rate": math.nan, "low": 0.0, "high": 1.0, "hits": 0, "count": 0}
    share, square = hits / count, _Z**2 / count
    middle = (share + square / 2) / (1 + square)
    half = _Z / (1 + square) * math.sqrt(share * (1 - share) / count + square / (4 * count))
    low = 0.0 if hits == 0 else middle - half
    high = 1.0 if hits == count else middle + half
    return {"rate": share, "low": low, "high": high, "hits": hits, "count": count}


def exact(hits: int, count: int, level: float = 0.95) -> dict[str, float]:
    """Return ``hits`` of ``count`` with the exact interval, for counts that are too small for Wilson's.

    Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of the binomial" (1934).
    """
    if count == 0:
        return rate(0, 0)
    tail = (1 - level) / 2
    low = 0.0 if hits == 0 else _root(lambda share: _at_least(hits, count, share) - tail)
    high = 1.0 if hits == count else _root(lambda share: tail - (1 - _at_least(hits + 1, count, share)))
    return {"rate": hits / count, "low": low, "high": high, "hits": hits, "count": count}


def _at_least(hits: int, count: int, share: float) -> float:
    return sum(math.comb(count, k) * share**k * (1 - share) ** (count - k) for k in range(hits, count + 1))


def _root(rising: Callable[[float], float]) -> float:
    """Return where a rising function of a share crosses 0, by halving."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return low


def of(one: Mapping[str, float]) -> str:
    """Return a small count for people: ``0 of 20 (0 to 17%)``."""
    if one["count"] == 0:
        return "-"
    return f"{one['hits']:.0f} of {one['count']:.0f} ({100 * one['low']:.0f} to {100 * one['high']:.0f}%)"


def shown(one: Mapping[str, float]) -> str:
    """Return a rate for people: ``0.4% (0.2 to 0.8)``."""
    if one["count"] == 0:
        return "-"
    return f"{100 * one['rate']:.1f}% ({100 * one['low']:.1f} to {100 * one['high']:.1f})"


def markdown(result: Mapping[str, Any]) -> str:
    """Return all tables of a result."""
    noise = result["noise"]
    parts = [f"`{result['command']}`, {result['date']}, {result['on']}. In brackets: 95% intervals.\n"]
    parts.append(
        table(
            "Unchanged code: pull requests of ten cases with any ...",
            ("noise", "false fail", "calm only", "confirmed fail", "false improvement", "calm cases passed"),
            {
                name: [
                    shown(row["unchanged"][key])
                    for key in (
                        "any_false_fail",
                        "any_false_fail_calm",
                        "any_confirmed",
                        "any_false_improved",
                        "calm_cases_passed",
                    )
                ]
                for name, row in noise.items()
            },
        )
    )
    parts.append(
        table(
            "One slower case among ten, calm pairs (replay, noisy: its own)",
            ("noise", "+5% found", "+5% inconclusive", "+5% passed", "+10% found", "+10% passed"),
            {
                name: [
                    shown(row["changed"][effect][key])
                    for effect, key in (
                        ("+5%", "fail"),
                        ("+5%", "inconclusive"),
                        ("+5%", "pass"),
                        ("+10%", "fail"),
                        ("+10%", "pass"),
                    )
                ]
                for name, row in noise.items()
            },
        )
    )
    parts.append(
        table(
            "Pairs that deviate by 0.05 (replay: its own)",
            ("noise", "+5% found", "+10% found", "found in 80%", "stated, median", "stated within 30%"),
            {
                name: [
                    *(shown(row["detectable"]["found_at_the_edge"][effect]) for effect in ("+5%", "+10%")),
                    f"{row['detectable']['empirical']:+.1%}",
                    f"{row['detectable']['stated_median']:+.1%}",
                    shown(row["detectable"]["within_30%"]),
                ]
                for name, row in noise.items()
            },
        )
    )
    rules = {
        name: [shown(row[what]) for what in ("unchanged", "+5%", "+10%")] for name, row in result["others"].items()
    }
    if rules:
        title = "Other rules on recorded calm processes, base and head measured apart: alarms"
        parts.append(table(title, ("rule", "any of ten unchanged", "+5%", "+10%"), rules))
    return "\n".join(parts)


def table(title: str, heads: tuple[str, ...], rows: Mapping[str, list[str]]) -> str:
    """Return a table of markdown with a title."""
    lines = [f"**{title}**\n", f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    lines += [f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()]
    return "\n".join(lines) + "\n"
