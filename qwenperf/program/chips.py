"""Published peaks of the chips that programs are compiled for, each figure with its source.

The figures are of a chip; what a program sees as a device may be a part of it, and ``Chip`` gives a device's share.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from qwenperf.errors import UnknownNameError


@dataclass(frozen=True, kw_only=True)
class Chip:
    """One generation of chips. Figures are of a whole chip; ``interconnect_bytes_per_s`` is the sum of both directions.

    ``sources`` says for each figure where it was published; ``None`` stands for what was not.
    ``usable_bytes`` of one device is what the compiler lets a program have of its memory.
    """

    generation: str
    name: str
    devices_per_chip: int
    hbm_bytes: int
    hbm_bytes_per_s: float
    flops_per_s: Mapping[str, float]
    interconnect_bytes_per_s: float | None
    clock_hz: float | None
    usable_bytes: int
    sources: Mapping[str, str]
    aliases: tuple[str, ...] = ()

    @property
    def device_hbm_bytes(self) -> int:
        """Bytes of memory of one device."""
        return self.hbm_bytes // self.devices_per_chip

    @property
    def device_hbm_bytes_per_s(self) -> float:
        """Bytes a second that one device reads from its memory at best."""
        return self.hbm_bytes_per_s / self.devices_per_chip

    @property
    def device_flops_per_s(self) -> dict[str, float]:
        """Operations a second that one device does at best, by dtype."""
        return {dtype: flops / self.devices_per_chip for dtype, flops in self.flops_per_s.items()}

    @property
    def device_interconnect_bytes_per_s(self) -> float | None:
        """Bytes a second between one device and its neighbours, both directions; ``None`` where not published."""
        whole = self.interconnect_bytes_per_s
        return None if whole is None else whole / self.devices_per_chip


def chip(generation: str) -> Chip:
    """Return the chip of a generation: ``v5e``, ``v7x`` or an alias of it such as ``tpu7x``.

    Raises:
        UnknownNameError: There is no such generation; names the known ones.
    """
    wanted = generation.lower()
    for one in _chips().values():
        if wanted == one.generation or wanted in one.aliases:
            return one
    raise UnknownNameError("chip generation", generation, known())


def known() -> tuple[str, ...]:
    """Return the generations in the order of their appearance."""
    return tuple(_chips())


@cache
def _chips() -> Mapping[str, Chip]:
    text = resources.files("qwenperf.program").joinpath("chips.toml").read_text(encoding="utf-8")
    return {generation: _chip(generation, table) for generation, table in tomllib.loads(text).items()}


def _chip(generation: str, table: Mapping[str, Any]) -> Chip:
    return Chip(
        generation=generation,
        name=table["name"],
        devices_per_chip=table["devices_per_chip"],
        hbm_bytes=table["hbm_bytes"],
        hbm_bytes_per_s=table["hbm_bytes_per_s"],
        flops_per_s=table["flops_per_s"],
        interconnect_bytes_per_s=table.get("interconnect_bytes_per_s"),
        clock_hz=table.get("clock_hz"),
        usable_bytes=table["usable_bytes"],
        sources=table["sources"],
        aliases=tuple(table.get("aliases", ())),
    )
