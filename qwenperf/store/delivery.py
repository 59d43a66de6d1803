"""Delivers parcels to a service, and keeps what cannot be delivered now. Every end is told; none is an exception."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from qwenperf.errors import OutputError, QwenperfError, StoreError
from qwenperf.store.http import RefusedError, Service, UnreachableError
from qwenperf.store.parcels import Parcel, Spool, Spooled
from qwenperf.store.remote import RemoteStore

_CURABLE = frozenset({401, 403, 404, 413})
"""Refusals that a better token, a new project or more room cure: what was refused so is kept."""


class Fate(StrEnum):
    """What became of a parcel."""

    SENT = "sent"
    ALREADY = "already there"
    SPOOLED = "spooled"
    REFUSED = "refused"
    LOST = "lost"


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """One parcel and what became of it. ``kept``: where it waits; ``exit_code``: for whoever is strict."""

    name: str
    fate: Fate
    message: str = ""
    records: Sequence[Mapping[str, Any]] = ()
    files: int = 0
    file_bytes: int = 0
    removed: int = 0
    kept: str = ""
    exit_code: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
        told = {name: getattr(self, name) for name in ("name", "message", "files", "file_bytes", "kept")}
        return told | {"fate": str(self.fate), "records": [*self.records], "removed_secrets": self.removed}


def deliver(parcel: Parcel, service: Service, project: str, spool: Spool) -> Delivery:
    """Send a parcel; keep it where the service cannot be reached, or refuses what it may take later."""
    try:
        sent = RemoteStore(service, project).send(parcel)
        return Delivery(
            name=parcel.name,
            fate=Fate.SENT if sent.created else Fate.ALREADY,
            records=sent.records,
            files=sent.files,
            file_bytes=sent.file_bytes,
            removed=parcel.removed,
        )
    except UnreachableError as error:
        return _kept(parcel, service, project, spool, error)
    except RefusedError as error:
        if error.status in _CURABLE:
            return _kept(parcel, service, project, spool, error)
        return _lost(parcel, Fate.REFUSED, error)
    except StoreError as error:
        return _lost(parcel, Fate.LOST, error)
    except (OSError, ValueError, LookupError, TypeError) as error:
        told = StoreError(f"{service.url} does not answer as a service of qwenperf: {error}.")
        return _kept(parcel, service, project, spool, told)


def drain(service: Service, spool: Spool) -> list[Delivery]:
    """Send everything that waits for this service; what it takes waits no more, what it will never take lies aside."""
    found: list[Delivery] = []
    for spooled in spool.waiting():
        if spooled.url.rstrip("/") == service.url.rstrip("/"):
            done = deliver(spooled.parcel, service, spooled.project, spool)
            if done.fate is Fate.REFUSED:
                done = replace(done, message=f"{done.message} It was put aside in {spool.set_aside(spooled)}.")
            found.append(done)
            if done.fate in {Fate.SENT, Fate.ALREADY}:
                spool.drop(spooled)
            elif done.fate is Fate.SPOOLED and done.exit_code == UnreachableError.exit_code:
                # The rest would wait as long for the same answer.
                break
    return found


def waiting(spool: Spool) -> list[Spooled]:
    """Return what waits."""
    return list(spool.waiting())


def _kept(parcel: Parcel, service: Service, project: str, spool: Spool, error: QwenperfError) -> Delivery:
    try:
        place: Path = spool.keep(parcel, service.url, project)
    except OutputError as other:
        return _lost(parcel, Fate.LOST, other)
    return Delivery(
        name=parcel.name,
        fate=Fate.SPOOLED,
        message=str(error),
        removed=parcel.removed,
        kept=str(place),
        exit_code=error.exit_code,
    )


def _lost(parcel: Parcel, fate: Fate, error: QwenperfError) -> Delivery:
    return Delivery(name=parcel.name, fate=fate, message=str(error), removed=parcel.removed, exit_code=error.exit_code)
