"""Finds and reads a saved run from what people type: a run folder or its ``run.json``."""

from __future__ import annotations

from pathlib import Path

from qwenperf.cli.files import is_there, read_text, reason
from qwenperf.errors import RecordError
from qwenperf.schema.codec import loads
from qwenperf.schema.records import RunRecord

RECORD = "run.json"


def read_run(place: Path) -> tuple[RunRecord, Path]:
    """Return the run at ``place`` and the file that it was read from.

    Raises:
      RecordError: nothing there, or no record; names the file.
    """
    file = place / RECORD if is_there(place) and place.is_dir() else place
    try:
        text = read_text(file)
    except (OSError, ValueError) as error:
        raise RecordError(f"cannot read {file}: {reason(error)}.", advice=_nearby(place)) from error
    return loads(text, str(file)), file


def is_run(place: Path) -> bool:
    """Say whether ``place`` is a run's folder or its record."""
    return is_there(place) and (is_there(place / RECORD) if place.is_dir() else place.name == RECORD)


def _nearby(place: Path) -> str:
    """Name the newest run below ``place``, or below its parent when ``place`` is not there."""
    parent = place if is_there(place) and place.is_dir() else place.parent
    found = sorted(parent.glob(f"*/{RECORD}")) if is_there(parent) and parent.is_dir() else []
    return f"The newest run nearby is {found[-1].parent}." if found else "Give a run folder or its run.json."
