"""Runs in folders on a disk. A run appears by renaming its finished folder: never half of it, whoever is killed when.

fsspec's driver for local files has no such step, so the system is asked itself.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from qwenperf.errors import StoreError
from qwenperf.store.base import MOST_BYTES, RECORD
from qwenperf.store.places import LIST, asking, said
from qwenperf.units import byte_count

_UNFINISHED = ".incoming-"
_UNREADABLE = "unreadable"
"""Stamp of a record that cannot be looked at; none that was read has it, so that each look tries again."""

_FULL = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)


class LocalPlace:
    """A folder of run folders, such as ``profiles``."""

    shared = True

    def __init__(self, root: Path) -> None:
        self._root = Path(os.path.abspath(root))  # noqa: PTH100  (links stay as they are written)
        self.url = str(root)

    @property
    def key(self) -> str:
        """The place, written in one way."""
        return str(self._root.resolve())

    def listing(self) -> Mapping[str, str]:
        """Return the folders with a record, and its time, size and number on the disk."""
        found = {}
        with asking(self.url, LIST), os.scandir(self._root) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                try:
                    seen = os.stat(f"{entry.path}/{RECORD}")  # noqa: PTH116  (ten thousands of them)
                except (FileNotFoundError, NotADirectoryError):
                    continue
                except OSError:
                    found[entry.name] = _UNREADABLE
                    continue
                found[entry.name] = f"{seen.st_mtime_ns}-{seen.st_size}-{seen.st_ino}"
        return found

    def records(self, folders: Sequence[str]) -> Iterator[tuple[str, bytes | str | None]]:
        """Yield records; a folder that is removed meanwhile has none."""
        for folder in folders:
            file = self._root / folder / RECORD
            try:
                yield folder, _read(file)
            except FileNotFoundError:
                yield folder, None
            except OSError as error:
                yield folder, f"cannot be read: {said(error)}"

    def put(self, folder: str, data: bytes, files: Mapping[str, Path]) -> None:
        """Make the folder beside its place and rename it.

        Raises:
          FileExistsError: it is there already.
          StoreError: no room or no right; nothing is left.
        """
        made = self._root / f"{_UNFINISHED}{folder}-{secrets.token_hex(4)}"
        with asking(self.url, "write to"):
            self._make_root()
            try:
                made.mkdir()
                for name, file in files.items():
                    _copy(file, made / name)
                _write(made / RECORD, data)
                _rename(made, self._root / folder)
            finally:
                shutil.rmtree(made, ignore_errors=True)

    def complete(self, folder: str, files: Mapping[str, Path]) -> int:
        """Add files that are not there, each whole or not at all."""
        lacking = {name: file for name, file in files.items() if not (self._root / folder / name).exists()}
        with asking(self.url, "write to"):
            for name, file in lacking.items():
                target = self._root / folder / name
                made = target.with_name(f".{target.name[:60]}-{secrets.token_hex(4)}")
                try:
                    _copy(file, made)
                    made.replace(target)
                finally:
                    made.unlink(missing_ok=True)
        return len(lacking)

    def note(self, name: str) -> bytes | None:
        """Return a file beside the folders."""
        file = self._root / name
        try:
            if file.exists() and not file.is_file():
                raise StoreError(f"{file} is no regular file.")
            return file.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise StoreError(f"cannot read {file}: {said(error)}.") from error

    def write_note(self, name: str, data: bytes) -> None:
        """Write a file beside the folders."""
        made = self._root / f"{_UNFINISHED}{name}-{secrets.token_hex(4)}"
        with asking(self.url, "write to"):
            self._make_root()
            try:
                _write(made, data)
                made.replace(self._root / name)
            finally:
                made.unlink(missing_ok=True)

    def unfinished(self) -> Sequence[str]:
        """Name what writers that were killed, or are at work now, have left."""
        with asking(self.url, LIST):
            return sorted(entry.name for entry in self._root.iterdir() if entry.name.startswith(_UNFINISHED))

    def remove_unfinished(self, name: str) -> None:
        """Remove one of these."""
        with asking(self.url, "clean"):
            path = self._root / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def _make_root(self) -> None:
        try:
            self._root.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:  # by this name a run is told that is there already
            raise NotADirectoryError(errno.ENOTDIR, "a file is in the way", str(self._root)) from error


def _read(file: Path) -> bytes | str:
    """Return a record, or what it is instead."""
    if not file.is_file():
        return f"{RECORD} is no file" if file.exists() else f"{RECORD} is not there, or leads nowhere"
    size = file.stat().st_size
    return file.read_bytes() if size <= MOST_BYTES else f"{RECORD} has {byte_count(size)}, more than any record"


def _copy(file: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, target)


def _write(file: Path, data: bytes) -> None:
    with file.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())


def _rename(made: Path, target: Path) -> None:
    """Rename a folder to a name that nobody has; an empty folder is nobody's."""
    try:
        made.rename(target)
    except OSError as error:
        if error.errno in _FULL:
            raise FileExistsError(errno.EEXIST, "it is there already", str(target)) from error
        raise
