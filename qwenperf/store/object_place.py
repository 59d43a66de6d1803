"""Runs at a URL, by fsspec. A run is there when its record is, and the record is written last and only once.

Object stores show an object whole or not at all; elsewhere the record gets its name when it is written.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from qwenperf.store.base import RECORD
from qwenperf.store.places import LIST, asking, said
from qwenperf.store.words import bare

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem  # type: ignore[import-untyped]

_WHOLE = {"memory", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "oci", "oss", "http", "https"}
"""Kinds of places that show an object only when all of it is written."""

_STAMP = "-"
"""A record at a URL is never changed, so that its name says all; asking for its time would take a call a run."""


class ObjectPlace:
    """Run folders in a bucket, or on another machine. ``url`` is what may be shown of its address: no password."""

    def __init__(self, filesystem: AbstractFileSystem, path: str, url: str, scheme: str) -> None:
        self._files, self._path, self._key = filesystem, path, url
        # Without a password what stands before @ is no secret; on Azure it is the container.
        who, at, _ = urlsplit(url).netloc.rpartition("@")
        self.url = bare(url) if at and ":" in who else url
        self._whole = scheme in _WHOLE
        self.shared = scheme != "memory"

    @property
    def key(self) -> str:
        """The place, written in one way."""
        return self._key

    def listing(self) -> Mapping[str, str]:
        """Return all folders: which of them are runs is seen when they are read."""
        with asking(self.url, LIST):
            self._files.invalidate_cache()
            found = self._files.ls(self._path, detail=True)
        names = (str(entry["name"]).rstrip("/").rpartition("/")[2] for entry in found if entry["type"] == "directory")
        return {name: _STAMP for name in names if name and not name.startswith(".")}

    def records(self, folders: Sequence[str]) -> Iterator[tuple[str, bytes | str | None]]:
        """Yield records, as many at once as the driver can fetch."""
        paths = [f"{self._path}/{folder}/{RECORD}" for folder in folders]
        with asking(self.url, "read"):
            found = self._files.cat_ranges(paths, [None] * len(paths), [None] * len(paths), on_error="return")
        for folder, seen in zip(folders, found, strict=True):
            if isinstance(seen, FileNotFoundError):
                yield folder, None
            else:
                yield folder, f"cannot be read: {said(seen)}" if isinstance(seen, BaseException) else bytes(seen)

    def put(self, folder: str, data: bytes, files: Mapping[str, Path]) -> None:
        """Write the files, then the record.

        Raises:
          FileExistsError: the record is there already.
          StoreError: the driver refused; there may be files, and no run.
        """
        target = self._folder(folder)
        with asking(self.url, "write to"):
            self._files.invalidate_cache()
            if self._files.exists(f"{target}/{RECORD}"):
                raise FileExistsError(f"{target}/{RECORD}")
            self._add(folder, files)
            self._write(f"{target}/{RECORD}", data, mode="create")

    def complete(self, folder: str, files: Mapping[str, Path]) -> int:
        """Add files that are not there."""
        with asking(self.url, "write to"):
            self._files.invalidate_cache()
            there = {
                str(name).rpartition(f"{self._path}/{folder}/")[2] for name in self._files.find(self._folder(folder))
            }
            lacking = {name: file for name, file in files.items() if name not in there}
            self._add(folder, lacking)
        return len(lacking)

    def note(self, name: str) -> bytes | None:
        """Return a file beside the folders."""
        with asking(self.url, "read"):
            try:
                return bytes(self._files.cat_file(f"{self._path}/{name}"))
            except FileNotFoundError:
                return None

    def write_note(self, name: str, data: bytes) -> None:
        """Write a file beside the folders."""
        with asking(self.url, "write to"):
            self._write(f"{self._path}/{name}", data, mode="overwrite")

    def unfinished(self) -> Sequence[str]:
        """Name folders without a record: of writers that were killed, or are at work now."""
        return sorted(folder for folder, data in self.records(sorted(self.listing())) if data is None)

    def remove_unfinished(self, name: str) -> None:
        """Remove one of these."""
        with asking(self.url, "clean"):
            self._files.rm(self._folder(name), recursive=True)

    def _folder(self, folder: str) -> str:
        return f"{self._path}/{folder}"

    def _add(self, folder: str, files: Mapping[str, Path]) -> None:
        for name, file in files.items():
            path = f"{self._folder(folder)}/{name}"
            self._make_folder_of(path)
            self._files.put_file(str(file), path)

    def _write(self, path: str, data: bytes, *, mode: str) -> None:
        if self._whole:
            self._files.pipe_file(path, data, mode=mode)
            return
        self._make_folder_of(path)
        made = f"{path}.{secrets.token_hex(4)}"
        self._files.pipe_file(made, data)
        self._files.mv(made, path)

    def _make_folder_of(self, path: str) -> None:
        """Make the folder of a file where there are folders; in object stores this would make a bucket."""
        if not self._whole:
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
