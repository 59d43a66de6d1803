"""Targets: what a program can be compiled for without being there, from a name to devices.

The number in a name counts chips: ``v7x-4`` is four chips of two devices each. A layout may be named as well
(``tpu7x:2x2x1``). Names are known without JAX; only ``devices`` asks the compiler, which knows layouts of whole hosts:
fewer chips are the first ones of the smallest host.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any

from qwenperf.aot.gpus import H100
from qwenperf.aot.platforms import check_compiler, compiler_variables, gpu_is_here
from qwenperf.errors import EnvironmentUnfitError, UsageError
from qwenperf.program.chips import chip
from qwenperf.schema.analysis import TargetRecord

PLATFORMS = ("cpu", "cuda")
"""Targets that are no TPU: one device each."""

_FLAT = {4: "2x2", 8: "2x4", 16: "4x4", 32: "4x8", 64: "8x8", 128: "8x16", 256: "16x16"}
_CUBES = {4: "2x2x1", 8: "2x2x2", 16: "2x2x4", 32: "2x4x4", 64: "4x4x4"}
_HOST = 4
"""Chips of the smallest layout that every version of the compiler takes."""

_CONFIGURATIONS = {"v4": "megacore"}
"""Two cores that programs see as one device only where the compiler is told so."""

_ALIASES = {"v5lite": "v5e", "v5litepod": "v5e", "v6": "v6e", "tpu7x": "v7x", "v7": "v7x"}
_NAME = re.compile(r"(?:tpu-)?(?P<generation>[a-z]*\d+[a-z]*)(?:-(?P<chips>\d{1,4})|:(?P<layout>\d+(?:x\d+){1,2}))")


@dataclass(frozen=True, kw_only=True)
class Generation:
    """Chips of one kind. ``prefix`` is the compiler's name of them, ``layouts`` how so many are wired."""

    name: str
    prefix: str
    layouts: Mapping[int, str]

    @property
    def axes(self) -> int:
        """How many numbers a layout has."""
        return self.layouts[_HOST].count("x") + 1


_GENERATIONS = {
    name: Generation(name=name, prefix="tpu7x" if name == "v7x" else name, layouts=layouts)
    for name, layouts in (
        ("v2", {4: "2x2", 16: "4x4"}),
        ("v3", {4: "2x2", 16: "4x4"}),
        ("v4", _CUBES),
        ("v5e", _FLAT),
        ("v5p", _CUBES),
        ("v6e", _FLAT),
        ("v7x", _CUBES),
    )
}


@dataclass(frozen=True, kw_only=True)
class Target:
    """What to compile for. ``topology`` is the compiler's name of a layout that has at least so many ``chips``."""

    name: str
    platform: str
    generation: str = ""
    topology: str = ""
    chips: int = 1


def resolve(name: str) -> Target:
    """Return the target called ``name``.

    Raises:
      UsageError: no such target; lists those that are known.
    """
    wanted = name.strip().lower()
    if wanted in PLATFORMS:
        return Target(name=wanted, platform=wanted)
    match = _NAME.fullmatch(wanted)
    generation = _GENERATIONS.get(_ALIASES.get(match["generation"], match["generation"])) if match else None
    if match is None or generation is None:
        raise _unknown(name)
    if match["layout"]:
        return _of_layout(name, generation, match["layout"])
    return _of_chips(name, generation, int(match["chips"]))


def resolve_all(names: str) -> tuple[Target, ...]:
    """Return the targets of a list with commas, each once; errors as ``resolve``."""
    found = [resolve(name) for name in names.split(",") if name.strip()]
    if not found:
        raise UsageError(f"targets {names!r}: none is named.", advice=known_advice())
    return tuple({target.name: target for target in found}.values())


def known_targets() -> tuple[str, ...]:
    """Return the names of all targets."""
    return (*(name for generation in _GENERATIONS.values() for name in _names(generation)), *PLATFORMS)


def known_advice() -> str:
    """Say which targets there are, a kind of chips at a time."""
    kinds = "; ".join(", ".join(_names(generation)) for generation in _GENERATIONS.values())
    return f"Known: {kinds}; {', '.join(PLATFORMS)}; or a layout, such as v5e:2x4 and tpu7x:2x2x1."


@cache
def devices(target: Target) -> tuple[Any, ...]:
    """Return the devices of ``target``, in the compiler's order; they can be compiled for, and run nothing.

    Raises:
      EnvironmentUnfitError: there is no compiler for it here, or the compiler does not know the layout.
    """
    import jax

    check_compiler(target.platform)
    if target.platform == "cuda" and not gpu_is_here():
        return _described_gpu()
    if target.platform != "tpu":
        return (_first_device(target.platform),)
    from jax.experimental import topologies

    try:
        with compiler_variables():
            configuration = _CONFIGURATIONS.get(target.generation)
            told = {} if configuration is None else {"chip_config_name": configuration}
            found = topologies.get_topology_desc(platform="tpu", topology_name=target.topology, **told).devices
    except (RuntimeError, ValueError, NotImplementedError, jax.errors.JaxRuntimeError) as error:
        raise EnvironmentUnfitError(
            f"the TPU compiler has no layout {target.topology!r}: {_first_line(error)}.", advice=known_advice()
        ) from error
    return tuple(_of_first_chips(found, target.chips))


def target_record(target: Target) -> TargetRecord:
    """Return what is known of ``target``, asking the compiler for its devices; errors as ``devices``."""
    count = len(devices(target))
    return described(target, count)


def described(target: Target, devices: int | None = None) -> TargetRecord:
    """Return what is known of ``target`` without asking the compiler: published figures, of one device."""
    if target.platform == "cuda" and not gpu_is_here():
        return TargetRecord(
            name=target.name,
            platform=target.platform,
            topology=H100.name,
            hbm_bytes=H100.hbm_bytes,
            hbm_bytes_per_s=H100.hbm_bytes_per_s,
            flops_per_s=H100.flops_per_s,
            extra={"described": True},
        )
    if target.platform != "tpu":
        return TargetRecord(name=target.name, platform=target.platform)
    known = chip(target.generation)
    return TargetRecord(
        name=target.name,
        platform=target.platform,
        topology=target.topology,
        generation=target.generation,
        chips=target.chips,
        devices=devices or target.chips * known.devices_per_chip,
        hbm_bytes=known.device_hbm_bytes,
        hbm_bytes_per_s=known.device_hbm_bytes_per_s,
        flops_per_s=known.device_flops_per_s,
        interconnect_bytes_per_s=known.device_interconnect_bytes_per_s,
        extra={} if known.clock_hz is None else {"clock_hz": known.clock_hz},
    )


def _of_chips(name: str, generation: Generation, chips: int) -> Target:
    layout = generation.layouts.get(max(chips, _HOST) if chips in (1, 2) else chips)
    if layout is None:
        raise _unknown(name)
    return Target(
        name=f"{generation.name}-{chips}",
        platform="tpu",
        generation=generation.name,
        topology=f"{generation.prefix}:{layout}",
        chips=chips,
    )


def _of_layout(name: str, generation: Generation, layout: str) -> Target:
    """Return the target of a layout; one that is usual for its number of chips has the name of that number."""
    sizes = [int(size) for size in layout.split("x")]
    chips = math.prod(sizes)
    if len(sizes) != generation.axes or chips < 1:
        raise _unknown(name)
    if chips in (1, 2) or generation.layouts.get(chips) == layout:
        return _of_chips(name, generation, chips)
    topology = f"{generation.prefix}:{layout}"
    return Target(
        name=f"{generation.name}:{layout}",
        platform="tpu",
        generation=generation.name,
        topology=topology,
        chips=chips,
    )


def _names(generation: Generation) -> Iterator[str]:
    yield from (f"{generation.name}-{chips}" for chips in (1, 2, *generation.layouts))


def _unknown(name: str) -> UsageError:
    close = get_close_matches(name.strip().lower(), known_targets(), n=1, cutoff=0.78)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    return UsageError(f"unknown target {name!r}.", advice=hint + known_advice())


def _of_first_chips(found: list[Any], chips: int) -> Iterator[Any]:
    """Yield the devices of the first ``chips`` chips: those of one chip have the same coordinates."""
    places = list(dict.fromkeys(tuple(device.coords) for device in found))[:chips]
    yield from (device for device in found if tuple(device.coords) in places)


def _described_gpu() -> tuple[Any, ...]:
    """Return one GPU that is not there: the plugin makes it of its description."""
    import jax
    from jax.experimental import topologies

    try:
        return tuple(
            topologies.get_topology_desc(
                platform="cuda", topology_name="", target_config=H100.description(), topology="1x1x1"
            ).devices
        )
    except (RuntimeError, ValueError, NotImplementedError, jax.errors.JaxRuntimeError) as error:
        raise EnvironmentUnfitError(
            f"cuda is not available because its plugin makes no {H100.name} where there is none: {_first_line(error)}."
        ) from error


def _first_device(platform: str) -> Any:
    import jax

    try:
        return jax.devices(platform)[0]
    except RuntimeError as error:
        raise EnvironmentUnfitError(f"{platform} is not available because {_first_line(error)}.") from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
