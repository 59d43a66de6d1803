"""Which cases each side declares: asked of its own code, so that a case that was dropped or renamed is noticed."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from qwenperf.errors import MeasurementError, NothingMeasuredError, QwenperfError, UsageError
from qwenperf.lab.sides import Side
from qwenperf.workloads.case import Case

_LIMIT_S = 120


class NotListedError(MeasurementError):
    """A side does not list its cases; ``said`` is its last line, ``is_usage``: what it was asked for is wrong there."""

    def __init__(self, side: Side, said: str, *, is_usage: bool) -> None:
        super().__init__(f"{side.name} ({side.label}) does not list its cases: {said}")
        self.said, self.is_usage = said, is_usage


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """Cases of both sides: ``shared`` as head has them, and what only one side has. ``renamed``: old id to new.

    ``before`` are renamed cases as base has them, by their new id.
    """

    shared: tuple[Case, ...]
    missing: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    before: Mapping[str, Case] = field(default_factory=dict)


def take_inventory(base: Side, head: Side, arguments: Sequence[str], aliases: Mapping[str, str]) -> Inventory:
    """Ask both sides for the cases that ``arguments`` of ``qwenperf run`` choose; ``aliases``: new ids by old ones.

    Raises:
      MeasurementError: a side cannot list its cases.
      UsageError: neither side knows what is asked for, or an alias is none.
      NothingMeasuredError: no case is on both sides.
    """
    old, new = _both(base, head, arguments)
    renamed = {before: after for before, after in aliases.items() if before in old and after in new}
    for before in aliases:
        if before not in old:
            raise UsageError(f"--alias {before}=...: the base has no such case.")
    for before, after in renamed.items():
        if old[before].workload != new[after].workload:
            raise UsageError(
                f"--alias {before}={after}: they ask for other requests, whose times say nothing of each other."
            )
    shared = [name for name in new if name in old or name in renamed.values()]
    if not shared:
        raise NothingMeasuredError(
            f"no case is on both sides: base has {', '.join(old) or 'none'}, head {', '.join(new) or 'none'}.",
            advice="Give a case that was renamed as --alias OLD=NEW.",
        )
    return Inventory(
        shared=tuple(new[name] for name in shared),
        missing=tuple(name for name in old if name not in new and name not in renamed),
        new=tuple(name for name in new if name not in shared),
        renamed=renamed,
        before={after: old[before] for before, after in renamed.items()},
    )


def _both(base: Side, head: Side, arguments: Sequence[str]) -> tuple[dict[str, Case], dict[str, Case]]:
    """Return the cases of both sides; what both refuse is a mistake of whoever asks."""
    try:
        old = declared(base, arguments)
    except NotListedError as error:
        if error.is_usage:
            try:
                declared(head, arguments)
            except NotListedError as other:
                if other.is_usage:
                    raise UsageError(other.said.removeprefix("qwenperf: error: ")) from error
        raise
    return old, declared(head, arguments)


def declared(side: Side, arguments: Sequence[str]) -> dict[str, Case]:
    """Return the cases by id that a side's own code lists; errors as ``take_inventory``."""
    command = [side.python, "-P", "-m", "qwenperf", "run", *arguments, "--list", "--json"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_LIMIT_S, check=False,
            env=side.child_environ(os.environ), cwd=side.root,
        )  # fmt: skip
        if done.returncode:
            said = done.stderr.strip().splitlines()
            last = said[-1] if said else str(done.returncode)
            raise NotListedError(side, last, is_usage=done.returncode == UsageError.exit_code)
        listed = json.loads(done.stdout)["cases"]
        return {one["id"]: Case.from_json({key: one[key] for key in one if key != "id"}) for one in listed}
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError) as error:
        raise MeasurementError(f"{side.name} ({side.label}) does not list its cases: {error}.") from error
    except QwenperfError as error:
        if isinstance(error, MeasurementError):
            raise
        raise MeasurementError(f"{side.name} ({side.label}) lists a case that is not known here: {error}") from error
