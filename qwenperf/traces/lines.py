"""Sorts the events of a profile's lines: steps, operations, launches of programs, what the host did in steps.

Most events are known by their number alone, and only the others are decoded further.
"""

from __future__ import annotations

import mmap
import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from qwenperf.traces import graphs
from qwenperf.traces.events import Walk, read_stats
from qwenperf.traces.planes import Plane

_STEP, _OPERATION, _LAUNCH, _GRAPH, _OTHER = range(5)
_DEVICE = re.compile(r"/device:(?!CUSTOM)\w+:\d+$")
_TPU_OPERATIONS, _TPU_MODULES, _GPU_STREAM = "XLA Ops", "XLA Modules", "Stream"
_LAUNCHES = re.compile(r"LoadedExecutable::Execute")
_ANY_STAT = ("hlo_op", "hlo_module", "program_id", "run_id")


@dataclass(frozen=True, kw_only=True)
class Key:
    """What an operation is called: an instruction of a program. ``stats`` is what the profiler says of it.

    ``named`` is false of a GPU's kernel that names no instruction.
    """

    name: str
    program: str = ""
    program_id: int = 0
    named: bool = True
    stats: Mapping[str, Any] = field(default_factory=dict)


@dataclass(kw_only=True)
class Column:
    """Start and end in picoseconds and key of many events."""

    start: array[int] = field(default_factory=lambda: array("q"))
    end: array[int] = field(default_factory=lambda: array("q"))
    key: array[int] = field(default_factory=lambda: array("i"))

    def add(self, start: int, duration: int, key: int) -> None:
        """Append one event."""
        self.start.append(start)
        self.end.append(start + duration)
        self.key.append(key)


@dataclass(kw_only=True)
class Collected:
    """Everything that the lines hold; columns by device and line.

    Starts of programs come from up to three places: operations that name their run, a device's line of modules, and
    calls of the runtime on the host. ``graphs`` counts launches of CUDA graphs.
    """

    steps: list[tuple[str, int, int, str]] = field(default_factory=list)
    operations: dict[tuple[str, str], Column] = field(default_factory=dict)
    host: dict[tuple[str, str], Column] = field(default_factory=dict)
    runs: dict[Any, int] = field(default_factory=dict)
    modules: dict[str, list[int]] = field(default_factory=dict)
    calls: list[int] = field(default_factory=list)
    graphs: int = 0
    keys: list[Key] = field(default_factory=list)
    known: dict[Any, int] = field(default_factory=dict)

    @property
    def launches(self) -> list[int]:
        """The starts of programs, by the best witness there is."""
        return list(self.runs.values()) or next(iter(self.modules.values()), []) or self.calls

    def column(self, columns: dict[tuple[str, str], Column], walk: Walk) -> Column:
        """Return the column of a line; lines of one name are one."""
        return columns.setdefault((walk.plane.name, walk.line.name), Column())

    def key(self, mark: Any, **about: Any) -> int:
        """Return the number of the key that ``mark`` stands for; made when it is new."""
        number = self.known.get(mark)
        if number is None:
            number = self.known[mark] = len(self.keys)
            self.keys.append(Key(**about))
        return number


def collect(data: mmap.mmap, planes: Sequence[Plane], step_name: str | None) -> Collected:
    """Walk every line of ``planes``; a step is an event named ``step_name``, or without one any that has a number.

    Raises:
      WireError: an event is cut or is none.
    """
    found = Collected()
    clocks = [line.start_ns for plane in planes for line in plane.lines if line.used]
    base_ns = min(clocks, default=0)
    for plane in planes:
        names = {line.name for line in plane.lines}
        for line in plane.lines:
            walk = Walk(data=data, plane=plane, line=line, shift_ps=(line.start_ns - base_ns) * 1000)
            if not plane.name.startswith("/device:"):
                _host_line(walk, found, step_name)
            elif not _DEVICE.match(plane.name):
                continue  # a part of a device that is told of apart, such as a TPU's sparse cores
            elif line.name == _TPU_OPERATIONS:
                _tpu_line(walk, found)
            elif line.name == _TPU_MODULES:
                starts = [start for _, start, duration, *_ in walk.events() if duration > 0]
                found.modules.setdefault(plane.name, []).extend(starts)
            elif _TPU_OPERATIONS not in names and line.name.startswith(_GPU_STREAM):
                _stream_line(walk, found)
    return found


def _host_line(walk: Walk, found: Collected, step_name: str | None) -> None:
    """Sort a host's line: operations of the CPU backend, steps, launches; the rest where a step was taken."""
    plane = walk.plane
    wanted = {number: name for number, name in plane.stat_names.items() if name in _ANY_STAT}
    kinds: dict[int, int] = {}
    launched, steps = 0, len(found.steps)
    for number, start, duration, raw, stats in walk.events():
        kind = kinds.get(number)
        if kind is None:
            kind = kinds[number] = _kind(walk, number, raw, stats, step_name)
        if kind == _OTHER or duration <= 0:
            continue
        if kind == _OPERATION:
            seen = read_stats(raw, stats, wanted, plane.stat_names)
            seen.setdefault("hlo_op", walk.metadata(number).name)
            _operation(walk, found, start, duration, seen)
        elif kind == _GRAPH:
            found.graphs += 1
        elif kind == _STEP:
            found.steps.append((walk.metadata(number).name, start, start + duration, plane.name))
        elif start >= launched:  # one call of the runtime may hold another
            found.calls.append(start)
            launched = start + duration
    if len(found.steps) > steps:
        _host_thread(walk, found, kinds)


def _kind(walk: Walk, number: int, raw: bytes, stats: int, step_name: str | None) -> int:
    """Say what events of one number are, by the first of them."""
    name = walk.metadata(number).name
    marks = {key: mark for key, mark in walk.plane.stat_names.items() if mark in {"hlo_op", "step_num"}}
    seen = read_stats(raw, stats, marks, walk.plane.stat_names)
    if name == step_name or (step_name is None and "step_num" in seen):
        return _STEP
    if seen.get("hlo_op"):
        return _OPERATION
    if name.startswith(graphs.LAUNCH):
        return _GRAPH
    return _LAUNCH if _LAUNCHES.search(name) else _OTHER


def _host_thread(walk: Walk, found: Collected, kinds: Mapping[int, int]) -> None:
    """Keep what a thread did that took steps: it tells what the device waited for."""
    column = found.column(found.host, walk)
    for number, start, duration, _, _ in walk.events():
        if kinds.get(number) in {_OTHER, _LAUNCH, _GRAPH} and duration > 0:
            name = walk.metadata(number).name
            column.add(start, duration, found.key(("host", name), name=name))


def _operation(
    walk: Walk, found: Collected, start: int, duration: int, seen: Mapping[str, Any], *, named: bool = True
) -> None:
    """Keep one operation: ``seen`` says which instruction of which run of which program."""
    module, program_id = seen.get("hlo_module") or "", seen.get("program_id")
    program_id = program_id if isinstance(program_id, int) else 0
    name = str(seen["hlo_op"])
    key = found.key((program_id, module, name, named), name=name, program=module, program_id=program_id, named=named)
    found.column(found.operations, walk).add(start, duration, key)
    if "run_id" in seen:
        found.runs.setdefault((program_id, module, seen["run_id"]), start)


def _stream_line(walk: Walk, found: Collected) -> None:
    """Take everything on a GPU's stream: kernels name their instruction, copies only themselves."""
    wanted = {number: name for number, name in walk.plane.stat_names.items() if name in _ANY_STAT}
    for number, start, duration, raw, stats in walk.events():
        if duration > 0:
            seen = read_stats(raw, stats, wanted, walk.plane.stat_names)
            told = {"hlo_op": walk.metadata(number).name, **seen}
            _operation(walk, found, start, duration, told, named="hlo_op" in seen)


def _tpu_line(walk: Walk, found: Collected) -> None:
    """Take a TPU's operations: what is known of one stands once, beside its name."""
    column, keys = found.column(found.operations, walk), {}
    for number, start, duration, _, _ in walk.events():
        if duration <= 0:
            continue
        if number not in keys:
            about = walk.metadata(number)
            stats = {**about.stats(walk.data, walk.plane.stat_names), "text": about.name}
            program_id = stats.get("program_id")
            program_id = program_id if isinstance(program_id, int) else 0
            name = about.display_name or about.name.split(" = ")[0].lstrip("%")
            keys[number] = found.key((walk.plane.name, number), name=name, program_id=program_id, stats=stats)
        column.add(start, duration, keys[number])
