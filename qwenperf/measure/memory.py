"""Bytes: of the process, of arrays, and of a compiled program together with the other facts about it."""

from __future__ import annotations

import resource
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from qwenperf.program import facts, hlo, stablehlo
from qwenperf.program.fingerprint import fingerprint
from qwenperf.program.rewrites import rewrites
from qwenperf.schema.records import ProgramFacts

_STATUS = Path("/proc/self/status")


def peak_rss_bytes() -> int:
    """Return the largest resident set that this process had.

    Linux hands ``ru_maxrss`` of a parent down through exec, so the kernel's own mark of this program comes first.
    """
    try:
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def program_facts(
    name: str,
    compiled: jax.stages.Compiled,
    *,
    lowered_text: str = "",
    donated: Sequence[str] = (),
    donated_bytes: int = 0,
    cache_shapes: Sequence[str] = (),
    cache_bytes: tuple[int | None, int | None] = (None, None),
) -> ProgramFacts:
    """Gather what the compiler says of a program and what its text shows.

    ``flops`` and ``bytes_accessed`` are the compiler's, which counts the body of a loop once. ``cache_bytes`` are those
    of one device's part of the cache, and of all of it.
    """
    text = compiled.as_text() or ""
    module = hlo.parse(text)
    figures, known = cost(compiled), sizes(compiled)
    return ProgramFacts(
        name=name,
        flops=_plausible(figures.get("flops")),
        bytes_accessed=_plausible(figures.get("bytes accessed")),
        **{name: known[name] for name in known if name != "peak_bytes"},
        operations=facts.opcodes(module),
        trigonometric=facts.trigonometric(module),
        unaliased_donations=_unaliased(module, donated, donated_bytes, known["alias_bytes"]),
        cache_copies=facts.copies(module, cache_shapes) + rewrites(module, cache_shapes),
        cache_shapes=tuple(cache_shapes),
        fingerprint=fingerprint(text) if text else "",
        extra=_extra(lowered_text, *cache_bytes),
    )


def _extra(lowered_text: str, part_bytes: int | None, whole_bytes: int | None) -> dict[str, Any]:
    extra: dict[str, Any] = {"lowered_trigonometric": stablehlo.trigonometric(lowered_text)} if lowered_text else {}
    if part_bytes and whole_bytes and part_bytes < whole_bytes:
        extra |= {"cache_part_bytes": part_bytes, "cache_bytes": whole_bytes}
    return extra


def _unaliased(
    module: hlo.Module, donated: Sequence[str], donated_bytes: int, alias_bytes: int | None
) -> tuple[str, ...]:
    """Name the donations that were lost; by bytes alone where the program has none of the names."""
    if facts.matched(module, donated):
        return facts.unaliased(module, donated)
    lost = donated_bytes - (alias_bytes or 0)
    return (f"{lost} of {donated_bytes} donated bytes",) if lost > 0 else ()


def cost(compiled: jax.stages.Compiled) -> Mapping[str, Any]:
    """Return the compiler's costs by its own names (``flops``, ``bytes accessed``); a loop's body counts once.

    Empty where a backend has none.
    """
    try:
        found = compiled.cost_analysis()
    except (NotImplementedError, RuntimeError):
        return {}
    if isinstance(found, list):  # one entry a computation, in some versions
        found = found[0] if found else {}
    return found or {}


def sizes(compiled: jax.stages.Compiled) -> dict[str, int | None]:
    """Return bytes of arguments, output, temporaries, aliases and the peak, of one device; ``None`` for the unknown."""
    try:
        analysis = compiled.memory_analysis()
    except (NotImplementedError, RuntimeError):
        analysis = None
    kinds = {f"{kind}_bytes": f"{kind}_size_in_bytes" for kind in ("argument", "output", "temp", "alias")}
    kinds["peak_bytes"] = "peak_memory_in_bytes"
    return {name: getattr(analysis, attribute, None) for name, attribute in kinds.items()}


def _plausible(value: Any) -> float | None:
    """Leave out a figure that cannot be one: compilers write negative or missing costs for what they do not know."""
    return float(value) if isinstance(value, int | float) and value >= 0 else None
