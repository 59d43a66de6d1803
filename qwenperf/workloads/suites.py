"""Suites: named lists of cases. Data only; nothing here imports JAX."""

from __future__ import annotations

from dataclasses import dataclass, replace

from qwenperf.errors import UnknownNameError
from qwenperf.workloads import claims
from qwenperf.workloads.case import ENGINES, Case, Workload
from qwenperf.workloads.ladder import PLATFORMS, ladder_cases


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A named list of cases. ``about`` says in one line what it answers and about how long it takes.

    Those times are what a suite is held to on 2 quiet cores; a run prints what it took.
    """

    name: str
    about: str
    cases: tuple[Case, ...]


def ladder(model: str, workload: Workload, *, engines: tuple[str, ...] = ENGINES, **case: float) -> tuple[Case, ...]:
    """Return one case an engine, slowest first, all of one model and workload."""
    return tuple(Case(model=model, engine=engine, workload=workload, **case) for engine in engines)  # type: ignore[arg-type]


# Every new token is a compile more for the rungs whose shape grows: fewer of them where an answer must come soon.
_QUICK = Workload(prompt_length=16, new_tokens=12)
_SMOKE = Workload(prompt_length=16, new_tokens=16)
_SMALL = Workload(prompt_length=16, new_tokens=20)
_GPT2 = Workload(prompt_length=8, new_tokens=15)
# Longer than a chunk, a bucket or a block of keys, so that all of them have something to do.
_LADDER = Workload(prompt_length=100, new_tokens=28)
_LADDER_BF16 = replace(_LADDER, dtype="bf16")
_REAL = Workload(prompt_length=32, new_tokens=32)

# Two timed requests each: the least there is. The long ones take minutes apiece, and what they are compared with hours.
_FEW = {"trials": 2, "time_limit_s": 1800.0}
_FEWEST = {**_FEW, "requests_only": True}
_PAIR = ("naive", "cached")

_SEEDS = (
    *ladder("4x128", claims.SMALL, engines=_PAIR),
    *ladder("gpt2", claims.GPT2, engines=("eager", *_PAIR, claims.GPT2_INT8), trials=3, time_limit_s=600.0),
    # 50 programs of 24 layers to compile: minutes, but no hours.
    *ladder(claims.DEEP, claims.DEEP_50, engines=("naive",), **_FEWEST),
    *ladder(claims.DEEP, claims.DEEP_50, engines=("cached",), **_FEW),
    *ladder(claims.DEEP, claims.DEEP_100, engines=("naive",), measured_tokens=6, **_FEWEST),
    *ladder(claims.DEEP, claims.DEEP_100, engines=("cached",), **_FEW),
    # Hours: up to 5 s a token, and a compile for each.
    *ladder(claims.DEEP, claims.LONG, engines=("naive", "padded"), measured_tokens=2, **_FEWEST),
    *ladder(claims.DEEP, claims.LONG, engines=("cached",), **_FEW),
    # 2 to 3 minutes a request.
    *ladder(claims.DEEP, claims.LONG_8, engines=("cached",), **{**_FEWEST, "time_limit_s": 3600.0}),
)

SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite(
            name="quick",
            about="the speed-up of a KV cache on a small model, 30 s",
            cases=ladder("4x128", _QUICK, engines=("naive", "cached"), trials=5),
        ),
        Suite(
            name="smoke",
            about="every rung on a small model, then the real SmolLM2 weights, 3 minutes",
            cases=(*ladder("4x128", _SMOKE), *ladder("smollm2-135m", _REAL, engines=("cached",), trials=3)),
        ),
        Suite(
            name="4x128",
            about="every rung on a small model, 20 tokens",
            cases=ladder("4x128", _SMALL),
        ),
        Suite(
            name="gpt2",
            about="every rung at GPT-2 size, 15 tokens",
            cases=ladder("gpt2-size", _GPT2, time_limit_s=600.0),
        ),
        Suite(
            name="smollm2",
            about="every rung on the real SmolLM2 weights",
            cases=ladder("smollm2-135m", _REAL, time_limit_s=900.0),
        ),
        Suite(
            name="ladder",
            about="each value of each setting, alone and together, on a small model, 10 minutes",
            cases=ladder_cases("4x128", _LADDER, PLATFORMS["ladder"], trials=5),
        ),
        Suite(
            name="ladder-gpt2",
            about="the same at GPT-2 size, an hour",
            cases=ladder_cases("gpt2-size", _LADDER, PLATFORMS["ladder-gpt2"], trials=3, time_limit_s=900.0),
        ),
        Suite(
            name="ladder-gpu",
            about="the same for a GPU, at 0.5B in bf16",
            cases=ladder_cases("qwen2.5-0.5b", _LADDER_BF16, PLATFORMS["ladder-gpu"], time_limit_s=900.0),
        ),
        Suite(
            name="ladder-tpu",
            about="the same for a TPU, at 0.5B in bf16",
            cases=ladder_cases("qwen2.5-0.5b", _LADDER_BF16, PLATFORMS["ladder-tpu"], time_limit_s=900.0),
        ),
        Suite(
            name="seeds",
            about="what notes on such code claimed, beside what is so; 40 minutes, 8 GB of memory",
            cases=_SEEDS,
        ),
    )
}


def find_suite(name: str) -> Suite:
    """Return the suite called ``name``.

    Raises:
      UnknownNameError: no such suite; offers the nearest name.
    """
    try:
        return SUITES[name]
    except KeyError:
        raise UnknownNameError("suite", name, SUITES) from None
