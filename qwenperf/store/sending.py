"""Sends a file to a service, from wherever an earlier try ended; one that becomes another meanwhile is told."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from qwenperf.errors import StoreError
from qwenperf.store.http import RefusedError, Service, UnreachableError
from qwenperf.store.parcels import digest
from qwenperf.store.words import one_line

_BLOCK = 1 << 20
_OFFSET = "Upload-Offset"
_MOST_STILL = 5
"""Answers in a row that a service may give without having taken a byte."""

_JSON = {"Content-Type": "application/json"}


class ChangedError(StoreError):
    """A file that became another, or went away, while it was sent: its digest is of what it was."""

    default_advice = "Push it again when nothing writes to it."


def send_file(service: Service, project: str, record: str, path: str, file: Path) -> int:
    """Send a file of a record of the project at ``project``, such as ``runs/NAME``, and return its size.

    Raises:
      UnreachableError: no answer until patience ended, or a service that takes no more bytes.
      RefusedError: the service will not have it.
      ChangedError: the file is not what it was when it was announced.
      ValueError: the answers are of no service.
    """
    told = _announced(file, path)
    place = f"{project}/{record}/files"
    furthest, still = -1, 0
    progress: Mapping[str, Any] | None = None
    while progress is None or not progress["complete"]:
        if progress is None:
            progress = service.ask("POST", place, content=json.dumps(told).encode(), headers=_JSON).json()
            continue
        offset = _offset_of(progress, told["size"])
        furthest, still = (offset, 0) if offset > furthest else (furthest, still + 1)
        if still > _MOST_STILL:
            raise UnreachableError(f"{service.shown} takes no more of {path} than {furthest} bytes.")
        progress = _append(service, f"{project}/uploads/{progress['upload']}", file, offset, told)
    size: int = told["size"]
    return size


def _append(service: Service, place: str, file: Path, offset: int, told: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Send the rest; ``None`` where the upload is at another byte by now, or gone: announcing again tells."""
    size = told["size"]
    headers = {_OFFSET: str(offset), "Content-Length": str(size - offset), "Content-Type": "application/octet-stream"}
    try:
        answer = service.ask("PATCH", place, content=lambda: _blocks(file, offset, size), headers=headers)
    except RefusedError as error:
        if error.status in {404, 409}:
            return None
        if error.status == 422 and _announced(file, told["path"]) != told:
            raise _changed(file) from error
        raise
    progress: Mapping[str, Any] = answer.json()
    return progress


def _announced(file: Path, path: str) -> dict[str, Any]:
    """Return what a service hears of a file before its bytes."""
    try:
        return {"path": path, "sha256": digest(file), "size": file.stat().st_size}
    except OSError as error:
        raise _unread(file, error) from error


def _offset_of(progress: Mapping[str, Any], size: int) -> int:
    """Return the byte that a service wants next."""
    offset = progress["offset"]
    if not isinstance(offset, int) or not 0 <= offset <= size:
        raise ValueError(f"it wants byte {one_line(str(offset))} of {size}")
    return offset


def _blocks(file: Path, offset: int, size: int) -> Iterator[bytes]:
    """Yield the bytes from ``offset`` on, as many as were announced and never more."""
    try:
        opened = file.open("rb")
    except OSError as error:
        raise _unread(file, error) from error
    with opened:
        while offset < size:
            block = _block(opened, file, offset, size)
            yield block
            offset += len(block)


def _block(opened: IO[bytes], file: Path, offset: int, size: int) -> bytes:
    try:
        opened.seek(offset)
        block = opened.read(min(_BLOCK, size - offset))
        now = os.fstat(opened.fileno()).st_size
    except OSError as error:
        raise _unread(file, error) from error
    if not block or now != size:
        raise _changed(file)
    return block


def _changed(file: Path) -> ChangedError:
    return ChangedError(f"{file} changed while it was sent.")


def _unread(file: Path, error: OSError) -> ChangedError:
    return ChangedError(f"cannot read {file}: {error.strerror or error}.")
