"""What is sent: a record without secrets, and the traces beside it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qwenperf.errors import RecordError
from qwenperf.store.base import MOST_BYTES
from qwenperf.store.scrub import scrub

RECORDS = ("run.json", "comparison.json")
_TRACES = "plugins/profile"
_BLOCK = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Parcel:
    """A record and its files. ``files``: where each lies here, by its path in its folder. ``removed``: secrets.

    ``query`` goes with the record and is no part of it; ``commit`` is what the record says of its own.
    """

    name: str
    data: bytes
    files: Mapping[str, Path] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    removed: int = 0
    commit: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """A name for its folder: equal for equal content."""
        safe = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in self.name)[:80]
        return f"{hashlib.sha256(self.data).hexdigest()[:16]}-{safe}"


def pack(document: Mapping[str, Any], name: str, files: Mapping[str, Path] | None = None, **query: str) -> Parcel:
    """Return a record as a parcel, without secrets.

    Raises:
      RecordError: it cannot be written as JSON: a number that is not finite, lists in lists without end.
    """
    try:
        clean, removed = scrub(document)
        data = json.dumps(clean, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{name} cannot be sent: {error}.") from error
    commit = clean.get("commit")
    told = commit if isinstance(commit, Mapping) else {}
    return Parcel(name=name, data=data, files=dict(files or {}), query=query, removed=removed, commit=told)


def pack_place(place: Path, *, traced: Collection[str] = RECORDS[:1]) -> Parcel:
    """Return the run or comparison at ``place``, its folder or its record, as a parcel.

    ``traced``: the names of records that take their traces along; by default runs do, and comparisons only sum them up.

    Raises:
      RecordError: nothing there, or no record; names the file.
    """
    file = _record_of(place)
    try:
        if file.stat().st_size > MOST_BYTES:
            raise RecordError(f"{file} is larger than any record.")
        document = json.loads(file.read_text(encoding="utf-8-sig"), parse_constant=_no_constant)
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RecordError(f"cannot read {file}: {reason}.", advice="Give a run folder or its run.json.") from error
    if not isinstance(document, dict):
        raise RecordError(f"{file} holds no record.")
    name = str(document.get("id", file.parent.name))
    return pack(document, name, _traces(file.parent) if file.name in traced else {})


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no finite number")


def _record_of(place: Path) -> Path:
    if not place.is_dir():
        return place
    found = [place / name for name in RECORDS if (place / name).is_file()]
    if len(found) > 1:
        raise RecordError(f"{place} holds {' and '.join(one.name for one in found)}.", advice="Name the file to send.")
    return found[0] if found else place / RECORDS[0]


def _traces(folder: Path) -> dict[str, Path]:
    """Return the trace files of a folder; nothing is followed out of it."""
    found = sorted((folder / _TRACES).rglob("*")) if (folder / _TRACES).is_dir() else []
    kept = (file for file in found if file.is_file() and not file.is_symlink() and not file.name.startswith("."))
    return {file.relative_to(folder).as_posix(): file for file in kept}


def digest(file: Path) -> str:
    """Return the SHA-256 of a file."""
    found = hashlib.sha256()
    with file.open("rb") as opened:
        while block := opened.read(_BLOCK):
            found.update(block)
    return found.hexdigest()
