"""What changed in the history of one number: steps, drift, and what an environment explains. Arrays in, changes out.

Spikes are pulled in, noise is measured from differences, asv proposes places (``history_candidates``), outliers are
pulled in around them, steps are tested (``history_prune``) with and without a slope beside them, and what explains the
history better stands. It knows nothing of commits, of which way is worse, or of what was accepted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from qwenperf.stats.history_candidates import candidates
from qwenperf.stats.history_changes import Changes, Drift, Shift, Step, changes_of, p_value
from qwenperf.stats.history_model import cleaned, contrast, group_columns, slope_column, step_columns
from qwenperf.stats.history_noise import Array, Noise, measure_noise, tame
from qwenperf.stats.history_prune import Frame, Kept, cost, moved, prune, without

__all__ = ["BESIDE_ALPHA", "DRIFT_ALPHA", "LEAST", "STEP_ALPHA", "Changes", "Drift", "Shift", "Step", "find_changes"]

LEAST = 5
"""Points that a level needs: a spike is no step, and the first and last points tell nothing yet."""

STEP_ALPHA, BESIDE_ALPHA, DRIFT_ALPHA = 0.03, 0.015, 0.005
"""Chances that an unchanged history has any step, any step beside a slope, and a slope. Worsley's bound is on the safe
side by a third or more, so that all three together are below 5%: `benchmarks/history` counts it."""

_NOTHING = 1e-12
_SLOPE = 2
"""What a slope costs, as many numbers: it must explain clearly better than the one step that it may be."""


def find_changes(
    values: Array,
    *,
    groups: Sequence[int] | None = None,
    restarts: Sequence[int] = (),
    since: int = 0,
    least: int = LEAST,
) -> Changes:
    """Return what changed in ``values``, which are finite and in order; in too few for two levels nothing did.

    Args:
      values: the history; logarithms where noise is a share of the value.
      groups: which environment each point is from; their differences explain before a step does.
      restarts: places where a level is known to begin: they need no test and are not reported.
      since: where drift is counted from.
      least: points that a level needs.

    Raises:
      EnvironmentUnfitError: asv is not installed.
    """
    count = len(values)
    ids = np.zeros(count, dtype=int) if groups is None else _numbered(groups)
    if count < 2 * least:
        return Changes(levels=tuple(values.tolist()))
    level = _apart(values, ids)
    noise = measure_noise(level)
    if noise.deviation <= _NOTHING * float(np.abs(values).max()):
        return Changes(levels=tuple(values.tolist()), noise=Noise(deviation=0.0, correlation=0.0))
    edges = tuple(sorted({place for place in restarts if 0 < place < count}))
    known = np.hstack([np.ones((count, 1)), step_columns(count, edges), group_columns(ids)])
    tamed = tame(level)
    rough = Frame(values=tamed + (values - level), known=known, edges=edges, least=least)
    places = moved(rough, candidates(tamed, noise, least) or [count // 2])
    slope = slope_column(count, since)[:, : int(count - since > least)]
    clean, share = cleaned(rough.values, np.hstack([rough.columns(places), slope]), noise)
    frame = Frame(values=clean, known=known, edges=edges, least=least, share=share)
    kept, is_line = _chosen(frame, slope, places)
    return changes_of(frame, kept, slope if is_line else slope[:, :0], since, ids)


def _numbered(groups: Sequence[int]) -> NDArray[np.int_]:
    """Number groups in the order of their first points, for the first of them to be the level."""
    order = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    return np.asarray([order[group] for group in groups], dtype=int)


def _apart(values: Array, ids: NDArray[np.int_]) -> Array:
    """Return the values with the groups' medians made equal: runners that take turns are no steps."""
    if not ids.any():
        return values
    medians = np.asarray([np.median(values[ids == group]) for group in range(int(ids.max()) + 1)])
    return np.asarray(values - medians[ids] + np.median(values))


def _chosen(frame: Frame, slope: Array, places: Sequence[int]) -> tuple[Kept, bool]:
    """Return the steps that stand, and whether a slope stands beside them."""
    level = prune(frame, places, STEP_ALPHA)
    if not slope.shape[1]:
        return level, False
    beside = np.hstack([frame.known, slope])
    sloped = prune(without(frame, beside), places, BESIDE_ALPHA)
    correlation = min(level.errors.correlation, sloped.errors.correlation)
    if cost(without(frame, beside), sloped, correlation, _SLOPE) >= cost(frame, level, correlation):
        return level, False
    columns = without(frame, beside).columns(sloped.places)
    weights = np.zeros(columns.shape[1])
    weights[beside.shape[1] - 1] = 1.0
    change, spread = contrast(frame.values, columns, weights, sloped.errors)
    is_line = p_value(change, spread, sloped.errors.freedom) <= DRIFT_ALPHA
    return (sloped, True) if is_line else (level, False)
