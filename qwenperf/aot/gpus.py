"""A GPU that need not be there: what XLA's compiler for GPUs wants to know of one, and what its maker publishes of it.

Imports no JAX. The compiler takes the first description that it gets for the truth: nothing of it is measured here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_FIELDS = """gpu_device_info {{
{info}
  cuda_compute_capability {{ major: {major} minor: {minor} }}
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 8 }}
runtime_version {{ major: 12 minor: 8 }}
device_description_str: "{name}"
"""


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One GPU. ``info`` are fields of XLA's ``GpuDeviceInfoProto``; ``sources`` say where figures are from."""

    name: str
    capability: tuple[int, int]
    info: Mapping[str, int | float]
    hbm_bytes_per_s: float
    flops_per_s: Mapping[str, float]
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def hbm_bytes(self) -> int:
        """Bytes of memory that a program may have."""
        return int(self.info["device_memory_size"])

    def description(self) -> str:
        """Return the text that the compiler reads: a ``GpuTargetConfigProto``."""
        info = "\n".join(f"  {name}: {value}" for name, value in self.info.items())
        major, minor = self.capability
        return _FIELDS.format(info=info, major=major, minor=minor, name=self.name)


H100 = Gpu(
    name="NVIDIA H100 80GB HBM3",
    capability=(9, 0),
    info={
        "threads_per_block_limit": 1024,
        "threads_per_warp": 32,
        "shared_memory_per_block": 49152,
        "shared_memory_per_core": 233472,
        "threads_per_core_limit": 2048,
        "core_count": 132,
        "fpus_per_core": 128,
        "block_dim_limit_x": 2147483647,
        "block_dim_limit_y": 65535,
        "block_dim_limit_z": 65535,
        "memory_bandwidth": 3352320000000,
        "l2_cache_size": 52428800,
        "clock_rate_ghz": 1.98,
        "device_memory_size": 84929347584,
        "shared_memory_per_block_optin": 232448,
        "registers_per_core_limit": 65536,
        "registers_per_block_limit": 65536,
    },
    hbm_bytes_per_s=3.35e12,
    flops_per_s={"bf16": 989e12, "int8": 1979e12, "fp8": 1979e12},
    sources={
        "info": "https://github.com/openxla/xla (specifications of GPUs to compile for), h100_sxm",
        "hbm_bytes_per_s": "https://www.nvidia.com/en-us/data-center/h100/ H100 SXM",
        "flops_per_s": "https://www.nvidia.com/en-us/data-center/h100/ H100 SXM: half of what it says with sparsity",
    },
)
"""What `cuda` stands for where there is no GPU."""
