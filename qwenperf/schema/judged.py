"""What is said of a case: verdicts of gates, and findings."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from qwenperf.schema.evidence import Json


class Outcome(StrEnum):
    """What a gate says; timed gates may be inconclusive."""

    PASS = "pass"  # noqa: S105 - a verdict, not a secret
    FAIL = "fail"
    IMPROVED = "improved"
    INCONCLUSIVE = "inconclusive"
    SKIPPED = "skipped"


class Severity(StrEnum):
    """How much a finding matters."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A typed remark: ``code`` is a stable name, ``data`` its values, ``advice`` what to do."""

    code: str
    severity: Severity
    message: str
    advice: str = ""
    data: Json = field(default_factory=dict)
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What one gate says about one case. ``summary`` is one line, ``detail`` the lines below it."""

    gate: str
    outcome: Outcome
    summary: str
    detail: tuple[str, ...] = ()
    advice: str = ""
    data: Json = field(default_factory=dict)
    extra: Json = field(default_factory=dict)
