"""Copies the files of a service into another's file store, each checked against its SHA-256 on the way."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import IO, cast

from sqlalchemy import select

from qwenperf.errors import UsageError
from qwenperf.service.db.database import Database
from qwenperf.service.db.tables import files
from qwenperf.service.files import Files
from qwenperf.service.settings import ServiceSettings

NO_FILES = {"files": 0, "file_bytes": 0}


def copy_files(
    named: Database, settings: ServiceSettings, other: ServiceSettings, go_on: Callable[[], None]
) -> dict[str, int]:
    """Copy what the rows of a database name from one file store to another; return how many files and bytes.

    Args:
      named: has the rows.
      settings: say where the files lie.
      other: say where they go.
      go_on: is called all the time.

    Raises:
      UsageError: a file is missing or damaged.
      ServiceUnavailableError: the files cannot be reached.
    """
    reading, writing = (Files(one.files_url, one.files_options) for one in (settings, other))
    count = size = 0
    with named.read() as connection:
        query = select(files.c.project_id, files.c.name, files.c.size, files.c.sha256)
        rows = connection.execute(query).all()
    for row in rows:
        blocks = _Blocks(reading.read(row.project_id, row.name), go_on)
        try:
            writing.keep(row.project_id, row.name, cast("IO[bytes]", blocks))
        except FileNotFoundError as error:
            advice = "Did retention remove it meanwhile? Try again."
            raise UsageError(f"the file {row.name} is missing.", advice=advice) from error
        if (blocks.size, blocks.sha256) != (row.size, row.sha256):
            raise UsageError(f"the file {row.name} is damaged: its content is not what its name says.")
        count, size = count + 1, size + row.size
    return {"files": count, "file_bytes": size}


class _Blocks:
    """Blocks as a file that is read once; afterwards it knows how much there was, and its SHA-256."""

    def __init__(self, blocks: Iterator[bytes], go_on: Callable[[], None]) -> None:
        self._blocks, self._go_on = blocks, go_on
        self._hash = hashlib.sha256()
        self.size = 0

    @property
    def sha256(self) -> str:
        """Of all that was read."""
        return self._hash.hexdigest()

    def read(self, _size: int) -> bytes:
        """Return the next block, or nothing at the end."""
        self._go_on()
        block = next(self._blocks, b"")
        self._hash.update(block)
        self.size += len(block)
        return block
