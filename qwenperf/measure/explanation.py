"""JAX's own words about a compile, read into causes: cache-miss explanations and refused calls.

Works on text alone. What JAX does not say in a form known here gives no cause, never a guess.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from qwenperf.schema.records import CompileCause

_MISS = "TRACING CACHE MISS at "
_SEEN = re.compile(r"^\s*for (?P<name>.+?)(?: defined at (?P<where>\S+))?$", re.MULTILINE)
_NEW = re.compile(r"never seen function:\n\s*(?P<name>.+?) id=\d+(?: defined at (?P<where>\S+))?")
_AT_INPUT = re.compile(r"^\s*\* at (?P<path>.+?), now (?P<now>.+?) and before (?P<before>.+)$", re.MULTILINE)
_IN_TREE = re.compile(r"^input path \[(?P<side>[01])\](?P<rest>.*)$")
_STATIC = re.compile(r"Static\(val=(?P<value>.*?)\)(?:, so .*)?$")
_TYPE = re.compile(r"^(?P<dtype>[a-z0-9_<>]+)\[(?P<shape>[^\]]*)\](?P<rest>.*)$")
_REFUSED = re.compile(r"Argument '(?P<path>.+)' compiled with (?P<before>\S+) and called with (?P<now>\S+)")
_REFUSED_TREE = re.compile(
    r"\* at (?P<path>args\S*|kwargs\S*), seen (?P<before>.+?) but now given (?P<now>.+?)(?:, so|$)"
)
_REFUSED_SHARDING = re.compile(
    r"Argument (?P<path>\S+) with shape \S+:\n\s*Passed sharding: (?P<now>.+)\n\s*Required sharding: (?P<before>.+)"
)
_SHORT = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c", "bool": "bool", "pred": "bool"}


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Why JAX traced ``function`` again; ``causes`` is empty where its text names no argument."""

    function: str
    text: str
    causes: tuple[CompileCause, ...] = ()


def read_explanation(message: str) -> Explanation | None:
    """Read a log message of ``jax_explain_cache_misses``; ``None`` for any other message."""
    if not message.startswith(_MISS):
        return None
    new = _NEW.search(message)
    if new:
        after = f"defined at {new['where']}" if new["where"] else ""
        cause = CompileCause(argument="", what="new", before="never seen", after=after)
        return Explanation(function=new["name"], text=message, causes=(cause,))
    seen = _SEEN.search(message)
    causes = tuple(cause for match in _AT_INPUT.finditer(message) for cause in _input_causes(match))
    return Explanation(function=seen["name"] if seen else "", text=message, causes=causes)


def _input_causes(match: re.Match[str]) -> tuple[CompileCause, ...]:
    before, now = match["before"], match["now"]
    if not match["path"].startswith("input path"):
        return type_causes(match["path"], before, now)
    path = _tree_path(match["path"])
    static_before, static_now = _STATIC.search(before), _STATIC.search(now)
    if static_before and static_now:
        return (_cause(path, "static", static_before["value"], static_now["value"]),)
    return (_cause(path, "structure", before.split(", so ")[0], now.split(", so ")[0]),)


def _tree_path(path: str) -> str:
    match = _IN_TREE.match(path)
    if not match:
        return path
    return ("args", "kwargs")[int(match["side"])] + match["rest"]


def type_causes(argument: str, before: str, now: str) -> tuple[CompileCause, ...]:
    """Compare two array types as JAX writes them (``f32[4]({}){weak_type=True}``): one cause a difference."""
    old, new = _TYPE.match(before.strip()), _TYPE.match(now.strip())
    if not old or not new:
        return (_cause(argument, "type", before, now),)
    old_dtype, new_dtype = _short(old["dtype"]), _short(new["dtype"])
    causes = []
    if _sizes(old["shape"]) != _sizes(new["shape"]):
        causes.append(_cause(argument, "shape", f"{old_dtype}[{old['shape']}]", f"{new_dtype}[{new['shape']}]"))
    if old_dtype != new_dtype:
        causes.append(_cause(argument, "dtype", old_dtype, new_dtype))
    weak = ["weak_type=True" in side["rest"] for side in (old, new)]
    if weak[0] != weak[1]:
        causes.append(_cause(argument, "weak_type", str(weak[0]), str(weak[1])))
    return tuple(causes) or (_cause(argument, "sharding", before, now),)


def _sizes(shape: str) -> str:
    """Leave out the mesh axes that explicit sharding writes behind a size: ``8@x,4`` -> ``8,4``."""
    return re.sub(r"@(\w+|\([^)]*\))", "", shape)


def _short(dtype: str) -> str:
    """Write ``float32`` as ``f32``, the way HLO and jaxprs do."""
    match = re.fullmatch(r"([a-z]+?)(\d+)", dtype)
    if match and match[1] in _SHORT:
        return _SHORT[match[1]] + match[2]
    return dtype


def _cause(argument: str, what: str, before: str, after: str) -> CompileCause:
    return CompileCause(argument=argument, what=what, before=before, after=after)


def read_refusal(message: str) -> tuple[CompileCause, ...]:
    """Read what an ahead-of-time executable says when it refuses a call; empty for any other message."""
    causes = [
        cause
        for match in _REFUSED.finditer(message)
        for cause in type_causes(match["path"], match["before"], match["now"])
    ]
    causes += [
        _cause(match["path"], "sharding", match["before"], match["now"])
        for match in _REFUSED_SHARDING.finditer(message)
    ]
    if "input pytree does not match" in message:
        causes += [
            _cause(match["path"], "structure", match["before"], match["now"])
            for match in map(_REFUSED_TREE.search, message.splitlines())
            if match
        ]
    return tuple(causes)
