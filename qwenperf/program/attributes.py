"""What HLO text writes behind an instruction's operands: called computations, trip counts, windows, groups, costs.

Each function takes the text of the attributes and returns nothing, or a neutral value, where it is not there or
garbled.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from qwenperf.program.shapes import numbers

_CALLS = re.compile(r"(?:calls|to_apply)=%?(?P<name>[\w.\-]+)")
_CALLED = re.compile(
    r"\b(?:calls|to_apply|body|condition|true_computation|false_computation|scatter|select|comparator)=%?([\w.\-]+)"
)
_BRANCHES = re.compile(r"\b(?:branch_computations|called_computations|calls)=\{([^{}]*)\}")
_BODY = re.compile(r"\bbody=%?(?P<name>[\w.\-]+)")
_CONDITION = re.compile(r"\bcondition=%?(?P<name>[\w.\-]+)")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d{1,12})"')
_CYCLES = re.compile(r'"estimated_cycles":"(\d{1,20})"')
_TARGET = re.compile(r'custom_call_target="((?:[^"\\]|\\.)*)"')
_GROUPS = re.compile(r"(?:replica_groups|source_target_pairs)=\{(\{[\d, {}]*\})\}")
_MESH_GROUPS = re.compile(r"replica_groups=mesh\[(?P<sizes>[^\[\]]*)\][^{}]*\{(?P<axes>[^{}]*)\}")
_IOTA_GROUPS = re.compile(r"replica_groups=\[(\d{1,9}),(\d{1,9})\]<=")
_OP_NAME = re.compile(r'op_name="(?P<name>(?:[^"\\]|\\.)*)"')
_ALIAS = re.compile(r"\{(?P<output>[\d, ]*)\}: \((?P<parameter>\d{1,6}), \{(?P<index>[\d, ]*)\}")
_KERNEL_COST = re.compile(r'"(flops|bytes_accessed)":\s*"?(\d{1,18})"?')
_MOST_CYCLES = 10**12
"""Above some minutes of any chip: compilers write the largest integer where they do not know."""


@dataclass(frozen=True, kw_only=True)
class Dimension:
    """One axis of a convolution's window."""

    size: int
    stride: int = 1
    low: int = 0
    high: int = 0
    base_dilation: int = 1
    window_dilation: int = 1


def called(text: str) -> tuple[str, ...]:
    """Return the names of all computations that an instruction names, each once."""
    found = _CALLED.findall(text)
    for branches in _BRANCHES.findall(text):
        found += [name.strip().lstrip("%") for name in branches.split(",") if name.strip()]
    return tuple(dict.fromkeys(found))


def calls(text: str) -> str:
    """Return the computation that an instruction runs or applies, of a fusion or a reduction."""
    match = _CALLS.search(text)
    return match["name"] if match else ""


def body(text: str) -> str:
    """Return the name of a loop's body."""
    match = _BODY.search(text)
    return match["name"] if match else ""


def condition(text: str) -> str:
    """Return the name of the computation that tells whether a loop goes on."""
    match = _CONDITION.search(text)
    return match["name"] if match else ""


def branches(text: str) -> tuple[str, ...]:
    """Return the branches of a conditional, in order."""
    several = re.search(r"\bbranch_computations=\{([^{}]*)\}", text)
    if several:
        return tuple(name.strip().lstrip("%") for name in several[1].split(",") if name.strip())
    return tuple(re.findall(r"\b(?:true|false)_computation=%?([\w.\-]+)", text))


def trip_count(text: str) -> int | None:
    """Return how often a loop runs, ``None`` where the compiler does not know."""
    match = _TRIPS.search(text)
    return int(match[1]) if match else None


def cycles(text: str) -> float | None:
    """Return the compiler's estimate of an instruction's cycles, ``None`` where it has none that can be true."""
    match = _CYCLES.search(text)
    value = int(match[1]) if match else 0
    return float(value) if 0 < value < _MOST_CYCLES else None


def custom_target(text: str) -> str:
    """Return what a custom call calls."""
    match = _TARGET.search(text)
    return match[1] if match else ""


def kernel_cost(text: str) -> dict[str, float]:
    """Return what a kernel's author says that it costs: ``flops`` and ``bytes_accessed``, where told."""
    start = text.find('"cost_estimate"')
    return {name: float(value) for name, value in _KERNEL_COST.findall(text[start : start + 300])} if start >= 0 else {}


def group_size(text: str) -> int | None:
    """Return how many devices take part in one exchange; ``None`` where all do or the text does not tell."""
    iota = _IOTA_GROUPS.search(text)
    if iota:
        return int(iota[2])
    mesh = _MESH_GROUPS.search(text)
    if mesh:
        return _mesh_size(mesh["sizes"], mesh["axes"])
    groups = _GROUPS.search(text)
    if not groups or text[groups.start()] == "s":
        return 2 if groups else None
    first = groups[1].partition("}")[0]
    return len(numbers(first)) or None


def _mesh_size(sizes: str, names: str) -> int:
    """Multiply the sizes of the axes of a mesh that take part; of an axis that is divided, its part."""
    known = dict(re.findall(r"'(\w+)'=(\d{1,9})", sizes))
    taken = re.findall(r"'(\w+)'(?::\(\d+\)(\d{1,9}))?", names)
    return math.prod(int(part or known.get(name, 1)) for name, part in taken)


def op_name(text: str) -> str:
    """Return the name that JAX gave an operation."""
    match = _OP_NAME.search(text)
    return match["name"].replace("\\'", "'").replace('\\"', '"') if match else ""


def window(text: str) -> tuple[Dimension, ...]:
    """Return the axes of ``window={size=3x3 stride=2x2 pad=1_1x1_1}``; empty where there is none."""
    match = re.search(r"window=\{([^{}]*)\}", text)
    fields = dict(part.split("=", 1) for part in match[1].split() if "=" in part) if match else {}
    sizes = numbers(fields.get("size", ""))
    return tuple(_dimension(fields, index, size) for index, size in enumerate(sizes))


def _dimension(fields: dict[str, str], index: int, size: int) -> Dimension:
    def at(name: str, default: int) -> int:
        values = numbers(fields.get(name, ""))
        return values[index] if index < len(values) else default

    pads = fields.get("pad", "").split("x")
    low, _, high = (pads[index] if index < len(pads) else "").partition("_")
    return Dimension(
        size=size,
        stride=max(1, at("stride", 1)),
        low=_whole(low),
        high=_whole(high),
        base_dilation=max(1, at("lhs_dilate", 1)),
        window_dilation=max(1, at("rhs_dilate", 1)),
    )


def dim_labels(text: str) -> tuple[str, str, str] | None:
    """Return what a convolution calls the axes of its input, kernel and output: ``b0f``, ``0io`` and ``b0f``."""
    match = re.search(r"dim_labels=(\w{1,12})_(\w{1,12})->(\w{1,12})", text)
    return (match[1], match[2], match[3]) if match else None


def axes(text: str, name: str) -> tuple[int, ...]:
    """Return the axes of an attribute such as ``lhs_contracting_dims={1}``."""
    match = re.search(rf"\b{name}=\{{([\d, ]*)\}}", text)
    return numbers(match[1]) if match else ()


def channel(text: str) -> str:
    """Return the number of the channel of an exchange; empty where it has none."""
    match = re.search(r"\bchannel_id=(\d{1,9})", text)
    return match[1] if match else ""


def direction(text: str) -> str:
    """Return how a comparison compares: ``LT``."""
    match = re.search(r"\bdirection=(\w{2})\b", text)
    return match[1] if match else ""


def count_from_zero(text: str, name: str) -> int:
    """Return a number such as ``index=3``; 0 where it is not there."""
    match = re.search(rf"\b{name}=(\d{{1,9}})\b", text)
    return int(match[1]) if match else 0


def aliased(header: str) -> frozenset[int]:
    """Return the numbers of the parameters that some output is written over, from the first line of a program."""
    return frozenset(int(match["parameter"]) for match in _ALIAS.finditer(_alias_part(header)))


def _alias_part(header: str) -> str:
    """Return what is between the braces of ``input_output_alias={...}``."""
    start = header.find("input_output_alias={")
    if start < 0:
        return ""
    first = header.index("{", start)
    depth = 0
    for index in range(first, len(header)):
        depth += (header[index] == "{") - (header[index] == "}")
        if depth == 0:
            return header[first : index + 1]
    return header[first:]


def _whole(text: str) -> int:
    """Return a whole number that may be negative, as padding may; 0 for anything else."""
    match = re.fullmatch(r"-?\d{1,12}", text)
    return int(match[0]) if match else 0
