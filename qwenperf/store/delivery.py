"""Delivers parcels to a service, and keeps what cannot be delivered now. Every end is told; none is an exception."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from qwenperf.errors import OutputError, QwenperfError, RecordError, StoreError
from qwenperf.store.http import RefusedError, Service, UnreachableError, UnsendableTokenError
from qwenperf.store.parcels import Parcel
from qwenperf.store.remote import RemoteStore
from qwenperf.store.spool import Spool
from qwenperf.store.words import bare, one_line

_FINAL = frozenset({409, 422})
"""What a service answers to a record that it will never take. Any other refusal (a token, no project, no room,
a redirect, the page of a proxy) may be cured: what was refused so is kept."""


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
    except (UnreachableError, UnsendableTokenError) as error:
        return _kept(parcel, service, project, spool, error)
    except RefusedError as error:
        if error.own and error.status in _FINAL:
            return _lost(parcel, Fate.REFUSED, error)
        return _kept(parcel, service, project, spool, error)
    except StoreError as error:
        return _lost(parcel, Fate.LOST, error)
    except (OSError, ValueError, LookupError, TypeError) as error:
        told = StoreError(f"{service.shown} does not answer as a service of qwenperf: {one_line(str(error))}.")
        return _kept(parcel, service, project, spool, told)


def drain(service: Service, spool: Spool) -> list[Delivery]:
    """Send everything that waits for this service; what it takes waits no more, what it will never take lies aside."""
    found: list[Delivery] = []
    for folder in spool.folders():
        try:
            spooled = spool.read(folder)
        except RecordError as error:
            found.append(Delivery(name=folder.name, fate=Fate.LOST, message=str(error), exit_code=error.exit_code))
            continue
        if bare(spooled.url) == service.shown:
            done = deliver(spooled.parcel, service, spooled.project, spool)
            if done.fate is Fate.REFUSED:
                done = replace(done, message=f"{done.message} It was put aside in {spool.set_aside(spooled)}.")
            found.append(done)
            if done.fate in {Fate.SENT, Fate.ALREADY}:
                spool.drop(spooled)
            elif done.fate is Fate.SPOOLED and done.exit_code == UnreachableError.exit_code:
                if not service.is_ready():
                    # The rest would wait as long for the same answer.
                    break
                # This one is at fault, or whatever stands between: the others go first from now on.
                spool.put_behind(spooled)
    return found


def _kept(parcel: Parcel, service: Service, project: str, spool: Spool, error: QwenperfError) -> Delivery:
    try:
        place: Path = spool.keep(parcel, service.shown, project)
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
