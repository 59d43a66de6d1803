"""A case: model x engine x workload x device, as data with a stable id."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from qwenperf.errors import ConfigError, UnknownNameError
from qwenperf.workloads.approximate import approximations, logit_bound
from qwenperf.workloads.engine import RUNGS, parse_engine, rung_of
from qwenperf.workloads.mistakes import on_purpose
from qwenperf.workloads.whole import as_whole

DTYPES = ("f32", "bf16")
ENGINES = tuple(RUNGS)
"""The rungs of the ladder, slowest first; see ``workloads.engine``."""

REFERENCE_RUNGS = ("eager", "naive", "padded", "cached-concat")
"""Rungs that exist to be measured against: their tokens are judged, their shapes and speed are not."""

_TOLD = ("reference", "approximate", "on_purpose")
"""What a case says of itself to gates; its engine's name says it too."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What is asked of an engine: ``batch`` prompts of ``prompt_length`` tokens, ``new_tokens`` more for each."""

    prompt_length: int
    new_tokens: int
    batch: int = 1
    dtype: str = "f32"

    def __post_init__(self) -> None:
        """Refuse what no engine can do.

        Raises:
          ConfigError: a size below its minimum (2 new tokens: a time per token needs one after the first).
          UnknownNameError: an unknown dtype.
        """
        for name, least in (("prompt_length", 1), ("new_tokens", 2), ("batch", 1)):
            _set_whole(self, name, least, "workload ")
        if self.dtype not in DTYPES:
            raise UnknownNameError("dtype", str(self.dtype), DTYPES)

    @property
    def label(self) -> str:
        """The workload's part of a case id, such as ``b1-p128-n64-f32``."""
        return f"b{self.batch}-p{self.prompt_length}-n{self.new_tokens}-{self.dtype}"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One thing to measure. ``model`` is a preset, a folder or a hub id; ``engine`` a rung, perhaps with settings.

    ``trials`` is how many steady requests are timed, ``time_limit_s`` when a hung case is given up.

    ``measured_tokens``, where the whole request would take hours, is how many new tokens are made at its start and how
    many at its end; the rest is extrapolated from these, and every figure of that kind says so. 0 measures all. Only
    for engines that compute the whole sequence for each token: with a cache the prompt costs what no other token does.

    ``requests_only``, where a request takes minutes, times whole requests and first tokens and no single steps, and
    lets the cold request, which is as long as those that are timed, be their warm-up.
    """

    model: str
    engine: str
    workload: Workload
    trials: int = 5
    time_limit_s: float = 300.0
    seed: int = 0
    measured_tokens: int = 0
    requests_only: bool = False
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what is no number, and an extrapolation from too little, or of nothing.

        Raises:
          ConfigError: a truth for a number or a number for a truth; no trial or no time for them;
            ``measured_tokens`` below 2, or start and end of the request together are all of it; or the engine has a
            cache.
        """
        for name, least in (("trials", 1), ("seed", None), ("measured_tokens", None)):
            _set_whole(self, name, least, "")
        limit: object = self.time_limit_s
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 < limit < math.inf:
            raise ConfigError(f"time_limit_s is {limit!r}, which is no number of seconds above 0.")
        if not isinstance(self.requests_only, bool):
            raise ConfigError(f"requests_only is {self.requests_only!r}, which is neither true nor false.")
        measured, all_tokens = self.measured_tokens, self.workload.new_tokens
        if measured and not 2 <= measured <= all_tokens // 2:
            raise ConfigError(
                f"{self.id}: measured_tokens is {measured} of {all_tokens} new tokens.",
                advice="From 2 to half of them, or 0 to measure all.",
            )
        if measured and _has_cache(self.engine):
            raise ConfigError(
                f"{self.id}: measured_tokens is {measured} for an engine with a cache: its prompt costs what no other "
                "token does.",
                advice="Measure the whole request; requests_only makes it cheaper.",
            )

    @property
    def id(self) -> str:
        """Stable name: ``model/engine/workload``."""
        return f"{self.model}/{self.engine}/{self.workload.label}"

    def to_json(self) -> dict[str, Any]:
        """Return the case as plain JSON data; ``from_json`` reads it back.

        ``reference`` tells gates that the engine is slow on purpose, ``approximate`` which of its settings cost
        exactness and how much they may, and ``on_purpose`` which gates find what its name asks for: only our own
        engines say so, by their names.
        """
        said = asdict(self)
        if not self.requests_only:
            del said["requests_only"]  # what is not there is false, and code that does not know it reads the case
        return {**said, "reference": rung_of(self.engine) in REFERENCE_RUNGS, **_told(self.engine)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Case:
        """Read a case from plain JSON data.

        Raises:
          ConfigError: a missing or unknown key.
        """
        try:
            known = {name: value for name, value in data.items() if name not in _TOLD}
            return cls(**{**known, "workload": Workload(**data["workload"])})
        except (KeyError, TypeError) as error:
            raise ConfigError(f"not a case: {error}.") from error


def _set_whole(of: Workload | Case, name: str, least: int | None, prefix: str) -> None:
    """Keep a whole number as Python's, the only one that JSON knows.

    Raises:
      ConfigError: it is none, or below ``least``.
    """
    value = getattr(of, name)
    number = as_whole(value)
    if number is None or (least is not None and number < least):
        bound = "" if least is None else f" of at least {least}"
        raise ConfigError(f"{prefix}{name} is {value!r}, which is not a whole number{bound}.")
    object.__setattr__(of, name, number)


def _has_cache(engine: str) -> bool:
    """Say whether an engine of ours keeps keys and values; of anybody else's nothing is known."""
    with suppress(ConfigError, UnknownNameError):  # whoever builds it refuses it
        return parse_engine(engine).cache != "none"
    return False


def _told(engine: str) -> dict[str, Any]:
    """Return what an engine's settings mean to gates; nothing where there are none, or the name is not known."""
    told: dict[str, Any] = {}
    with suppress(ConfigError, UnknownNameError):  # whoever builds it refuses it
        settings = parse_engine(engine)
        bound, mistakes = logit_bound(settings), on_purpose(settings)
        if bound is not None:
            told["approximate"] = {"settings": list(approximations(settings)), "max_logit_error": bound}
        if mistakes:
            told["on_purpose"] = mistakes
    return told
