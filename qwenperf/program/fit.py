"""Whether a program fits a device's memory, and how far its cache could grow."""

from __future__ import annotations

import math

from qwenperf.program import chips
from qwenperf.schema.analysis import Fit, ProgramAnalysis, TargetRecord


def fit(analysis: ProgramAnalysis, target: TargetRecord, *, cache_bytes: int, batch: int, context: int) -> Fit | None:
    """Say whether a program fits, and by formula the longest context and the largest batch that would.

    Only the cache is taken to grow, in proportion to ``batch`` times ``context``, and twice where it is not updated in
    place. Temporaries that grow too are not foreseen: the limits are upper ones.

    Args:
        analysis: Facts of the program, its peak among them.
        target: Memory of one device. Of a known generation the compiler keeps some for itself (``chips.toml``).
        cache_bytes: Bytes of the cache on one device, 0 for a program without one.
        batch: Rows that the cache holds.
        context: Positions that it holds for each row.

    Returns:
        The fit; ``None`` where the peak or the memory is not known.
    """
    if analysis.peak_bytes is None or not target.hbm_bytes:
        return None
    usable = usable_bytes(target) or target.hbm_bytes
    held = times_held(analysis, cache_bytes)
    free = usable - analysis.peak_bytes
    return Fit(
        peak_bytes=analysis.peak_bytes,
        hbm_bytes=target.hbm_bytes,
        fits=free >= 0,
        longest_context=_grown(context, cache_bytes * held, free),
        largest_batch=_grown(batch, cache_bytes * held, free),
        extra={"usable_bytes": usable, "cache_held": held},
    )


def refused(wanted: int, target: TargetRecord, *, cache_bytes: int, held: int, batch: int, context: int) -> Fit | None:
    """Say of a program that the compiler refuses, because it wants ``wanted`` bytes, what would fit instead.

    Args and formula as in ``fit``; ``held`` is how often the cache is in memory, which no program tells here. A limit
    of 0 says that the rest alone is too large.
    """
    if not target.hbm_bytes:
        return None
    usable = usable_bytes(target) or target.hbm_bytes
    # It was refused: where the compiler's limit is below the one known here, the next smaller size is the most to say.
    free = min(-1, usable - wanted)
    return Fit(
        peak_bytes=wanted,
        hbm_bytes=target.hbm_bytes,
        fits=False,
        longest_context=_grown(context, cache_bytes * held, free),
        largest_batch=_grown(batch, cache_bytes * held, free),
        extra={"usable_bytes": usable, "cache_held": held},
    )


def usable_bytes(target: TargetRecord) -> int | None:
    """Return what a program may have of a device's memory; ``None`` where that is not known."""
    if not target.hbm_bytes or target.generation not in chips.known():
        return target.hbm_bytes
    return min(target.hbm_bytes, chips.chip(target.generation).usable_bytes)


def times_held(analysis: ProgramAnalysis, cache_bytes: int) -> int:
    """Return how often the cache is in memory at once: twice where the output has another place than the argument."""
    return 1 if (analysis.alias_bytes or 0) >= cache_bytes else 2


def _grown(now: int, held_bytes: int, free: int) -> int | None:
    """Return the size at which a cache of ``held_bytes`` at size ``now`` fills what is free."""
    if held_bytes <= 0 or now <= 0:
        return None
    return max(0, math.floor(now + free * now / held_bytes))
