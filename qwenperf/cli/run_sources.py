"""Runs that people name, with the files that belong to them, as something that a store can take."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from qwenperf.cli.files import SIZE_LIMIT, is_there
from qwenperf.cli.saved_run import RECORD, read_run
from qwenperf.cli.streams import say
from qwenperf.errors import RecordError
from qwenperf.store.base import Source

_LEFT_OUT = {"cases"}
"""What a run writes on its way to its record."""

_TRACES = {"plugins"}

_DEEPEST = 100
"""Lists in lists: how deep a record can be read depends on who reads it, and all of them read so deep."""


def read_sources(places: Sequence[Path], *, traces: bool) -> Iterator[tuple[Path, Source]]:
    """Yield the run at each place, or all runs in a folder of runs, with where it was read.

    Raises:
      RecordError: nothing there, no run, or one that is being measured; names the file.
    """
    from qwenperf.measure.capture_folder import is_under_way

    for place in places:
        for found in _runs(place):
            if not is_under_way(found if found.is_dir() else found.parent):
                yield found, read_source(found, traces=traces)
            elif found == place:
                raise RecordError(
                    f"{place} is being measured.", advice="Wait for its end: a run in a store never changes."
                )
            else:
                say(f"qwenperf: {found} is being measured, and left out")


def read_source(place: Path, *, traces: bool) -> Source:
    """Return the run at ``place``: its folder with all files, or its record alone; errors as ``read_sources``."""
    record, file = read_run(place)
    try:
        with file.open("rb") as opened:
            data = opened.read(SIZE_LIMIT + 1)
    except OSError as error:
        raise RecordError(f"cannot read {file}: {error.strerror or error}.") from error
    if _depth(json.loads(data)) > _DEEPEST:
        raise RecordError(f"{file} is nested too deeply.", advice="No run is: it could not be read back.")
    belongs = file.name == RECORD
    return Source(record=record, data=data, files=dict(_files(file.parent, traces=traces)) if belongs else {})


def _depth(data: Any) -> int:
    """Return how deep lists and objects lie in each other; deeper than allowed is not looked."""
    depth, level = 0, [data]
    while level and depth <= _DEEPEST:
        level = [
            part
            for one in level
            for part in (one.values() if isinstance(one, dict) else one)
            if isinstance(part, dict | list)
        ]
        depth += 1
    return depth


def _runs(place: Path) -> list[Path]:
    """Return the runs in a folder of runs; ``place`` itself where it is none."""
    if not (is_there(place) and place.is_dir()) or is_there(place / RECORD):
        return [place]
    found = (file.parent for file in place.glob(f"*/{RECORD}"))
    return sorted(folder for folder in found if not folder.name.startswith(".")) or [place]  # those are not finished


def _files(folder: Path, *, traces: bool) -> Iterator[tuple[str, Path]]:
    """Yield the files beside a record. Links are left: what they lead to is somebody else's."""
    out = _LEFT_OUT if traces else _LEFT_OUT | _TRACES
    for parent, folders, names in os.walk(folder):
        here = Path(parent)
        top = here == folder
        folders[:] = sorted(name for name in folders if not name.startswith(".") and not (top and name in out))
        for name in sorted(names):
            file = here / name
            if not (name.startswith(".") or file.is_symlink() or (top and name == RECORD)) and file.is_file():
                yield file.relative_to(folder).as_posix(), file
