"""The marker ``qwenperf``: how a test's engines are measured, and what they must keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import pytest

from qwenperf.errors import ConfigError, UsageError, nearest_advice
from qwenperf.workloads.whole import whole_number

MARKER = (
    "qwenperf(trials=5, dtype='f32', inconclusive='warn', budgets={}): "
    "how the engines of a test are measured, and the limits that qwenperf.passes() holds them to"
)


@dataclass(frozen=True, kw_only=True)
class Marks:
    """The marker's arguments.

    ``trials`` is how many steady requests are timed, ``dtype`` what the model computes in (its rounding decides what
    is a near-tie), ``budgets`` one table as in ``[tool.qwenperf.budgets]``.
    """

    trials: int = 5
    dtype: str = "f32"
    inconclusive: str = "warn"
    budgets: Mapping[str, Any] = field(default_factory=dict)


def read_marks(node: pytest.Item, *, inconclusive: str) -> Marks:
    """Merge the markers around a test, the closest one last; ``inconclusive`` is what the command line says.

    Budgets are merged metric by metric: one of a test's own takes none of its module's away.

    Raises:
      ConfigError: an argument that the marker does not have; offers the nearest. Or a value that is none.
    """
    known = [one.name for one in fields(Marks)]
    merged: dict[str, Any] = {"inconclusive": inconclusive}
    for mark in reversed(list(node.iter_markers("qwenperf"))):
        if mark.args:
            raise ConfigError(f"marker qwenperf takes no positional argument: {mark.args[0]!r}.")
        for key in mark.kwargs:
            if key not in known:
                raise ConfigError(f"marker qwenperf has no argument {key!r}.", advice=nearest_advice(key, known))
        outer, own = merged.get("budgets"), mark.kwargs.get("budgets")
        merged |= mark.kwargs
        if isinstance(outer, Mapping) and isinstance(own, Mapping):
            merged["budgets"] = {**outer, **own}
    marks = Marks(**merged)
    try:
        whole_number("trials", marks.trials, least=0)
    except UsageError as error:
        raise ConfigError(f"marker qwenperf: {error}") from None
    if marks.inconclusive not in ("warn", "fail"):
        raise ConfigError(f"marker qwenperf: inconclusive is {marks.inconclusive!r}.", advice="Use 'warn' or 'fail'.")
    return marks
