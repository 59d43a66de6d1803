"""Traces on disk, run by run: what there is, how much room it takes, and which to remove. Imports no JAX.

Records are never removed, and nothing outside the two places that qwenperf itself makes: ``plugins/profile`` of a run
and the hidden folders of captures that were killed. Nothing is removed through a link.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from qwenperf.errors import OutputError
from qwenperf.measure.capture_folder import PLACE, RUN_ID, is_under_way, leftovers

_RECORDS = ("run.json", "comparison.json")
_SUFFIX = ".xplane.pb"
_UNDER_WAY_S = 3600.0


@dataclass(frozen=True, kw_only=True)
class TracedRun:
    """One folder that holds traces. ``problem`` says what is wrong with it; ``under_way`` that it is still written.

    ``killed`` counts captures whose process was killed, ``killed_bytes`` what they left, part of ``bytes``;
    ``changed_s`` is seconds since 1970. Nothing is removed from a folder that is not ``ours``: it may be anybody's; and
    no trace of one whose traces are ``linked``, because they lie elsewhere.
    """

    path: str
    suite: str = ""
    cases: int = 0
    sessions: tuple[str, ...] = ()
    bytes: int = 0
    killed: int = 0
    killed_bytes: int = 0
    changed_s: float = 0.0
    under_way: bool = False
    ours: bool = False
    linked: bool = False
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return asdict(self)


def traced_runs(out: Path) -> list[TracedRun]:
    """Return the runs below ``out``, or ``out`` itself where it is one, the newest first.

    Traces that lie in ``out`` without a record may be somebody else's: they hide no run below.
    """
    places = [path for path in (out, *_folders(out)) if _is_run(path)]
    places = places[:1] if _record_of(out).is_file() else places
    return sorted((_look(path) for path in places), key=lambda run: (-run.changed_s, run.path))


def trace_bytes(out: Path) -> int:
    """Return the bytes of all traces of the runs below ``out``, and of what killed captures left there."""
    killed = sum(_killed_bytes(folder) for folder in _folders(out))
    return killed + sum(_size(file) for file in out.glob(f"*/{PLACE}/*/*{_SUFFIX}"))


def choose(runs: Sequence[TracedRun], *, keep: int | None, max_bytes: int | None) -> list[TracedRun]:
    """Return the runs whose traces go: all but the newest ``keep``, then the oldest until ``max_bytes`` hold the rest.

    A run that is under way stays, and counts. What killed captures left does not count: it goes whatever is kept.
    """
    left = [run for run in runs if run.ours and run.sessions and not run.linked]
    gone = [] if keep is None else [run for run in left[keep:] if not run.under_way]
    left = [run for run in left if run not in gone]
    total = sum(run.bytes - run.killed_bytes for run in left)
    for run in reversed(left):
        if max_bytes is None or total <= max_bytes:
            break
        if not run.under_way:
            gone.append(run)
            total -= run.bytes - run.killed_bytes
    return gone


def remove(run: TracedRun) -> None:
    """Remove a run's traces and what killed captures left of it; its record stays.

    Raises:
      OutputError: the system refuses; names the folder.
    """
    folder = Path(run.path)
    with _removing(folder):
        if (folder / PLACE).is_dir() and not _is_linked(folder):
            shutil.rmtree(folder / PLACE)
            with suppress(OSError):  # other plugins keep things there too
                (folder / PLACE.parent).rmdir()
    remove_killed(run)


def remove_killed(run: TracedRun) -> None:
    """Remove what killed captures left of a run; errors are those of ``remove``."""
    folder = Path(run.path)
    with _removing(folder):
        for killed in leftovers(folder):
            shutil.rmtree(killed)


@contextmanager
def _removing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        told = f"cannot remove the traces of {folder}: {error.strerror or error}."
        raise OutputError(told, advice="Make the folder writable, or leave it out.") from error


def sessions(run: Path) -> list[Path]:
    """Return the traces of a run, one a session."""
    return sorted(file for file in run.glob(f"{PLACE}/*/*{_SUFFIX}") if file.is_file())


def _folders(out: Path) -> list[Path]:
    try:
        return [path for path in out.iterdir() if path.is_dir() and not path.is_symlink()]
    except OSError:
        return []


def _is_run(path: Path) -> bool:
    return _record_of(path).is_file() or (path / PLACE).is_dir() or bool(leftovers(path))


def _record_of(path: Path) -> Path:
    """Return the record of a run or of a comparison; that of a run where there is none."""
    return next((path / name for name in _RECORDS if (path / name).is_file()), path / _RECORDS[0])


def _is_linked(path: Path) -> bool:
    return any(part.is_symlink() for part in (path / PLACE, path / PLACE.parent))


def _look(path: Path) -> TracedRun:
    files = sessions(path)
    record, problem = _record(_record_of(path))
    cases = record.get("cases")
    cases = cases if isinstance(cases, list) else []
    declared = record.get("declared")
    changed_s, killed_bytes, linked = _changed_s(path), _killed_bytes(path), _is_linked(path)
    marked = is_under_way(path)
    if marked is None:  # as an older version leaves it: its record is all there is
        unfinished = not record or (isinstance(declared, list) and len(cases) < len(declared))
        marked = unfinished and not record.get("interrupted") and time.time() - changed_s < _UNDER_WAY_S
    return TracedRun(
        path=str(path),
        suite=str(record.get("suite") or ""),
        cases=len(cases),
        sessions=tuple(file.parent.name for file in files),
        bytes=killed_bytes + sum(map(_size, files)),
        killed=len(leftovers(path)),
        killed_bytes=killed_bytes,
        changed_s=changed_s,
        ours=str(record.get("schema")).startswith("qwenperf.") or bool(RUN_ID.search(path.name)),
        under_way=marked,
        linked=linked,
        problem=problem or ("its traces lie behind a link and stay" if linked else ""),
    )


def _record(file: Path) -> tuple[dict[str, Any], str]:
    """Return what a record holds, or what is wrong with it. The codec would refuse more than a list has to know."""
    if not file.is_file():
        return {}, "no run.json"
    try:
        found = json.loads(file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return {}, f"{file.name} cannot be read"
    return (found, "") if isinstance(found, dict) else ({}, f"{file.name} holds no record")


def _changed_s(path: Path) -> float:
    """Return when a run was written last."""
    for place in (_record_of(path), path):
        try:
            return place.stat().st_mtime
        except OSError:
            continue
    return 0.0


def _killed_bytes(run: Path) -> int:
    """Return the bytes of what killed captures left of a run."""
    return sum(_size(file) for folder in leftovers(run) for file in folder.rglob("*") if file.is_file())


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
