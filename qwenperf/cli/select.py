"""Which cases a run measures: a suite, or an ad-hoc ladder; filtered and overridden. Without JAX.

A name that is mistyped is found here, before anything is measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from qwenperf.cli.files import is_there
from qwenperf.errors import (
    CapacityError,
    CheckpointError,
    ConfigError,
    NothingMeasuredError,
    UnknownNameError,
    UsageError,
    nearest_advice,
)
from qwenperf.settings import Settings
from qwenperf.workloads.case import ENGINES, Case, Workload
from qwenperf.workloads.engine import BEST, parse_engine, rung_of
from qwenperf.workloads.factory import factory_parts, is_factory
from qwenperf.workloads.models import PRESETS
from qwenperf.workloads.suites import find_suite

AD_HOC = "ad-hoc"
_DEFAULT_MODEL = "4x128"
_AD_HOC_TIME_LIMIT_S = 600.0
_SHOWN = 200
"""Characters of a mistyped name that are worth repeating."""

_MOST = 2**31 - 1
"""Sizes are int32 on a device."""


@dataclass(frozen=True, kw_only=True)
class AdHoc:
    """The flags that describe a case of one's own; ``None`` and ``()`` are flags that were not given."""

    model: str | None = None
    engines: tuple[str, ...] = ()
    prompt_length: int | None = None
    new_tokens: int | None = None
    batch: int | None = None
    dtype: str | None = None

    @property
    def given(self) -> bool:
        """Whether any of the flags was given."""
        return self != AdHoc()

    def cases(self) -> tuple[Case, ...]:
        """Return one case an engine.

        Raises:
            UnknownNameError: no such model, engine or dtype.
            ConfigError: a size that no engine can do.
        CapacityError: more tokens than a preset has positions.
        """
        workload = Workload(
            prompt_length=32 if self.prompt_length is None else self.prompt_length,
            new_tokens=32 if self.new_tokens is None else self.new_tokens,
            batch=1 if self.batch is None else self.batch,
            dtype="f32" if self.dtype is None else self.dtype,
        )
        _check_sizes(workload)
        model = check_model(_DEFAULT_MODEL if self.model is None else self.model)
        _check_room(model, workload)
        engines = [check_engine(engine) for engine in dict.fromkeys(self.engines or ("cached",))]
        return tuple(
            Case(model=model, engine=engine, workload=workload, time_limit_s=_AD_HOC_TIME_LIMIT_S) for engine in engines
        )


def select(settings: Settings, ad_hoc: AdHoc, filters: Sequence[str]) -> tuple[str, tuple[Case, ...]]:
    """Return the suite's name and the cases to measure.

    Raises:
      UsageError: a suite and flags of an ad-hoc case at once.
      NothingMeasuredError: the filter leaves no case.
    """
    if ad_hoc.given and settings.origins.get("suite") == "--suite":
        raise UsageError("--suite and the flags of an ad-hoc case (--model, --engine, ...) exclude each other.")
    suite_cases = _suite_cases(settings)
    suite, cases = (AD_HOC, ad_hoc.cases()) if ad_hoc.given else (settings.suite, suite_cases)
    return suite, tuple(_overridden(case, settings) for case in matching(cases, filters))


def _suite_cases(settings: Settings) -> tuple[Case, ...]:
    """Return the suite's cases; also a name that is not needed has to be right."""
    try:
        return find_suite(settings.suite).cases
    except UnknownNameError as error:
        origin = settings.origins.get("suite", "suite")
        raise UsageError(f"unknown suite {settings.suite!r} ({origin}).", advice=error.advice) from error


def matching(cases: Sequence[Case], filters: Sequence[str]) -> tuple[Case, ...]:
    """Return the cases that match any of the globs; all without a glob.

    A glob is matched with the whole id, and with its model, its engine and its workload alone.

    Raises:
      NothingMeasuredError: none matches; offers the nearest case.
    """
    kept = tuple(case for case in cases if not filters or any(_matches(case, glob) for glob in filters))
    if not kept:
        known = [case.id for case in cases]
        tried = " or ".join(map(repr, filters))
        raise NothingMeasuredError(f"no case matches {tried}.", advice=nearest_advice(filters[0], known))
    return kept


def _matches(case: Case, glob: str) -> bool:
    return any(fnmatchcase(name, glob) for name in (case.id, case.model, case.engine, case.workload.label))


def _overridden(case: Case, settings: Settings) -> Case:
    return replace(
        case,
        trials=case.trials if settings.trials is None else settings.trials,
        time_limit_s=case.time_limit_s if settings.time_limit_s is None else settings.time_limit_s,
    )


def _check_sizes(workload: Workload) -> None:
    for name in ("batch", "prompt_length", "new_tokens"):
        size = getattr(workload, name)
        if size > _MOST:
            raise ConfigError(f"{name} is {size:.3g}, which no device counts to.", advice=f"At most {_MOST}.")


def _check_room(model: str, workload: Workload) -> None:
    """Refuse a request that is longer than a preset's positions, before a process is started for it."""
    room = PRESETS.get(model, {}).get("max_position_embeddings")
    wanted = workload.prompt_length + workload.new_tokens
    if room is not None and wanted > room:
        told = f"prompt {workload.prompt_length} and {workload.new_tokens} new tokens need {wanted} positions"
        raise CapacityError(f"{told}; model {model!r} has {room}.", advice="Ask for fewer tokens, or another model.")


def check_engine(name: str) -> str:
    """Return ``name`` where it is a rung, one with settings, or ``package.module:factory``.

    Raises:
      UnknownNameError: no such rung, setting or value; offers the nearest.
      ConfigError: settings that exclude each other.
    """
    if is_factory(name):
        factory_parts(name)
        return name
    _known("engine", rung_of(name), (*ENGINES, *BEST))
    parse_engine(name)
    return name


def check_model(name: str) -> str:
    """Return ``name`` where it is a preset, an existing folder or file, or looks like a hub id (``owner/name``).

    Raises:
      UnknownNameError: no such preset.
      CheckpointError: a path to nothing.
      UsageError: no name at all.
    """
    if not name:
        raise UsageError("the name of a model is empty.", advice=nearest_advice(name, PRESETS))
    if name in PRESETS or _is_there(name):
        return name
    if name.startswith((".", "/", "~")):
        raise CheckpointError(f"model {name!r:.{_SHOWN}}: no such folder or file.")
    return name if name.count("/") == 1 else _known("model", name, PRESETS)


def _is_there(name: str) -> bool:
    try:
        return is_there(Path(name).expanduser())
    except RuntimeError:  # ~somebody, of whom the system knows no home
        return False


def _known(kind: str, name: str, known: Iterable[str]) -> str:
    if name not in known:
        raise UnknownNameError(kind, name if len(name) <= _SHOWN else f"{name[:_SHOWN]}...", known)
    return name
