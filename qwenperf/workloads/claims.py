"""What the notes that this project began with claimed, beside which cases measure it. Data only.

Four code bases kept notes about making their decoding fast. Their ratios mix what was timed (whole scripts, compiles
and all; or steady requests) with what was estimated or counted on paper: each says here which of these it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from qwenperf.workloads.case import Case, Workload

SMALL = Workload(prompt_length=16, new_tokens=20)
GPT2 = Workload(prompt_length=4, new_tokens=15)
DEEP_50 = Workload(prompt_length=5, new_tokens=50)
DEEP_100 = Workload(prompt_length=5, new_tokens=100)
LONG = Workload(prompt_length=453, new_tokens=500)
LONG_8 = Workload(prompt_length=453, new_tokens=500, batch=8)

DEEP = "qwen2.5-0.5b"
"""24 layers of width 896 with that code base's vocabulary of 151,936: its model was Qwen2.5-0.5B."""

GPT2_INT8 = "cached+weights=int8+rows=2"


class Source(StrEnum):
    """Where a claimed number came from."""

    COLD = "cold"
    STEADY = "steady"
    ESTIMATED = "est."
    COUNTED = "counted"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claimed speed-up, from ``low`` to ``high`` times.

    Attributes:
      name: the setting, as tables call it.
      slow: id of the case that is ``requests`` times made one after another, for each one request of ``fast``.
      fast: id of the case it is compared with.
      source: how the number was had: timed with compiles or without, estimated, or counted on paper.
      said: the claim, in our words.
    """

    name: str
    slow: str
    fast: str
    low: float
    high: float
    source: Source
    said: str
    requests: int = 1


@dataclass(frozen=True, kw_only=True)
class SizeClaim:
    """A claimed size in bytes; of a cache for ``positions`` positions, 0 where the size has nothing to do with them."""

    name: str
    case: str
    metric: str
    claimed_bytes: float
    said: str
    positions: int = 0


@dataclass(frozen=True, kw_only=True)
class FlatClaim:
    """A claim that a token takes as long at the end of a request as at its start; ``case`` is measured step by step."""

    name: str
    case: str
    said: str


def _id(model: str, engine: str, workload: Workload) -> str:
    return Case(model=model, engine=engine, workload=workload).id


def _pair(model: str, workload: Workload, slow: str = "naive") -> tuple[str, str]:
    """Return the ids of the slow case and of ``cached``."""
    return _id(model, slow, workload), _id(model, "cached", workload)


def _claim(name: str, cases: tuple[str, str], claimed: tuple[float, float], source: Source, said: str) -> Claim:
    slow, fast = cases
    low, high = claimed
    return Claim(name=name, slow=slow, fast=fast, low=low, high=high, source=source, said=said)


_SMALL, _GPT2, _DEEP_50 = _pair("4x128", SMALL), _pair("gpt2", GPT2), _pair(DEEP, DEEP_50)
_DEEP_100, _LONG = _pair(DEEP, DEEP_100), _pair(DEEP, LONG)

CLAIMS = (
    _claim("4x128 x 20", _SMALL, (3.98, 3.98), Source.COLD,
           "51.1 s became 12.8 s for 20 tokens, compiles in both"),
    _claim("GPT-2 x 15", _pair("gpt2", GPT2, "eager"), (16.32, 16.32), Source.STEADY,
           "1.50 tokens/s without cache and jit became 24.45; a warm-up of 5 tokens had shown 2.44 times"),
    _claim("GPT-2 x 15", _GPT2, (10, 13), Source.ESTIMATED, "the share of the cache alone in these 16 times"),
    _claim("GPT-2 x 15", _GPT2, (8, 8), Source.COUNTED, "120 attention computations became 15"),
    _claim("GPT-2 x 15, int8", (_GPT2[1], _id("gpt2", GPT2_INT8, GPT2)), (1.5, 2), Source.ESTIMATED,
           "quantisation would add 50 to 100%, said of another of these models"),
    _claim("24x896 x 50", _DEEP_50, (8, 10), Source.ESTIMATED, "10 to 15 minutes would become 1 to 2"),
    _claim("24x896 x 50", _DEEP_50, (25, 25), Source.COUNTED, "1,275 passes through a layer become 50"),
    _claim("24x896 x 100", _DEEP_100, (10, 15), Source.ESTIMATED, "30 to 40 minutes would become 3 to 5"),
    _claim("0.5B, 453 + 500", _LONG, (50, 100), Source.ESTIMATED, "13 minutes a sample would become 5 to 10 s"),
    _claim("0.5B, 453 + 500", _LONG, (350, 350), Source.COUNTED,
           "250 million operations become 700 thousand: squares of the lengths summed against lengths"),
    _claim("0.5B, padded", (_LONG[0], _id(DEEP, "padded", LONG)), (2, 3), Source.ESTIMATED,
           "one length for all sequences, and no cache, would give 2 to 3 times"),
    Claim(
        name="0.5B, 8 samples", slow=_id(DEEP, "naive", LONG), fast=_id(DEEP, "cached", LONG_8), requests=8, low=50,
        high=100, source=Source.ESTIMATED,
        said="1 hour 43 minutes, one sample after another, would become 1 to 2 minutes",
    ),
)  # fmt: skip

SIZE_CLAIMS = (
    SizeClaim(
        name="GPT-2, int8 weights", case=_id("gpt2", GPT2_INT8, GPT2), metric="weight_bytes", claimed_bytes=163e6,
        said="a model of int8 matrices takes 163 MB",
    ),
    SizeClaim(
        name="GPT-2, cache", case=_id("gpt2", "cached", GPT2), metric="kv_cache_allocated_bytes", claimed_bytes=38e6,
        positions=1024, said="a cache of 1,024 positions takes 38 MB: f32 keys or values, not both",
    ),
)  # fmt: skip

FLAT_CLAIMS = (
    FlatClaim(
        name="0.5B, 453 + 500", case=_id(DEEP, "cached", LONG),
        said="time in proportion to the new tokens: the last one takes as long as the first",
    ),
)  # fmt: skip
