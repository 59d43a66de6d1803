"""Rotary positions in ``config.json``: ``rope_theta`` and ``rope_scaling``, or transformers 5's ``rope_parameters``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qwenperf.errors import ConfigError
from qwenperf.models.rope_scaling import RopeScaling, attention_factor

_ANY = {"rope_type", "type", "rope_theta"}
_LLAMA3 = ("factor", "low_freq_factor", "high_freq_factor")
_YARN = {"factor", "attention_factor", "mscale", "mscale_all_dim", "beta_fast", "beta_slow", "truncate"}
# What each type must name, and may.
_REQUIRED: dict[str, tuple[str, ...]] = {"default": (), "linear": ("factor",), "llama3": _LLAMA3, "yarn": ("factor",)}
_ALLOWED: dict[str, set[str]] = {
    "default": set(),
    "linear": {"factor"},
    "llama3": {*_LLAMA3, "original_max_position_embeddings"},
    "yarn": {*_YARN, "original_max_position_embeddings"},
}
_SPELLINGS = ("rope_scaling", "rope_parameters")


def rope_problem(data: Mapping[str, Any]) -> str:
    """Return what is asked for and not done, or an empty string."""
    for name in _SPELLINGS:
        rope = data.get(name)
        problem = "" if rope is None else _problem(name, rope)
        if problem:
            return problem
    stretched = [dict(data[name]) for name in _SPELLINGS if data.get(name) and _kind(data[name]) != "default"]
    if len(stretched) > 1 and RopeScaling(**_values(stretched[0], 1)) != RopeScaling(**_values(stretched[1], 1)):
        return f"rope_scaling and rope_parameters differ: {stretched[0]}, {stretched[1]}."
    return ""


def rope_fields(data: Mapping[str, Any], longest: Any) -> dict[str, Any]:
    """Return ``rope_theta`` and ``rope_scaling`` of a configuration without problems.

    Args:
      data: the content of ``config.json``.
      longest: its ``max_position_embeddings``, the original length where none is named.

    Raises:
      ConfigError: two values of theta, or numbers that no formula can use.
    """
    scaling = None
    for name in _SPELLINGS:
        rope = data.get(name)
        if rope and _kind(rope) != "default":
            scaling = RopeScaling(**_values(rope, longest))
    return {"rope_theta": _rope_theta(data), "rope_scaling": scaling}


def _problem(name: str, rope: Any) -> str:
    if not isinstance(rope, Mapping):
        return f"{name} is {_brief(rope)}, which is not an object."
    kinds = sorted({str(rope[key]) for key in ("rope_type", "type") if rope.get(key) is not None})
    if name == "rope_scaling" and rope and not kinds:
        return f"{name} {_brief(dict(rope))} has no rope_type; {_known()} are supported."
    if len(kinds) > 1 or set(kinds) - set(_ALLOWED):
        return f"{name} of type {', '.join(map(repr, kinds))} is not supported; {_known()} are."
    kind = _kind(rope)
    lost = [key for key in _REQUIRED[kind] if rope.get(key) is None]
    if lost:
        return f"{name} of type {kind!r} has no {lost[0]}."
    rest = {key for key in set(rope) - _ANY - _ALLOWED[kind] if rope[key] is not None}
    if rope.get("partial_rotary_factor") == 1:
        rest -= {"partial_rotary_factor"}
    return f"{name} has {', '.join(sorted(map(str, rest)))}, which is not supported." if rest else ""


def _kind(rope: Mapping[str, Any]) -> str:
    return str(rope.get("rope_type") or rope.get("type") or "default")


def _values(rope: Mapping[str, Any], longest: Any) -> dict[str, Any]:
    kind = _kind(rope)
    given = {key: rope[key] for key in _ALLOWED[kind] if rope.get(key) is not None}
    mscale, mscale_all_dim = given.pop("mscale", None), given.pop("mscale_all_dim", None)
    if kind == "yarn" and "attention_factor" not in given:
        numbers = [value for value in (given["factor"], mscale, mscale_all_dim) if value is not None]
        if any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in numbers):
            raise ConfigError(f"rope scaling yarn: factor, mscale and mscale_all_dim are {numbers}, not all numbers.")
        given["attention_factor"] = attention_factor(given["factor"], mscale, mscale_all_dim)
    if kind != "linear":
        given.setdefault("original_max_position_embeddings", longest)
    return {"rope_type": kind, **given}


def _rope_theta(data: Mapping[str, Any]) -> Any:
    given = [data["rope_theta"]] if data.get("rope_theta") is not None else []
    for name in _SPELLINGS:
        theta = (data.get(name) or {}).get("rope_theta")
        given += [theta] if theta is not None else []
    if len(set(given)) > 1:
        raise ConfigError(f"rope_theta is given more than once, with different values: {given}.")
    return given[0] if given else 10000.0


def _known() -> str:
    return ", ".join(map(repr, _ALLOWED))


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
