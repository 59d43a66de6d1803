"""Every error that qwenperf raises on purpose: one class, one exit code, one piece of advice.

A message says what was seen (names, values); the advice says what to do about it. This module knows
nothing of the rest of the package, so that every room may raise from it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar


class QwenperfError(Exception):
    """Base of the tree. ``exit_code`` is what the command line ends with."""

    exit_code: ClassVar[int] = 70
    default_advice: ClassVar[str] = ""

    def __init__(self, message: str, *, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice or self.default_advice

    def __str__(self) -> str:
        return f"{self.message} {self.advice}".strip()


class UsageError(QwenperfError):
    """A command, option or argument that does not make sense."""

    exit_code = 2


class ConfigError(UsageError):
    """A setting, budget file or model configuration that cannot be honoured; names the field."""


class UnknownNameError(UsageError):
    """A name that is not registered; offers the nearest one."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, tuple(known)
        super().__init__(f"unknown {kind} {name!r}.", advice=nearest_advice(name, self.known))


class CheckpointError(UsageError):
    """A checkpoint file that is missing, cut short, or not what its config says; names the file."""


class ExecutablesError(UsageError):
    """A file of saved executables that is missing, cut short, not ours, or made elsewhere; names what differs."""

    default_advice = "Save them again, here and from this code: they are loaded nowhere else."


class RecordError(UsageError):
    """A record (run.json) that cannot be read; names the file and the key."""


class FormatError(UsageError):
    """Another tool's file that cannot be read, or a run that its format cannot hold; names the file and the key."""


class CapacityError(UsageError):
    """A request that does not fit the pre-allocated cache, refused before anything runs."""

    default_advice = "Raise the cache capacity or generate fewer tokens."


class TokenError(UsageError):
    """Prompt tokens that no engine can accept: empty, or outside the vocabulary."""


class OutputError(UsageError):
    """A place that cannot be written to."""

    default_advice = "Give a writable folder with --out."


class StoreError(UsageError):
    """A store of runs that cannot be reached, read or written, or that would say two things; names its URL."""


class EnvironmentUnfitError(QwenperfError):
    """This machine, or its software, cannot give the answer that was asked for."""

    exit_code = 4


class MachineBusyError(EnvironmentUnfitError):
    """Another measurement runs on this machine, and did so for as long as this one may wait; says which."""

    default_advice = (
        "Two at once would time each other: wait for it, or end it (its lock goes with it). "
        "QWENPERF_LOCK_WAIT=SECONDS waits longer."
    )


class MeasurementError(QwenperfError):
    """A case was started and gave no usable measurement (crash, time limit, void windows)."""

    exit_code = 5


class RefusedCallError(MeasurementError):
    """An ahead-of-time executable was called with arguments that it was not compiled for."""

    default_advice = "Keep shape, dtype and sharding of every argument as they were when it was compiled."


class NothingMeasuredError(MeasurementError):
    """No case was measured, or a declared case is missing: never green."""


_MOST_NAMES = 12
_NEAREST = 4


def nearest_advice(name: str, known: Iterable[str]) -> str:
    """Return ``Did you mean 'x'? Known: ...`` for a name that is not in ``known``; of many names only the nearest."""
    known = tuple(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    if len(known) > _MOST_NAMES:
        near = difflib.get_close_matches(name, known, n=_NEAREST, cutoff=0.0)
        return f"{hint}The nearest of {len(known)} known: {', '.join(near)}."
    return f"{hint}Known: {', '.join(known)}." if known else hint.strip()
