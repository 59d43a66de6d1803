"""Reads a saved profile (``.xplane.pb``) in bounded memory: its steps, the device's operations, and the host's thread.

The file is walked as a memory map, and of an event only name, start and end are kept, in 20 bytes. On CPU, operations
are events of the thread pools on ``/host:CPU`` and carry ``hlo_op``; on GPU they are events of the streams of a
``/device:`` plane; on TPU they are the line ``XLA Ops`` of one.
Fields: https://github.com/openxla/xla/blob/main/xla/tsl/profiler/protobuf/xplane.proto
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qwenperf.errors import RecordError
from qwenperf.traces import wire
from qwenperf.traces.lines import Collected, Key, collect
from qwenperf.traces.planes import Plane, read_plane

METADATA_PLANE = "/host:metadata"
_PLANES, _ERRORS, _WARNINGS = 1, 2, 3


@dataclass(frozen=True, kw_only=True)
class Step:
    """One annotated step, in picoseconds on the trace's own clock."""

    name: str
    start_ps: int
    end_ps: int
    device: str = ""


@dataclass(frozen=True, kw_only=True)
class Track:
    """What ran on one thread, stream or core, by start. ``key`` indexes the keys of the profile."""

    name: str
    device: str
    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    key: NDArray[np.int32]


@dataclass(frozen=True, kw_only=True)
class SavedProgram:
    """A compiled program as the profiler saved it: ``proto`` is its serialised ``HloProto``."""

    id: int
    name: str
    proto: bytes


@dataclass(frozen=True, kw_only=True)
class Profile:
    """What a profile holds. ``tracks`` are of operations, ``host`` of the threads that took the steps.

    ``launches_ps`` are the starts of the executions of programs, ``programs`` those that ran; ``graphs`` counts
    launches of CUDA graphs; ``remarks`` is what the profiler itself complained of.
    """

    steps: tuple[Step, ...]
    tracks: tuple[Track, ...]
    host: tuple[Track, ...]
    keys: tuple[Key, ...]
    launches_ps: tuple[int, ...]
    planes: tuple[str, ...]
    programs: tuple[SavedProgram, ...]
    graphs: int = 0
    remarks: tuple[str, ...] = ()


def read(path: Path, step_name: str | None = None) -> Profile:
    """Read the steps annotated as ``step_name`` (any annotated step without one), and every operation.

    Raises:
      RecordError: there is no file, or it is no whole profile; names it and says what is wrong.
    """
    advice = "It may have been cut off while it was written: take the trace again."
    try:
        if not path.is_file():
            raise RecordError(f"{path} is no file.", advice="Give a trace (.xplane.pb) or a run's folder.")
        if path.stat().st_size == 0:
            raise RecordError(f"{path} is empty.", advice=advice)
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _read(data, step_name)
    except (ArithmeticError, LookupError, OSError, TypeError, ValueError) as error:
        raise RecordError(f"{path} is no readable profile: {error}.", advice=advice) from error


def _read(data: mmap.mmap, step_name: str | None) -> Profile:
    planes, remarks = [], []
    for field, value, end in wire.spans(data, 0, len(data)):
        if field == _PLANES and end >= 0:
            planes.append(read_plane(data, value, end))
        elif field in {_ERRORS, _WARNINGS} and end >= 0:
            remarks.append(wire.text(bytes(data[value:end])))
    if not any(plane.name for plane in planes):
        raise ValueError("it holds no plane of events")
    found = collect(data, planes, step_name)
    steps = sorted(found.steps, key=lambda step: step[1])
    return Profile(
        steps=tuple(Step(name=name, start_ps=start, end_ps=end, device=device) for name, start, end, device in steps),
        tracks=_tracks(found, found.operations),
        host=_tracks(found, found.host),
        keys=tuple(found.keys),
        launches_ps=tuple(sorted(found.launches)),
        planes=tuple(plane.name for plane in planes),
        programs=tuple(_programs(data, planes, found.keys)),
        graphs=found.graphs,
        remarks=tuple(remarks),
    )


def _tracks(found: Collected, columns: Mapping[tuple[str, str], Any]) -> tuple[Track, ...]:
    """Make arrays of what was collected; sorted by start, what contains something before it."""
    tracks = []
    for (device, name), column in columns.items():
        start, end = np.frombuffer(column.start, np.int64), np.frombuffer(column.end, np.int64)
        key = np.frombuffer(column.key, np.int32)
        order = np.lexsort((-end, start))
        tracks.append(Track(name=name, device=device, start_ps=start[order], end_ps=end[order], key=key[order]))
    # Where a device speaks for itself, what the host ran on the side is no work of the device.
    if any(track.device.startswith("/device:") for track in tracks) and columns is found.operations:
        tracks = [track for track in tracks if track.device.startswith("/device:")]
    return tuple(tracks)


def _programs(data: mmap.mmap, planes: Sequence[Plane], keys: Sequence[Key]) -> Iterator[SavedProgram]:
    """Yield the programs that ran, where the profiler saved them; it saves every one that is loaded."""
    ids = {key.program_id for key in keys if key.program_id}
    names = {key.program for key in keys if key.program and not key.program_id}
    for plane in planes:
        if plane.name != METADATA_PLANE:
            continue
        for metadata in plane.events.values():
            stats = metadata.stats(data, plane.stat_names)
            number, proto, name = stats.get("program_id"), stats.get("Hlo Proto"), metadata.name.split("(")[0]
            number = number if isinstance(number, int) else metadata.number
            if isinstance(proto, bytes) and (number in ids or name in names):
                yield SavedProgram(id=number, name=name, proto=proto)
