"""Makes rows of operations: those that differ in the compiler's numbering only are one, with time, count and cost."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qwenperf.traces import graphs
from qwenperf.traces.attribution import Coverage, Segments
from qwenperf.traces.categories import category
from qwenperf.traces.hlo_proto import read_module
from qwenperf.traces.lines import Key
from qwenperf.traces.origins import Origin, of_tpu, origins
from qwenperf.traces.xplane import Profile, Track

SECONDS = 1e-12
"""A trace's clock counts picoseconds."""


@dataclass(frozen=True, kw_only=True)
class Device:
    """One device's pieces of work, and their running totals over typical and over all steps."""

    segments: Sequence[Segments]
    tracks: Sequence[Track]
    typical: Coverage
    every: Coverage


def operation_rows(profile: Profile, devices: Sequence[Device]) -> list[dict[str, Any]]:
    """Return one row for operations that are the same but for the compiler's numbering, the longest first."""
    keys = len(profile.keys)
    time, wall, count = (np.zeros(keys) for _ in range(3))
    for device in devices:
        seen = device.typical
        for segments in device.segments:
            time += by_key(segments, seen.between(seen.inside, segments.start, segments.end), keys)
            wall += by_key(segments, seen.between(seen.shared, segments.start, segments.end), keys)
        for track in device.tracks:
            # What begins in a window counts there, even where it outlasts it.
            began = seen.between(seen.inside, track.start_ps, track.start_ps + 1) > 0
            count += np.bincount(track.key[began], minlength=keys)
    known = _origins(profile)
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for number in np.flatnonzero(count + time):
        key = profile.keys[number]
        row = _row(key, known.get((key.program_id, key.program, key.name)) or of_tpu(key.name, key.stats), profile)
        mine = rows.setdefault(tuple(str(row[name]) for name in _IDENTITY), row)
        # Rounded only when all are added: each of a TPU's devices has keys of its own, with a share of the runs.
        runs = float(count[number]) / len(devices)
        mine["count"] += runs
        mine["time_s"] += float(time[number]) * SECONDS / len(devices)
        mine["wall_s"] += float(wall[number]) * SECONDS / len(devices)
        for cost in ("flops", "bytes"):
            mine[cost] += row[f"{cost}_once"] * runs
    return _finished(list(rows.values()))


_IDENTITY = ("program", "name", "category", "op_name", "source", "shape", "reads")
"""What two operations have in common that are told as one."""


def by_key(segments: Segments, weights: NDArray[np.float64], keys: int) -> NDArray[np.float64]:
    """Add up ``weights`` of segments by their keys, of which there are ``keys``."""
    return np.bincount(segments.key, weights=weights, minlength=keys).astype(np.float64)


def _row(key: Key, origin: Origin | None, profile: Profile) -> dict[str, Any]:
    name = stem(key.name)
    hidden = graphs.is_hidden(name, named=key.named, launches=profile.graphs)
    program = key.program or next((one.name for one in profile.programs if one.id == key.program_id), "")
    return {
        "name": name,
        "hlo": key.name,
        "program": program,
        "category": graphs.CATEGORY if hidden else origin.category if origin else category(name),
        "opcode": origin.opcode if origin else "",
        "op_name": origin.op_name if origin else "",
        "source": origin.source if origin else "",
        "shape": origin.shape if origin else "",
        "reads": origin.reads if origin else "",
        "count": 0,
        "time_s": 0.0,
        "wall_s": 0.0,
        "flops": 0.0,
        "bytes": 0.0,
        "flops_once": origin.flops if origin else 0.0,
        "bytes_once": origin.bytes if origin else 0.0,
    }


def _finished(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    total = sum(row["time_s"] for row in rows) or 1.0
    for row in rows:
        row["count"] = round(row["count"])
        row["share"] = row["time_s"] / total
        del row["flops_once"], row["bytes_once"]
    return sorted(rows, key=lambda row: (-row["wall_s"], row["name"], row["source"]))


def _origins(profile: Profile) -> dict[tuple[int, str, str], Origin]:
    """Return what the saved programs say of the operations; one that cannot be read says nothing."""
    found: dict[tuple[int, str, str], Origin] = {}
    for program in profile.programs:
        keys = [key for key in profile.keys if program.id == key.program_id or (program.name == key.program != "")]
        try:
            known = origins(read_module(program.proto), {key.name for key in keys})
        except (ArithmeticError, AttributeError, IndexError, RecursionError, TypeError, ValueError):
            continue
        for key in keys:
            exact = program.id == key.program_id
            if key.name in known and (exact or not key.program_id):
                found[key.program_id, key.program, key.name] = known[key.name]
    return found


def stem(name: str) -> str:
    """Leave out the compiler's numbering: ``%copy.6`` and ``copy.12.clone`` are both ``copy``."""
    return re.sub(r"(\.\d+|\.clone|\.remat\d*|(?<=GraphExec):\d+)+$", "", name.lstrip("%").split(" = ")[0]) or name
