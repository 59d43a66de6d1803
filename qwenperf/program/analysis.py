"""Facts about one compiled program, from its text and the compiler's own figures, without JAX.

Every count is of one call on one device. Loop bodies count as often as they run; what the compiler says that cannot be
true (a negative time, the largest integer for cycles) is left out. Of a conditional the costliest branch counts
(``extra.conditionals`` says how many there are); what should not be in a program at all is looked for in every branch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from qwenperf.program import branches, buffers, collectives, copies, costs, facts, hlo, kernels, loops, precision
from qwenperf.program.costs import Totals
from qwenperf.program.fingerprint import fingerprint
from qwenperf.program.hlo import Module
from qwenperf.program.loops import Schedule
from qwenperf.schema.analysis import BufferCopy, Collective, ProgramAnalysis
from qwenperf.schema.records import Json

MOST_OPERATIONS = 80
MOST_COPIES = 400
"""Entries that a record keeps; totals in ``extra`` hold the rest too."""

_WEIGHTS = ("params", "weights", "model.params", "state.params")
_MOST_SECONDS = 3600.0


def analyse(
    name: str,
    text: str,
    *,
    sizes: Mapping[str, int | None] | None = None,
    cost: Mapping[str, float] | None = None,
    donated: Sequence[str] = (),
    donated_bytes: int = 0,
    weights: Sequence[str] = (),
) -> ProgramAnalysis:
    """Return what a compiled program does in one call on one device.

    Args:
        name: What the program is called: ``decode_step``.
        text: ``compiled.as_text()``. Text that is no program gives an analysis without counts.
        sizes: ``argument_bytes``, ``output_bytes``, ``temp_bytes``, ``alias_bytes`` and ``peak_bytes`` as the compiler
            tells them; ``None`` for the unknown. A peak that is missing or too small is reckoned from the others.
        cost: The compiler's cost analysis by its own names; kept in ``extra`` to compare with, never used as a count.
        donated: Key paths of the arguments that were donated; a path stands for all below it.
        donated_bytes: Bytes of them on one device: tells that a donation was lost where the text has no names.
        weights: Key paths of the arguments that are weights. By default what is below ``params`` or ``weights``, and
            without such names all arguments that are neither donated nor written over and have two axes or more.

    Returns:
        The analysis. Its ``extra`` has ``weight_bytes`` (read of weights where they lie, once for each read),
        ``state_bytes`` (of the other arguments), ``unread_weight_bytes`` (of weights that nothing reads, such as the
        rows of a table that are not looked up), ``weight_passes`` (how often the others are read), ``copied_bytes``,
        ``copied_weight_bytes``, ``upcast_weight_bytes``,
        ``sliced_weight_bytes``, ``relayout_weight_bytes`` (copies of all runs), ``copies_found`` and
        ``copies_by_kind`` (before the list was cut), ``collective_bytes`` and ``collectives_per_layer`` (in a loop over
        the layers) by kind, ``categories``, ``other_operations``, ``operations_without_cycles``, ``int8_flops`` where
        whole numbers of 8 bits are multiplied, and the compiler's own figures where they can be true:
        ``compiler_flops``, ``compiler_bytes``, ``compiler_seconds``.
    """
    module = hlo.parse(text)
    schedule = _schedule(module)
    sizes, cost = sizes or {}, cost or {}
    numbers = weight_numbers(module, weights, donated)
    found = costs.steps(module, schedule)
    total = costs.totals(module, found, numbers)
    every = costs.operations(module, found, numbers)
    copied = copies.copies(module, schedule)
    exchanged = collectives.collectives(module, schedule)
    opcodes = facts.opcodes(module)
    return ProgramAnalysis(
        name=name,
        fingerprint=fingerprint(text) if module.operations else "",
        flops=total.flops if module.operations else None,
        hbm_bytes=total.bytes if module.operations else None,
        argument_bytes=sizes.get("argument_bytes"),
        output_bytes=sizes.get("output_bytes"),
        temp_bytes=sizes.get("temp_bytes"),
        alias_bytes=sizes.get("alias_bytes"),
        peak_bytes=peak_bytes(sizes),
        estimated_cycles=total.cycles or None,
        operations=every[:MOST_OPERATIONS],
        opcodes=opcodes,
        fusions=opcodes.get("fusion", 0),
        copies=copied[:MOST_COPIES],
        collectives=exchanged,
        kernels=kernels.kernels(module),
        unaliased_donations=_unaliased(module, donated, donated_bytes, sizes.get("alias_bytes")),
        trigonometric=facts.trigonometric(module),
        double_precision=precision.double_precision(module),
        host_calls=kernels.host_calls(module),
        unknown_loops=schedule.unknown,
        extra={
            **_totals(total),
            **_copied(copied, module, numbers),
            "collective_bytes": _by_kind(exchanged, per_layer=False),
            "collectives_per_layer": _by_kind(exchanged, per_layer=True),
            "categories": costs.by_category(every),
            **({"conditionals": len(schedule.taken)} if schedule.taken else {}),
            **_compilers(cost, schedule),
        },
    )


def _schedule(module: Module) -> Schedule:
    """Return what runs in a call that takes the costliest branch of each conditional."""
    every = loops.schedule(module)
    taken = branches.costliest(module, every)
    return loops.schedule(module, taken) if taken else every


def weight_numbers(module: Module, weights: Sequence[str], donated: Sequence[str] = ()) -> frozenset[int]:
    """Return the numbers of the arguments that are weights, as ``analyse`` tells them."""
    named = frozenset(one.number for one in module.parameters if buffers.is_below(one.path, weights or _WEIGHTS))
    if named or weights:
        return named
    return frozenset(
        one.number
        for one in module.parameters
        if "," in one.shape and one.number not in module.aliased and not buffers.is_below(one.path, donated)
    )


def peak_bytes(sizes: Mapping[str, int | None]) -> int | None:
    """Return the most bytes held at once: the compiler's figure where it can be true, else the sum of the others.

    A peak that leaves out the temporaries, as XLA's on a CPU does, cannot be one.
    """
    parts = [sizes.get(f"{name}_bytes") for name in ("argument", "output", "temp", "alias")]
    told = sizes.get("peak_bytes")
    if any(part is None for part in parts):
        return told if told and told > 0 else None
    arguments, outputs, temporaries, aliased = (part or 0 for part in parts)
    held = arguments + outputs - aliased
    return told if told is not None and told >= held + temporaries / 10 else held + temporaries


def _unaliased(module: Module, donated: Sequence[str], donated_bytes: int, alias_bytes: int | None) -> tuple[str, ...]:
    """Name the donations that were lost; by bytes alone where the program has none of the names."""
    if facts.matched(module, donated):
        return facts.unaliased(module, donated)
    lost = donated_bytes - (alias_bytes or 0)
    return (f"{lost} of {donated_bytes} donated bytes",) if lost > 0 else ()


def _totals(total: Totals) -> Json:
    return {
        "weight_bytes": total.weight_bytes,
        "state_bytes": total.state_bytes,
        "unread_weight_bytes": total.unread_weight_bytes,
        "weight_passes": total.weight_passes,
        "other_operations": total.other,
        **({costs.INT8: total.int8_flops} if total.int8_flops else {}),
        "operations_without_cycles": total.without_cycles,
    }


def _copied(copied: Sequence[BufferCopy], module: Module, numbers: frozenset[int]) -> Json:
    paths = {buffers.dotted(one.path) for one in module.parameters if one.number in numbers}
    of_weights = [copy for copy in copied if copy.buffer in paths]

    def moved(kinds: Sequence[str], within: Sequence[BufferCopy]) -> int:
        return sum(copy.bytes * copy.runs for copy in within if not kinds or copy.kind in kinds)

    return {
        "copied_bytes": moved((), copied),
        "copied_weight_bytes": moved((), of_weights),
        "upcast_weight_bytes": moved(("upcast",), of_weights),
        "sliced_weight_bytes": moved(("slice",), of_weights),
        "relayout_weight_bytes": moved(("relayout",), of_weights),
        "copies_found": len(copied),
        "copies_by_kind": _copies_by_kind(copied),
    }


def _copies_by_kind(copied: Sequence[BufferCopy]) -> Json:
    """Sum all runs of all copies by kind, those too that a record's list leaves out."""
    found: dict[str, dict[str, int]] = {}
    for copy in copied:
        total = found.setdefault(copy.kind, {"count": 0, "bytes": 0})
        total["count"] += copy.runs
        total["bytes"] += copy.bytes * copy.runs
    return found


def _by_kind(exchanged: Sequence[Collective], *, per_layer: bool) -> Json:
    """Sum exchanges by kind: bytes of all runs, or how many there are in each layer's body."""
    found: dict[str, int] = {}
    for one in exchanged:
        if not per_layer:
            found[one.kind] = found.get(one.kind, 0) + one.bytes * one.runs
        elif one.per_layer:
            found[one.kind] = found.get(one.kind, 0) + 1
    return dict(sorted(found.items()))


def _compilers(cost: Mapping[str, float], schedule: Schedule) -> Json:
    """Keep the compiler's own figures that can be true; its time counts a loop's body once, so only without loops."""
    found: dict[str, float] = {}
    for key, ours in (("flops", "compiler_flops"), ("bytes accessed", "compiler_bytes")):
        if is_plausible(cost.get(key)):
            found[ours] = float(cost[key])
    seconds = cost.get("optimal_seconds")
    if is_plausible(seconds) and 0 < float(seconds or 0) < _MOST_SECONDS and not schedule.loops:
        found["compiler_seconds"] = float(seconds or 0)
    return found


def is_plausible(value: object) -> bool:
    """Say whether a compiler's figure can be one: a finite number that is not negative."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
