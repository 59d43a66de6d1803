"""Uploads: announced, received in parts that may come hours apart, and then a file of a record in one step."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, and_, delete, func, insert, select, update

from qwenperf.errors import UsageError
from qwenperf.schema.hints import show
from qwenperf.service.db.files import Owner, will_go
from qwenperf.service.db.projects import charge
from qwenperf.service.db.tables import files, upload_parts, uploads
from qwenperf.service.files import content_name
from qwenperf.service.problems import ConflictError, NotFoundError

PATH_LIMIT = 400
RECORDS = {"run": "run.json", "comparison": "comparison.json"}
"""In the folder or archive of one the record has this name."""

_DRIVE = re.compile(r"[A-Za-z]:")


@dataclass(frozen=True, kw_only=True)
class Announced:
    """A file that somebody wants to send for a run or comparison."""

    project_id: int
    owner: Owner
    path: str
    sha256: str
    size: int


def safe_path(path: str) -> str:
    """Return the path of a file within its run or comparison.

    Raises:
      UsageError: it leads elsewhere, or is none.
    """
    parts = path.split("/")
    wrong = not path.isprintable() or len(path.encode("utf-8", "replace")) > PATH_LIMIT or "\\" in path
    wrong = wrong or path in RECORDS.values() or _DRIVE.match(path) is not None
    if wrong or any(part in {"", ".", ".."} for part in parts):
        raise UsageError(
            f"the path is {show(path)}, which is none within a record's folder.",
            advice=f"Name a file by folders and / only, without .., in at most {PATH_LIMIT} bytes.",
        )
    return posixpath.normpath(path)


def announce(connection: Connection, wanted: Announced, *, upload: str, at: int, by: str) -> Row[Any] | None:
    """Begin an upload, or find the one that began; ``None`` where the file is there already, or is now.

    Room is taken now, so that what is announced will fit.

    Raises:
      ConflictError: another file lies there.
      Problem: 413, the project has no room.
    """
    owner, names = wanted.owner, wanted.owner.names
    lying = select(files.c.sha256).join(names, names.c.file_id == files.c.id)
    there = connection.execute(lying.where(owner.has(names), names.c.path == wanted.path)).scalar()
    if there == wanted.sha256:
        return None
    _check_folders(connection, wanted)
    if there is not None:
        raise ConflictError(f"another file is at {wanted.path}.", advice="A file is never changed; give another path.")
    content = select(files.c.id, files.c.size).where(
        files.c.project_id == wanted.project_id, files.c.sha256 == wanted.sha256
    )
    same = connection.execute(content).first()
    if same is not None and same.size != wanted.size:
        raise ConflictError(f"the content of {wanted.path} has {same.size} bytes here, and not {wanted.size}.")
    if same is not None:
        connection.execute(insert(names).values(owner.column | {"path": wanted.path, "file_id": same.id}))
        return None
    begun = select(uploads).where(owner.has(uploads), uploads.c.path == wanted.path, uploads.c.sha256 == wanted.sha256)
    row = connection.execute(begun).first()
    if row is not None:
        if row.size != wanted.size:
            raise ConflictError(f"{wanted.path} was announced with {row.size} bytes and now has {wanted.size}.")
        return row
    charge(connection, wanted.project_id, wanted.size)
    values = {
        "id": upload, "project_id": wanted.project_id, "path": wanted.path, "sha256": wanted.sha256,
        "size": wanted.size, "received": 0, "created_at": at, "updated_at": at, "pushed_by": by,
    }  # fmt: skip
    return connection.execute(insert(uploads).returning(uploads), owner.column | values).one()


def _check_folders(connection: Connection, wanted: Announced) -> None:
    """Refuse a path that is a folder of another file, or has another file as a folder: no disk holds both."""
    parts = wanted.path.split("/")
    above = ["/".join(parts[:count]) for count in range(1, len(parts))]
    below = f"{wanted.path}/"
    for table in (wanted.owner.names, uploads):
        path = table.c.path
        # Not by LIKE, which takes small letters for large ones on SQLite.
        crosses = path.in_(above) | (func.substr(path, 1, len(below)) == below)
        other = connection.execute(select(path).where(wanted.owner.has(table), crosses)).scalar()
        if other is not None:
            raise ConflictError(f"{wanted.path} and {other} cannot both be files.", advice="Give another path.")


def by_id(connection: Connection, project_id: int, upload: str) -> Row[Any]:
    """Return an upload of a project.

    Raises:
      NotFoundError: there is none, or it is complete or was given up.
    """
    query = select(uploads).where(uploads.c.project_id == project_id, uploads.c.id == upload)
    row = connection.execute(query).first()
    if row is None:
        raise NotFoundError("there is no such upload.", advice="Announce the file again: what is complete is known.")
    return row


def received(connection: Connection, upload: str, offset: int, size: int, *, name: str, at: int) -> None:
    """Take a part in that is durable.

    Raises:
      ConflictError: another part came first.
    """
    here = (uploads.c.id == upload) & (uploads.c.received == offset)
    grown = update(uploads).where(here).values(received=offset + size, updated_at=at)
    if connection.execute(grown).rowcount == 0:
        raise ConflictError("another part of this upload came first.", advice="Ask for its offset, and go on there.")
    connection.execute(insert(upload_parts).values(upload_id=upload, offset=offset, size=size, name=name))


def parts(connection: Connection, upload: str) -> Sequence[str]:
    """Return the names of the parts, in order."""
    query = select(upload_parts.c.name).where(upload_parts.c.upload_id == upload).order_by(upload_parts.c.offset)
    return connection.execute(query).scalars().all()


def complete(connection: Connection, row: Row[Any], *, name: str, at: int) -> bool:
    """Make a complete upload a file of its record; ``False`` where it was given up, or its record is gone.

    Where nothing names the content ``name`` then, or the project had it already, that goes with the next round of
    tidying up.

    Raises:
      ConflictError: another file lies there now.
    """
    owner = _owner_of(row)
    names = owner.names
    here = and_(owner.has(names), names.c.path == row.path)
    if connection.execute(delete(uploads).where(uploads.c.id == row.id)).rowcount == 0:
        # Somebody else completed it, with the same name or where the content was there; or its record is gone.
        mine = select(files.c.name).join(names, names.c.file_id == files.c.id)
        held = connection.execute(mine.where(here)).scalar()
        if held != name:
            will_go(connection, row.project_id, [name])
        return held is not None
    known = select(files.c.id).where(files.c.project_id == row.project_id, files.c.sha256 == row.sha256)
    file_id = connection.execute(known).scalar()
    if file_id is None:
        values = {
            "project_id": row.project_id, "sha256": row.sha256, "size": row.size, "name": name, "created_at": at
        }  # fmt: skip
        file_id = connection.execute(insert(files).returning(files.c.id), values).scalar_one()
    else:
        charge(connection, row.project_id, -row.size)
        will_go(connection, row.project_id, [name])
    there = connection.execute(select(names.c.file_id).where(here)).scalar()
    if there is None:
        connection.execute(insert(names).values(owner.column | {"path": row.path, "file_id": file_id}))
    elif there != file_id:
        raise ConflictError(f"another file is at {row.path}.")
    return True


def _owner_of(row: Row[Any]) -> Owner:
    """Return whose file an upload becomes."""
    return Owner("run", row.run_id) if row.run_id is not None else Owner("comparison", row.comparison_id)


def give_up(connection: Connection, row: Row[Any], *, before: int | None = None) -> bool:
    """Forget an upload, unless somebody went on with it since ``before``, and give its room back.

    Says whether this forgot it: of one that was completed meanwhile the content is a record's, and stays. What was put
    together of one that was not goes with the next round of tidying up, where nobody removes it before.
    """
    mine = uploads.c.id == row.id
    if before is not None:
        mine &= uploads.c.updated_at < before
    if connection.execute(delete(uploads).where(mine)).rowcount == 0:
        return False
    charge(connection, row.project_id, -row.size)
    will_go(connection, row.project_id, [content_name(row.sha256, row.id)])
    return True


def under_way(connection: Connection) -> set[str]:
    """Return all uploads that have begun."""
    return set(connection.execute(select(uploads.c.id)).scalars())


def stale(connection: Connection, before: int, limit: int = 100) -> Sequence[Row[Any]]:
    """Return uploads that nobody has gone on with since ``before``."""
    return connection.execute(select(uploads).where(uploads.c.updated_at < before).limit(limit)).all()
