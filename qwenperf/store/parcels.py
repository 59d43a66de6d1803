"""What is sent: a record without secrets, and the traces beside it; and a spool of what could not be sent yet.

::

    <spool>/<content>-<name>/parcel.json          where it goes, and which files there are
                             record.json          the record, scrubbed
                             files/...            links to, or copies of, its traces
    <spool>/refused/...      what the service will not take, the same way
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qwenperf.errors import OutputError, RecordError
from qwenperf.store.base import MOST_BYTES
from qwenperf.store.scrub import scrub

RECORDS = ("run.json", "comparison.json")
_TRACES = "plugins/profile"
_PARCEL, _RECORD, _FILES, _REFUSED = "parcel.json", "record.json", "files", "refused"
_BLOCK = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Parcel:
    """A record and its files. ``files``: where each lies here, by its path within the run. ``removed``: secrets."""

    name: str
    data: bytes
    files: Mapping[str, Path] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    removed: int = 0

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
    return Parcel(name=name, data=data, files=dict(files or {}), query=query, removed=removed)


def pack_place(place: Path, *, traces: bool = True) -> Parcel:
    """Return the run or comparison at ``place``, its folder or its record, as a parcel.

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
    is_run = file.name == "run.json"
    return pack(document, name, _traces(file.parent) if traces and is_run else {})


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no finite number")


def _record_of(place: Path) -> Path:
    if not place.is_dir():
        return place
    return next((place / name for name in RECORDS if (place / name).is_file()), place / RECORDS[0])


def _traces(folder: Path) -> dict[str, Path]:
    """Return the trace files of a run folder; nothing is followed out of it."""
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


@dataclass(frozen=True, kw_only=True)
class Spooled:
    """A parcel that waits: where it lies, where it goes, and what it is."""

    folder: Path
    url: str
    project: str
    parcel: Parcel


class Spool:
    """A folder of parcels that could not be sent; each is there whole or not at all. No token is kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keep(self, parcel: Parcel, url: str, project: str) -> Path:
        """Keep a parcel until it can be sent, and return where; the same content is kept once for each address.

        Raises:
          OutputError: the spool cannot be written to.
        """
        goes = hashlib.sha256(f"{url.rstrip('/')}\n{project}".encode()).hexdigest()[:8]
        target = self.folder / f"{parcel.key}-{goes}"
        if target.is_dir():
            return target
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self.folder, prefix=".unfinished-") as made:
                whole = Path(made) / "parcel"
                _write(whole, parcel, url, project)
                whole.rename(target)
        except OSError as error:
            if target.is_dir():
                return target
            raise OutputError(
                f"cannot keep {parcel.name} in {self.folder}: {error.strerror or error}.",
                advice="Give another folder with --spool-folder.",
            ) from error
        return target

    def waiting(self) -> Iterator[Spooled]:
        """Yield what waits, the oldest first.

        Raises:
          RecordError: something in the spool is no parcel; names it.
        """
        folders = (path for path in self.folder.glob("*/") if (path / _PARCEL).is_file())
        for folder in sorted(folders, key=lambda path: (path / _PARCEL).stat().st_mtime):
            yield _read(folder)

    def set_aside(self, spooled: Spooled) -> Path:
        """Let a parcel wait no more but keep it, and return where; where that cannot be done it waits on."""
        target = self.folder / _REFUSED / spooled.folder.name
        try:
            target.parent.mkdir(exist_ok=True)
            spooled.folder.rename(target)
        except OSError:
            return spooled.folder
        return target

    def drop(self, spooled: Spooled) -> None:
        """Forget what was sent."""
        shutil.rmtree(spooled.folder, ignore_errors=True)


def _write(folder: Path, parcel: Parcel, url: str, project: str) -> None:
    (folder / _FILES).mkdir(parents=True)
    names = {f"{number:06d}": path for number, path in enumerate(parcel.files)}
    for number, path in names.items():
        _link(parcel.files[path], folder / _FILES / number)
    (folder / _RECORD).write_bytes(parcel.data)
    told = {"url": url, "project": project, "name": parcel.name, "query": dict(parcel.query), "files": names}
    (folder / _PARCEL).write_text(json.dumps(told), encoding="utf-8")


def _link(source: Path, target: Path) -> None:
    """Keep a file at no cost where its folder is on the same disk; it is never written to again."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _read(folder: Path) -> Spooled:
    try:
        told = json.loads((folder / _PARCEL).read_text(encoding="utf-8"))
        files = {str(path): folder / _FILES / number for number, path in told["files"].items()}
        data = (folder / _RECORD).read_bytes()
        parcel = Parcel(name=told["name"], data=data, files=files, query=told["query"])
        return Spooled(folder=folder, url=told["url"], project=told["project"], parcel=parcel)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecordError(f"{folder} is no parcel: {error}.", advice="Remove it.") from error
