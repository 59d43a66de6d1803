"""Frozen records of an upgrade, which ``upgrade.json`` holds: the same code under several versions of JAX."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from qwenperf.schema.documents import read_document
from qwenperf.schema.records import Finding, Json, Metric, Verdict
from qwenperf.schema.writing import encode

UPGRADE_SCHEMA = "qwenperf.upgrade.v1"


@dataclass(frozen=True, kw_only=True)
class VersionCase:
    """One case under one version.

    Attributes:
      metrics: of all its runs; ``value`` is their median, ``samples`` are the runs.
      programs: fingerprint of each compiled program, by name.
      verdicts: against the first version; none for the first itself.
      error: why the case was not measured.
    """

    metrics: Mapping[str, Metric] = field(default_factory=dict)
    programs: Mapping[str, str] = field(default_factory=dict)
    verdicts: tuple[Verdict, ...] = ()
    error: str | None = None
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class VersionRecord:
    """One version: where it ran, and what it did.

    Attributes:
      label: what people call it.
      jax: the version asked for, and ``libtpu`` likewise; ``None`` where that of here, or the one that comes along.
      python: version of the interpreter that was used, and ``interpreter`` its path.
      error: why there is no environment, or no comparison.
      environment: as its first process tells it.
      cases: by id.
      verdicts: on the comparison as a whole.
      programs: verdicts on programs compiled ahead of time, by program and target.
      comparison: folder of the comparison with the first version, relative to this record.
      compiled: file of the programs compiled ahead of time, relative to this record.
      exit_code: what this version alone would end the command with.
    """

    label: str
    jax: str | None = None
    libtpu: str | None = None
    python: str | None = None
    interpreter: str | None = None
    error: str | None = None
    environment: Json = field(default_factory=dict)
    cases: Mapping[str, VersionCase] = field(default_factory=dict)
    verdicts: tuple[Verdict, ...] = ()
    programs: Mapping[str, tuple[Verdict, ...]] = field(default_factory=dict)
    comparison: str | None = None
    compiled: str | None = None
    exit_code: int = 0
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class UpgradeRecord:
    """The same code under several versions; the first that works is what the others are compared with."""

    id: str
    created_at: str
    schema: str = UPGRADE_SCHEMA
    commit: Json = field(default_factory=dict)
    plan: Json = field(default_factory=dict)
    base: str | None = None
    versions: tuple[VersionRecord, ...] = ()
    findings: tuple[Finding, ...] = ()
    interrupted: bool = False
    extra: Json = field(default_factory=dict)


def upgrade_to_json(record: UpgradeRecord) -> dict[str, object]:
    """Return ``record`` as plain JSON data."""
    written: dict[str, object] = encode(record, UpgradeRecord, "", [])
    return written


def upgrade_dumps(record: UpgradeRecord) -> str:
    """Return ``record`` as JSON text."""
    return json.dumps(upgrade_to_json(record), indent=1, allow_nan=False) + "\n"


def upgrade_loads(text: str, source: str) -> UpgradeRecord:
    """Read an upgrade from JSON text. ``source`` is the file that messages name.

    Raises:
      RecordError: it is none, or cut short.
    """
    return read_document(text, source, UpgradeRecord, UPGRADE_SCHEMA)
