"""The record in an artifact that a stranger's job uploaded: read in memory, within limits, and never unpacked.

Whatever is in the archive besides, and wherever it would like to be written, does not matter: nothing is written.
"""

from __future__ import annotations

import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Sequence

from qwenperf.errors import RecordError
from qwenperf.forge.api import Api, GitHub, understood
from qwenperf.forge.target import Target

MOST_ARCHIVE, MOST_RECORD = 64_000_000, 32_000_000
MOST_MEMBERS, MOST_NAME, MOST_DIRECTORY = 2_000, 255, 1_000_000
RECORDS = ("comparison.json", "run.json")

_END, _ZIP64 = b"PK\x05\x06", b"PK\x06\x07"
_END_SIZE, _LOCATOR_SIZE, _COMMENT = 22, 20, 65_535


def fetch(api: GitHub, target: Target, name: str) -> bytes:
    """Return the archive ``name`` of the workflow run that measured.

    Raises:
      RecordError: there is none, it expired, or it is too large.
      ForgeError: GitHub does not give it.
    """
    with understood():
        found = _find(api, target, name)
    return api.download(f"{target.path}/actions/artifacts/{found}/zip", MOST_ARCHIVE)


def _find(api: Api, target: Target, name: str) -> int:
    if target.run is None:
        advice = "Only a `workflow_run` event names the run that measured."
        raise RecordError("which run has the artifact is not known.", advice=advice)
    place = f"{target.path}/actions/runs/{target.run}/artifacts"
    listed = api.ask("GET", place, query={"name": name, "per_page": 100})["artifacts"]
    mine = [one for one in listed if one.get("name") == name and not one.get("expired")]
    if not mine:
        raise RecordError(f"run {target.run} has no artifact {name!r}.", advice="Did the measuring job upload it?")
    newest: int = max(one["id"] for one in mine)
    return newest


def record_in(archive: bytes, source: str) -> tuple[str, str]:
    """Return the record's name and its text: the only ``comparison.json``, or else the only ``run.json``.

    Raises:
      RecordError: no archive, one beyond the limits, or no single record; says which.
    """
    _checked_directory(archive, source)
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            member = _chosen(opened.infolist(), source)
            with opened.open(member) as file:
                data = file.read(MOST_RECORD + 1)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError) as error:
        raise RecordError(f"{source} is no archive that can be read: {error}.") from error
    if len(data) > MOST_RECORD:
        raise RecordError(f"{source}: {member.filename} is larger than {MOST_RECORD:,} bytes.")
    try:
        return member.filename, data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RecordError(f"{source}: {member.filename} is no UTF-8.") from error


def _checked_directory(archive: bytes, source: str) -> None:
    """Refuse an archive with a huge table of contents before it is read: each entry costs far more than its bytes."""
    if len(archive) > MOST_ARCHIVE:
        raise RecordError(f"{source} is larger than {MOST_ARCHIVE:,} bytes.", advice="Upload the record alone.")
    place = len(archive) - _END_SIZE
    if place < 0 or archive[place : place + 4] != _END or archive[-2:] != b"\0\0":
        place = archive.rfind(_END, max(0, place - _COMMENT))
    if place < 0 or len(archive) < place + _END_SIZE:
        raise RecordError(f"{source} is no archive.")
    if archive[max(0, place - _LOCATOR_SIZE) : place].startswith(_ZIP64):
        raise RecordError(f"{source} is an archive of the 64-bit kind, which none of ours is.")
    members, size = struct.unpack("<HI", archive[place + 10 : place + 16])
    if members > MOST_MEMBERS or size > MOST_DIRECTORY:
        raise RecordError(f"{source} has {members:,} files; {MOST_MEMBERS:,} are read.", advice="Upload fewer.")


def _chosen(members: Sequence[zipfile.ZipInfo], source: str) -> zipfile.ZipInfo:
    for member in members:
        trouble = _trouble(member)
        if trouble:
            raise RecordError(f"{source}: {member.filename[:80]!r} {trouble}.")
    names = [member.filename for member in members]
    if len(names) > MOST_MEMBERS or len(set(names)) < len(names):
        raise RecordError(f"{source} names a file twice, or more than {MOST_MEMBERS:,}.")
    for wanted in RECORDS:
        found = [one for one in members if one.filename.rpartition("/")[2] == wanted]
        if len(found) > 1:
            told = ", ".join(repr(one.filename) for one in found[:3])
            raise RecordError(f"{source} has {len(found)} of {wanted}: {told}.", advice="Upload one run's folder.")
        if found:
            return found[0]
    raise RecordError(f"{source} has no {' and no '.join(RECORDS)}.", advice="Did the measuring job write one?")


def _trouble(member: zipfile.ZipInfo) -> str:
    """Say what is wrong with an entry: that no honest archive has it is enough to refuse the whole."""
    name, kind = member.filename, stat.S_IFMT(member.external_attr >> 16)
    if len(name) > MOST_NAME or not name.isprintable():
        return "is no name of a file"
    if name.startswith("/") or "\\" in name or ":" in name or ".." in name.split("/"):
        return "lies outside the archive"
    if kind not in {0, stat.S_IFREG, stat.S_IFDIR}:
        return "is no file"
    if member.flag_bits & 0x1:
        return "is encrypted"
    if member.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
        # Only these are unpacked no further than one reads; of others a few bytes become gigabytes at once.
        return "is packed in a way that GitHub's archives are not"
    return ""
