"""Frozen records of what became worse over time, which ``regressions.json`` of a store holds beside its runs.

Finding them again makes the same records, but for what people said of them: acceptances are kept here and nowhere else.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from qwenperf.errors import RecordError
from qwenperf.schema.documents import read_document
from qwenperf.schema.evidence import Json
from qwenperf.schema.metrics import Direction
from qwenperf.schema.writing import encode

REGRESSIONS_SCHEMA = "qwenperf.regressions.v1"
NOTE = "regressions.json"
"""What the record is called in a store."""


class Form(StrEnum):
    """How a number became worse: at once, or point by point."""

    STEP = "step"
    DRIFT = "drift"


class Cause(StrEnum):
    """What a change goes with: another environment or a slower machine is seen before code is blamed."""

    CODE = "code"
    ENVIRONMENT = "environment"
    MACHINE = "machine"


class RegressionStatus(StrEnum):
    """What became of a change. Accepted: somebody said why. Fixed: taken back. Improved: it is for the better."""

    NEW = "new"
    ACCEPTED = "accepted"
    FIXED = "fixed"
    IMPROVED = "improved"


@dataclass(frozen=True, kw_only=True)
class Regression:
    """One change of one metric of one case.

    Attributes:
      id: short and stable: of case, metric and the first run that showed it.
      before: the level before, in ``unit``.
      after: the level after it; of a drift, at the last run.
      size: change as a share of ``before``, or in ``unit`` where ``is_relative`` is false; its sign is the number's.
      interval: holds the true size with 95%.
      p_value: how likely noise alone makes such a change somewhere in this history; 0 where there is no noise.
      run: the first run of the new level; of a drift, the run that it is counted from.
      run_before: the last run that surely has the level before.
      last_run: the last run that was looked at.
      first_run: the first run that may have the new level, with a chance of 95%.
      end_run: the last run that may be its first, with the same chance.
      measured_at: when ``run`` was measured.
      began_at: when its commit was made, or where that is not known the same.
      commit: the commit of ``run``.
      good: the last commit that surely has the level before; empty where commits are not known.
      bad: the first commit that surely has the new one.
      commits: measured commits among which the change began, with a chance of 95%, in order.
      explained: what the cause was recognised by, in words.
      suspects: what takes more time in the traces of either side, a line each.
      traced_runs: a run with a trace of the level before, and one of the new level; or none.
      reason: why it was accepted.
      fixed_run: the first run of the level that took it back.
    """

    id: str
    case: str
    metric: str
    unit: str
    direction: Direction
    form: Form
    before: float
    after: float
    size: float
    interval: tuple[float, float] | None = None
    is_relative: bool = True
    p_value: float = 0.0
    status: RegressionStatus = RegressionStatus.NEW
    cause: Cause = Cause.CODE
    run: str
    run_before: str = ""
    last_run: str = ""
    first_run: str = ""
    end_run: str = ""
    measured_at: str = ""
    began_at: str = ""
    commit: str = ""
    good: str = ""
    bad: str = ""
    commits: tuple[str, ...] = ()
    explained: tuple[str, ...] = ()
    suspects: tuple[str, ...] = ()
    traced_runs: tuple[str, ...] = ()
    found_at: str = ""
    reason: str = ""
    accepted_at: str = ""
    fixed_run: str = ""
    fixed_commit: str = ""
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Retired:
    """A case of which somebody said, at ``retired_at``, that no run comes any more, and why. A later run ends that."""

    case: str
    reason: str
    retired_at: str
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RegressionsRecord:
    """Every regression of a store that is still looked at, every acceptance, and cases that come no more."""

    schema: str = REGRESSIONS_SCHEMA
    updated_at: str = ""
    regressions: tuple[Regression, ...] = ()
    retired: tuple[Retired, ...] = ()
    extra: Json = field(default_factory=dict)


def dumps(record: RegressionsRecord) -> str:
    """Return the record as JSON text.

    Raises:
      RecordError: a number that is not finite.
    """
    return json.dumps(_written(record, RegressionsRecord, "the regressions"), indent=1, allow_nan=False) + "\n"


def loads(text: str, source: str = NOTE) -> RegressionsRecord:
    """Read a record from JSON text.

    Raises:
      RecordError: no such record; names the file, the key path and what was seen.
    """
    return read_document(text, source, RegressionsRecord, REGRESSIONS_SCHEMA)


def to_json(one: Regression) -> dict[str, Any]:
    """Return one regression as plain JSON data.

    Raises:
      RecordError: it cannot be written.
    """
    return _written(one, Regression, f"regression {one.id}")


def _written(value: Any, kind: type, name: str) -> dict[str, Any]:
    lost: list[str] = []
    written: dict[str, Any] = encode(value, kind, "", lost)
    if lost:
        raise RecordError(f"{name} cannot be written: {lost[0]}")
    return written
