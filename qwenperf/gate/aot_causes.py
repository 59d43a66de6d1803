"""Why a number of a compiled program is what it is: the buffers, lines and arguments behind it, the largest first.

With a base only what is new in head counts: copies and collectives are matched by what they are, not by their names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import partial
from typing import TypeVar

from qwenperf import units
from qwenperf.gate.aot_facts import KIND_FACTS, in_layers, of_kind
from qwenperf.gate.aot_words import alike, argument_text, collective_text, copies_text, operation_text
from qwenperf.program.buffers import dotted
from qwenperf.program.difference import explain
from qwenperf.program.facts import copied_bytes
from qwenperf.schema.analysis import AotCase, Argument, BufferCopy, OperationCost, ProgramAnalysis

_One = TypeVar("_One")
_Finder = Callable[[AotCase, AotCase | None], Iterable[str]]

_SHARE = 0.02
"""The least share of the program's memory or traffic that a buffer must have to be a cause of it. Chosen."""

_NO_RESULT = ("control", "cache update", "update", "prefetch")
"""Categories of operations whose results have their memory already, or another one than the main memory.

Older records call a cache update an update.
"""

_NOTHING = ProgramAnalysis(name="")
_SHAPE = re.compile(r"[a-z]\w*\[[\d,]*\]")


def causes(fact: str, head: AotCase, base: AotCase | None = None) -> tuple[str, ...]:
    """Return what explains the fact of ``head``, or its growth over ``base``; empty where nothing does."""
    finder = _FINDERS.get(fact)
    return () if finder is None else tuple(dict.fromkeys(finder(head, base)))


def arguments(head: AotCase, base: AotCase | None) -> Iterator[str]:
    """Yield the arguments that grew over base; without one the three largest."""
    yield from (text for _, text in _grown(head, base))


def _copies(kind: str | None, head: AotCase, base: AotCase | None) -> Iterator[str]:
    new, old = (program.copies if kind is None else of_kind(program, kind) for program in _programs(head, base))
    yield from map(copies_text, alike(_new_copies(new, old)))


def _collectives(
    head: AotCase, base: AotCase | None, *, kind: str | None = None, per_layer: bool = False
) -> Iterator[str]:
    new, old = ((in_layers(program) or ()) if per_layer else program.collectives for program in _programs(head, base))
    every = _unmatched(new, old, lambda one: (one.kind, one.shape, one.runs))
    found = [one for one in every if kind in {None, one.kind}]
    yield from (collective_text(one) for one in sorted(found, key=lambda one: -one.bytes * one.runs))


def _names(field: str, head: AotCase, base: AotCase | None) -> Iterator[str]:
    new, old = (getattr(program, field) for program in _programs(head, base))
    yield from (_quoted(name) if field == "unaliased_donations" else name for name in _unmatched(new, old, str))


def _memory(head: AotCase, base: AotCase | None, *, with_arguments: bool = False) -> Iterator[str]:
    """Yield what takes memory: donations lost, copies, arguments that grew, large results of operations."""
    new, old = _programs(head, base)
    least = _SHARE * max(new.temp_bytes or 0, 1)
    found = _donations(head, base)
    groups = alike(_new_copies(new.copies, old.copies))
    found += [(sum(one.bytes for one in group), copies_text(group)) for group in groups]
    found += [(size, f"result of {operation_text(one)}") for size, one in _results(new, old)]
    if with_arguments and base is not None:
        found += _grown(head, base)
    yield from (text for size, text in sorted(found, key=lambda one: -one[0]) if size >= least)


def _in_place(head: AotCase, base: AotCase | None) -> Iterator[str]:
    """Yield the arguments that are no longer updated in place; without any, what takes memory instead."""
    found = [text for _, text in sorted(_donations(head, base), key=lambda one: -one[0])]
    yield from found or _memory(head, base)


def _donations(head: AotCase, base: AotCase | None) -> list[tuple[float, str]]:
    """Return the donations that are lost and those that are no longer made, with their bytes."""
    new, old = _programs(head, base)
    sizes = {one.path: one.bytes for one in head.arguments}
    lost = _unmatched(new.unaliased_donations, old.unaliased_donations, str)
    before = {one.path for one in base.arguments if one.donated} if base else set()
    dropped = [one for one in head.arguments if one.path in before and not one.donated]
    return [
        *((sizes.get(_path(name), 0), f"{_quoted(name)} was donated and is not updated in place") for name in lost),
        *((one.bytes, f"{argument_text(one)} was donated in base and is not in head") for one in dropped),
    ]


def _traffic(head: AotCase, base: AotCase | None) -> Iterator[str]:
    """Yield what moves more bytes than in base; without one, the operations that move most."""
    new, old = _programs(head, base)
    if old is _NOTHING:
        yield from _work("bytes", head, base)
        return
    least = _SHARE * (new.hbm_bytes or 0.0)
    changes = [one for one in explain(old, new) if one.unit == "bytes" and one.after - one.before > least]
    yield from (one.message for one in sorted(changes, key=lambda one: one.before - one.after))


def _work(what: str, head: AotCase, base: AotCase | None) -> Iterator[str]:
    """Yield the operations that are new in head, those that move or compute most first."""
    new, old = _programs(head, base)
    total = (new.flops if what == "flops" else new.hbm_bytes) or 0.0
    found = [(getattr(one, what), one) for one in _unmatched(new.operations, old.operations, _of_operation)]
    for cost, one in sorted(found, key=lambda pair: -pair[0]):
        if cost > _SHARE * total:
            amount = units.byte_count(cost) if what == "bytes" else f"{units.significant(cost)} flop"
            yield f"{amount} in {operation_text(one)}"


def _programs(head: AotCase, base: AotCase | None) -> tuple[ProgramAnalysis, ProgramAnalysis]:
    return head.program or _NOTHING, (base and base.program) or _NOTHING


def _results(new: ProgramAnalysis, old: ProgramAnalysis) -> list[tuple[int, OperationCost]]:
    """Return the operations that are new and are no copies, with the bytes of what they write."""
    moved = {copy.operation for copy in new.copies}
    found = _unmatched(new.operations, old.operations, _of_operation)
    kept = [one for one in found if one.name not in moved and one.category not in _NO_RESULT]
    return [(shape_bytes(one.shape), one) for one in kept]


def _grown(head: AotCase, base: AotCase | None) -> list[tuple[float, str]]:
    """Return the arguments that grew over base and by how much; without a base, the largest."""
    if base is None:
        ordered = sorted(head.arguments, key=lambda one: -one.bytes)
        return [(one.bytes, argument_text(one)) for one in ordered[:3]]
    before = {one.path: one for one in base.arguments}
    pairs = [(one, before.get(one.path)) for one in head.arguments]
    grown = [(new.bytes - (old.bytes if old else 0), _growth(new, old)) for new, old in pairs]
    return sorted((one for one in grown if one[0] > 0), key=lambda one: -one[0])


def _growth(new: Argument, old: Argument | None) -> str:
    if old is None:
        return f"new argument {argument_text(new)}"
    sizes = f"{units.byte_count(old.bytes)} -> {units.byte_count(new.bytes)}"
    return f"`{new.path}` {old.shape} -> {new.shape} ({sizes})"


def _quoted(name: str) -> str:
    shape = name.partition(" ")[2]
    return f"`{_path(name)}` ({shape})" if shape else f"`{name}`"


def _path(name: str) -> str:
    """Return the path of a name such as ``cache['k'][0] bf16[2,36]`` as arguments have it."""
    return dotted(name.partition(" ")[0])


def _new_copies(new: Iterable[BufferCopy], old: Iterable[BufferCopy]) -> list[BufferCopy]:
    found = _unmatched(new, old, lambda one: (one.kind, one.buffer, one.shape, one.runs))
    return sorted(found, key=lambda one: -one.bytes * one.runs)


def _of_operation(one: OperationCost) -> Hashable:
    # The name begins with the function that was compiled, which may have another name.
    return (one.category, one.op_name.partition("/")[2], one.shape, one.runs)


def _unmatched(new: Iterable[_One], old: Iterable[_One], key: Callable[[_One], Hashable]) -> list[_One]:
    """Return what of ``new`` has no like in ``old``; the second of two likes is new where old has one."""
    left = Counter(map(key, old))
    found = []
    for one in new:
        if left[key(one)] > 0:
            left[key(one)] -= 1
        else:
            found.append(one)
    return found


def shape_bytes(shape: str) -> int:
    """Return the bytes of the largest array in ``shape``, which may be a tuple."""
    return max((copied_bytes(part) or 0 for part in _SHAPE.findall(shape)), default=0)


_FINDERS: Mapping[str, _Finder] = {
    "copied_bytes": partial(_copies, None),
    **{f"{kind}{end}": partial(_copies, kind) for kind in ("relayout", "upcast", "slice") for end in ("s", "_bytes")},
    "collectives": _collectives,
    "collective_bytes": _collectives,
    "collectives_per_layer": partial(_collectives, per_layer=True),
    **{name: partial(_collectives, kind=kind) for kind, name in KIND_FACTS.items()},
    **{
        name: partial(_names, name)
        for name in ("unaliased_donations", "trigonometric", "double_precision", "host_calls", "unknown_loops")
    },
    **dict.fromkeys(("temp_bytes", "output_bytes"), _memory),
    "alias_bytes": _in_place,
    "peak_bytes": partial(_memory, with_arguments=True),
    **dict.fromkeys(("argument_bytes", "longest_context", "largest_batch"), arguments),
    **dict.fromkeys(("hbm_bytes", "estimate_s", "estimate_tokens_per_s", "estimate_mbu", "estimate_mfu"), _traffic),
    "flops": partial(_work, "flops"),
}
"""How to explain each fact."""
