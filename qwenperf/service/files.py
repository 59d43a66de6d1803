"""Files on any file system that fsspec knows, each whole or absent.

A part of an upload is a file of its own until the upload is complete, so that any worker on any machine can go on with
it. What lies under ``files/`` was checked against its SHA-256 before it got its name, which is of one upload only.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import IO, Any

import fsspec  # type: ignore[import-untyped]  # ships no types

from qwenperf.service.problems import ServiceUnavailableError

BLOCK = 1 << 20
_DRIVERS = frozenset({"adlfs", "aiobotocore", "aiohttp", "azure", "botocore", "gcsfs", "google", "requests", "s3fs"})
"""Packages between fsspec and a store, whose errors are no OSError where the store is away or says no."""


def content_name(sha256: str, upload: str) -> str:
    """Return the name of the content of an upload, which no other has: what is removed can hit no new one."""
    return f"{sha256}-{upload}"


class Files:
    """The file store. Every refusal of it is a ``ServiceUnavailableError``, and leaves nothing that has a name."""

    def __init__(self, url: str, options: Mapping[str, Any] | None = None) -> None:
        with _available():
            # Other workers write too: what a folder held once says nothing of now.
            given = {"use_listings_cache": False} | dict(options or {})
            self._fs, self._root = fsspec.url_to_fs(url, **given)
        protocol = self._fs.protocol
        self._local = "file" in ((protocol,) if isinstance(protocol, str) else protocol)

    def check(self) -> None:
        """Write and remove a small file.

        Raises:
          ServiceUnavailableError: it cannot be done.
        """
        path = self._path("checks", secrets.token_hex(8))
        with self._writing(path) as file:
            file.write(b"ok")
        self._remove(path)

    @contextmanager
    def new_part(self, upload: str, name: str) -> Iterator[IO[bytes]]:
        """Open a new part of an upload; it is there, and durable, when the block ends without an error."""
        with self._writing(self._path("uploads", upload, name)) as file:
            yield file

    def assemble(self, project_id: int, upload: str, parts: Sequence[str], sha256: str) -> str | None:
        """Make a file of the parts of an upload and return its name; ``None`` where its content is not ``sha256``.

        An upload that was interrupted after this is assembled again: the file is there, and stays.

        Raises:
          FileNotFoundError: its parts are gone.
        """
        name = content_name(sha256, upload)
        target = self._file(project_id, name)
        with _available():
            if self._fs.exists(target):
                return name
        places = [self._path("uploads", upload, part) for part in parts]
        try:
            if self._hash(places) != sha256:
                return None
            self._join(upload, places, target)
        except FileNotFoundError:
            # Whoever did the same at the same time was faster, or has taken the parts away.
            if not self._fs.exists(target):
                raise
        return name

    def _join(self, upload: str, places: Sequence[str], target: str) -> None:
        if len(places) == 1:
            whole = places[0]
        elif self._local:
            # Among the parts, so that what somebody who is killed here leaves goes with them.
            whole = self._path("uploads", upload, f"whole-{secrets.token_hex(8)}")
            self._write_joined(places, whole)
        else:
            self._write_joined(places, target)
            return
        with _available():
            self._move(whole, target)

    def _write_joined(self, places: Sequence[str], target: str) -> None:
        with self._writing(target) as file:
            for block in chain.from_iterable(map(self._blocks, places)):
                file.write(block)

    def _hash(self, places: Iterable[str]) -> str:
        found = hashlib.sha256()
        for block in chain.from_iterable(map(self._blocks, places)):
            found.update(block)
        return found.hexdigest()

    def drop_upload(self, project_id: int, upload: str, sha256: str) -> None:
        """Remove whatever an upload that never ended has left."""
        with suppress(FileNotFoundError), _available():
            self._fs.rm(self._path("uploads", upload), recursive=True)
        self.drop(project_id, content_name(sha256, upload))

    def drop_parts(self, upload: str) -> None:
        """Remove the parts of an upload that has become a file."""
        with suppress(FileNotFoundError), _available():
            self._fs.rm(self._path("uploads", upload), recursive=True)

    def uploads(self) -> list[str]:
        """Return the uploads that have parts here."""
        with suppress(FileNotFoundError), _available():
            found = self._fs.ls(self._path("uploads"), detail=False)
            return [str(path).rstrip("/").rpartition("/")[2] for path in found]
        return []

    def drop_part(self, upload: str, part: str) -> None:
        """Remove one part of an upload."""
        self._remove(self._path("uploads", upload, part))

    def read(self, project_id: int, name: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Yield the content of a file from byte ``start`` up to ``end``, block by block."""
        yield from self._blocks(self._file(project_id, name), start, end)

    def keep(self, project_id: int, name: str, source: IO[bytes]) -> None:
        """Keep a file that was checked elsewhere, such as one of a backup."""
        with self._writing(self._file(project_id, name)) as file:
            while block := source.read(BLOCK):
                file.write(block)

    def drop(self, project_id: int, name: str) -> None:
        """Remove a file that no run names any more."""
        self._remove(self._file(project_id, name))

    def _path(self, *parts: str) -> str:
        return "/".join((self._root.rstrip("/"), *parts))

    def _file(self, project_id: int, name: str) -> str:
        return self._path("files", str(project_id), name[:2], name)

    def _blocks(self, path: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        with _available(), self._fs.open(path, "rb") as file:
            file.seek(start)
            left = end - start if end is not None else None
            while block := file.read(BLOCK if left is None else min(BLOCK, left)):
                left = None if left is None else left - len(block)
                yield block

    @contextmanager
    def _writing(self, path: str) -> Iterator[IO[bytes]]:
        """Write a file that nobody sees before it is whole; on a local disk also not before it is durable."""
        with _available():
            if self._local:
                with _durable(Path(path)) as file:
                    yield file
                return
            opened = self._fs.open(path, "wb")
            try:
                yield opened
            except BaseException:
                with suppress(Exception):
                    opened.discard()
                opened.closed = True
                raise
            opened.close()

    def _move(self, source: str, target: str) -> None:
        if self._local:
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            Path(source).replace(target)
            _sync_folder(Path(target).parent)
        else:
            self._fs.mv(source, target)

    def _remove(self, path: str) -> None:
        with suppress(FileNotFoundError), _available():
            self._fs.rm_file(path)


@contextmanager
def _available() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as error:
        if not isinstance(error, OSError | TimeoutError) and _origin(error) not in _DRIVERS:
            raise
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise ServiceUnavailableError(f"the file store refused: {reason}.") from error


def _origin(error: Exception) -> str:
    """Return the package whose error it is."""
    return type(error).__module__.partition(".")[0]


@contextmanager
def _durable(path: Path) -> Iterator[IO[bytes]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _sync_folder(folder: Path) -> None:
    """Make names in ``folder``, and its own name, durable."""
    for place in (folder, folder.parent):
        descriptor = os.open(place, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
