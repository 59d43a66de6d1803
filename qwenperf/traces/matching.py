"""Finds the same operation in two traces by what it is, whatever number the compiler gave it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from qwenperf.traces.tokens import Row

Mark = tuple[str, ...]

_MARKS: tuple[Callable[[Row], Mark | None], ...] = (
    lambda row: (row.program, row.name, row.category, row.op_name, row.source, row.shape, row.reads),
    lambda row: (row.program, row.op_name, row.source, row.shape) if row.source else None,
    lambda row: (row.program, row.op_name, row.shape, row.reads) if row.op_name or row.reads else None,
    lambda row: (row.program, row.name, row.category, row.shape),
    lambda row: (row.program, row.op_name, row.source) if row.source else None,
    lambda row: (row.program, row.category, row.reads) if row.reads else None,
    lambda row: (row.program, row.name, row.category, row.op_name),
    lambda row: (row.op_name, row.source, row.shape) if row.source else None,
    lambda row: (row.name, row.category, row.shape, row.reads),
)
"""What two operations must have in common to be one, the surest first; the last two look across programs."""


def match(base: Iterable[Row], head: Iterable[Row]) -> Iterator[tuple[Row | None, Row | None]]:
    """Pair the operations of two traces; one that has no partner is paired with ``None``."""
    old, new = list(base), list(head)
    for mark in _MARKS:
        waiting: dict[Mark, list[Row]] = {}
        for row in old:
            key = mark(row)
            if key is not None:
                waiting.setdefault(key, []).append(row)
        rest = []
        for row in new:
            key = mark(row)
            partners = waiting.get(key, []) if key is not None else []
            if partners:
                partner = _nearest(partners, row)
                partners.remove(partner)
                old.remove(partner)
                yield partner, row
            else:
                rest.append(row)
        new = rest
    yield from ((row, None) for row in old)
    yield from ((None, row) for row in new)


def _nearest(partners: Sequence[Row], row: Row) -> Row:
    return min(partners, key=lambda one: abs(one.seconds - row.seconds))
