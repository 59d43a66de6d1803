"""A folder of what could not be sent yet.

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
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from qwenperf.errors import OutputError, RecordError
from qwenperf.store.parcels import Parcel
from qwenperf.store.words import bare

_PARCEL, _RECORD, _FILES, _REFUSED = "parcel.json", "record.json", "files", "refused"


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
        """Keep a parcel until it can be sent, and return where; what is the same is kept once for each address.

        User and password of the address are not kept, and nobody else on this machine may look.

        Raises:
          OutputError: the spool cannot be written to.
        """
        url = bare(url)
        # A record with files is not the same as without: they would be lost.
        goes = hashlib.sha256("\n".join((url, project, *parcel.files)).encode()).hexdigest()[:8]
        target = self.folder / f"{parcel.key}-{goes}"
        if target.is_dir():
            return target
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self.folder, prefix=".unfinished-") as made:
                whole = Path(made) / "parcel"
                _write(whole, parcel, url, project)
                whole.rename(target)
        except OSError as error:
            if target.is_dir():
                return target
            gone = next((file for file in parcel.files.values() if not file.is_file()), None)
            why, advice = error.strerror or error, "Give another folder with --spool-folder."
            if gone is not None:
                why, advice = f"its file {gone} is gone", "Push it again, or with --no-traces."
            raise OutputError(f"cannot keep {parcel.name} in {self.folder}: {why}.", advice=advice) from error
        return target

    def folders(self) -> list[Path]:
        """Return the folders of what waits, the oldest first; ``read`` reads one."""
        found = ((_age(folder), folder) for folder in self.folder.glob("*/"))
        return [folder for _, folder in sorted((age, folder) for age, folder in found if age is not None)]

    def read(self, folder: Path) -> Spooled:
        """Return what waits in a folder.

        Raises:
          RecordError: it is no parcel.
        """
        return _read(folder)

    def waiting(self) -> Iterator[Spooled]:
        """Yield what waits, the oldest first.

        Raises:
          RecordError: something in the spool is no parcel; names it.
        """
        yield from map(_read, self.folders())

    def put_behind(self, spooled: Spooled) -> None:
        """Let a parcel wait behind all others, as if it had come last; where that cannot be done it stays in front."""
        with suppress(OSError):
            os.utime(spooled.folder / _PARCEL)

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


def _age(folder: Path) -> float | None:
    """Return since when a parcel waits; ``None`` where there is none, or no more."""
    try:
        return (folder / _PARCEL).stat().st_mtime
    except OSError:
        return None


def _write(folder: Path, parcel: Parcel, url: str, project: str) -> None:
    folder.mkdir(mode=0o700)
    (folder / _FILES).mkdir()
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
        unread = [name for name in ("url", "project", "name") if not isinstance(told[name], str)]
        if unread:
            raise ValueError(f"{unread[0]} is no text")  # noqa: TRY301  (one message for all that may be wrong)
        data = (folder / _RECORD).read_bytes()
        parcel = Parcel(name=told["name"], data=data, files=files, query=told["query"])
        return Spooled(folder=folder, url=told["url"], project=told["project"], parcel=parcel)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise RecordError(f"{folder} is no parcel: {error}.", advice="Remove it.") from error
