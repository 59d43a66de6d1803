"""This machine as ASV should know it: by what stays the same on the next runner of its kind.

ASV's own description has the host's name, the kernel's build and the bytes of memory: each runner that is made for one
job would be a machine of its own, and every series would have one point.
"""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_GIB = 2**30


def stable_fields(cpuinfo: Path = _CPUINFO) -> dict[str, str]:
    """Return ASV's fields of a machine, with a name made of the others."""
    cores, memory = os.cpu_count() or 1, _memory_gib()
    fields = {
        "os": platform.system(),
        "arch": platform.machine(),
        "cpu": _cpu(cpuinfo),
        "num_cpu": str(cores),
        "ram": f"{memory}GiB",
    }
    words = f"{fields['os']}-{fields['arch']}-{fields['cpu']}-{cores}cpu-{fields['ram']}".lower()
    return {"machine": re.sub(r"[^a-z0-9.]+", "-", words).strip("-"), **fields}


def register(name: str = "") -> str:
    """Write this machine into ASV's own list (``~/.asv-machine.json``), under ``name`` or its own, and return that."""
    from asv.machine import MachineCollection  # type: ignore[import-untyped]  # only where ASV is

    fields = stable_fields()
    fields["machine"] = name or fields["machine"]
    MachineCollection.save(fields["machine"], fields)
    return fields["machine"]


def _cpu(cpuinfo: Path) -> str:
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    match = re.search(r"^(?:model name|Model|Processor)\s*:\s*(.+)$", text, re.MULTILINE)
    name = match[1] if match else platform.processor() or platform.machine()
    return re.sub(r"\s+", " ", re.sub(r"\((?:R|TM)\)", "", name, flags=re.IGNORECASE)).strip()


def _memory_gib() -> int:
    """Return the memory to the nearest GiB: what the kernel keeps for itself differs from boot to boot."""
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIB)
    except (OSError, ValueError):
        return 0
