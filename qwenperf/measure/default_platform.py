"""Which JAX platform to ask for when nobody said: decided from device files, before JAX is imported.

With libtpu installed and no TPU, probing for one waits for a machine that is not there and prints warnings; nobody
should sit through that to time a CPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

VARIABLE = "JAX_PLATFORMS"
_DEVICE_FILES = ("nvidia[0-9]*", "accel[0-9]*", "accel/accel[0-9]*", "vfio/[0-9]*", "kfd", "dxg")
"""``dxg`` is what a GPU is in the Windows Subsystem for Linux, which has no file of NVIDIA's."""


def default_platform(environ: Mapping[str, str], dev: Path = Path("/dev")) -> dict[str, str]:
    """Return the variables to set: the CPU platform where there is no accelerator's device file and none was chosen."""
    if VARIABLE in environ or any(any(dev.glob(pattern)) for pattern in _DEVICE_FILES):
        return {}
    return {VARIABLE: "cpu"}
