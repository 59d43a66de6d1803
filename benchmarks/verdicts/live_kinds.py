"""Which comparisons the live run makes, and which comes next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FIRST_GUESS_S = 60.0
"""How long a comparison takes while none of its kind has been made."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """``slowdown`` is really there in head; ``busy``: a process keeps one core meanwhile; ``count`` are wanted."""

    name: str
    title: str
    count: int
    slowdown: float = 0.0
    busy: bool = False


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(name="idle", title="unchanged, idle", count=20),
        Kind(name="busy", title="unchanged, one core kept busy", count=20, busy=True),
        Kind(name="slow-10", title="10% slower", count=10, slowdown=0.10),
        Kind(name="slow-5", title="5% slower", count=10, slowdown=0.05),
    )
}
SLOWDOWNS = tuple(sorted({kind.slowdown for kind in KINDS.values() if kind.slowdown}))


def decided(tries: Sequence[Mapping[str, Any]], kind: str) -> list[Mapping[str, Any]]:
    """Return the comparisons of a kind of which something was learnt."""
    return [one for one in tries if one["kind"] == kind and one.get("outcome") != "skipped"]


def next_kind(wanted: Mapping[str, int], tries: Sequence[Mapping[str, Any]], left_s: float) -> str | None:
    """Return the kind of which the smallest share is done, among those that fit into the time that is left.

    So that whenever the run ends, all kinds are about as far. ``None``: nothing is left to do, or no time for it.
    """
    taken = {name: [float(one["seconds"]) for one in decided(tries, name)] for name in wanted}
    open_kinds = [name for name, count in wanted.items() if len(taken[name]) < count]
    fitting = [name for name in open_kinds if max(taken[name], default=FIRST_GUESS_S) <= left_s]
    return min(fitting, key=lambda name: len(taken[name]) / wanted[name], default=None)
