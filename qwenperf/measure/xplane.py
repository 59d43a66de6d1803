"""Reads a saved profile (``.xplane.pb``) with JAX's own reader into plain spans.

On CPU, XLA's operations are events of the thread pools on ``/host:CPU`` and carry ``hlo_op``; on GPU they
are events of the streams of a ``/device:`` plane; on TPU they are the line ``XLA Ops`` of one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jax.profiler import ProfileData

from qwenperf.errors import RecordError
from qwenperf.traces.summary import Span

_OPERATION_LINE = "XLA Ops"


@dataclass(frozen=True, kw_only=True)
class Profile:
    """What a profile holds of our steps and of the device's operations."""

    steps: tuple[Span, ...]
    operations: tuple[Span, ...]
    planes: tuple[str, ...]


def read(path: Path, step_name: str) -> Profile:
    """Read the steps annotated as ``step_name`` and every operation.

    Raises:
      RecordError: the file cannot be read as a profile; names it.
    """
    try:
        with warnings.catch_warnings():
            # The reader's types have no __module__, which Python 3.12 deprecates; nothing a reader of traces can do.
            warnings.simplefilter("ignore", DeprecationWarning)
            return _read(ProfileData.from_file(str(path)), step_name)
    except (OSError, RuntimeError, ValueError) as error:
        raise RecordError(f"{path} is no readable profile: {error}.") from error


def _read(data: ProfileData, step_name: str) -> Profile:
    steps: list[Span] = []
    operations: list[Span] = []
    planes = []
    for plane in data.planes:
        planes.append(plane.name)
        for line in plane.lines:
            for event in line.events:
                if event.name == step_name and not plane.name.startswith("/device:"):
                    steps.append(_span(event, event.name, line.name, plane.name))
                else:
                    operations += _operation(event, line.name, plane.name)
    steps.sort(key=lambda step: step.start_ns)
    operations.sort(key=lambda operation: operation.start_ns)
    return Profile(steps=tuple(steps), operations=tuple(operations), planes=tuple(planes))


def _operation(event: Any, line: str, plane: str) -> Iterator[Span]:
    """Yield a span if ``event`` is an operation: it names its HLO instruction, or lies on the line of operations."""
    if event.duration_ns <= 0:
        return
    name = next((value for key, value in event.stats if key == "hlo_op"), None)
    if name is None and plane.startswith("/device:") and line == _OPERATION_LINE:
        name = event.name
    if name:
        yield _span(event, str(name), line, plane)


def _span(event: Any, name: str, line: str, plane: str) -> Span:
    return Span(
        name=name,
        start_ns=float(event.start_ns),
        duration_ns=float(event.duration_ns),
        track=f"{plane}/{line}",
        device=plane,
    )
