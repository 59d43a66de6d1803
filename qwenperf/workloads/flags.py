"""Named sets of XLA flags, as data: what they are for, where, and who recommends them.

XLA reads its flags once, when JAX starts: they belong to a process. An unknown flag ends it. Whether a set helps is
for a measurement to say; flags come and go with versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

XLA_FLAGS = "XLA_FLAGS"
LIBTPU_INIT_ARGS = "LIBTPU_INIT_ARGS"


@dataclass(frozen=True, kw_only=True)
class FlagSet:
    """Flags that are set together.

    Attributes:
      name: the value of the engine setting ``xla_flags``.
      flags: as they are written in the variable.
      platforms: where they mean something, as ``jax.default_backend()`` says it; empty: everywhere.
      about: what they do.
      source: who describes or recommends them.
      variable: what they are read from. XLA's own parser ends the process at a flag of the TPU compiler.
    """

    name: str
    flags: tuple[str, ...]
    platforms: tuple[str, ...]
    about: str
    source: str
    variable: str = XLA_FLAGS


_ALL = (
    FlagSet(name="none", flags=(), platforms=(), about="no flags but those of the environment", source=""),
    FlagSet(
        name="cpu-no-fast-math",
        flags=("--xla_cpu_enable_fast_math=false", "--xla_cpu_enable_fast_min_max=false"),
        platforms=("cpu",),
        about="arithmetic as IEEE 754 has it, NaN in minima and maxima included",
        source="xla/debug_options_flags.cc",
    ),
    FlagSet(
        name="cpu-single-thread",
        flags=("--xla_cpu_multi_thread_eigen=false",),
        platforms=("cpu",),
        about="products and convolutions on the calling thread alone",
        source="xla/debug_options_flags.cc",
    ),
    FlagSet(
        name="gpu-latency-hiding",
        flags=("--xla_gpu_enable_latency_hiding_scheduler=true",),
        platforms=("gpu",),
        about="collectives moved so that they overlap with computing; of use with several devices",
        source="https://docs.jax.dev/en/latest/gpu_performance_tips.html",
    ),
    FlagSet(
        name="gpu-triton-gemm",
        flags=("--xla_gpu_triton_gemm_any=true",),
        platforms=("gpu",),
        about="Triton's matrix products wherever it has them",
        source="https://docs.jax.dev/en/latest/gpu_performance_tips.html",
    ),
    FlagSet(
        name="tpu-async-collectives",
        flags=(
            "--xla_enable_async_all_gather=true",
            "--xla_tpu_enable_async_collective_fusion=true",
            "--xla_tpu_enable_async_collective_fusion_fuse_all_gather=true",
        ),
        platforms=("tpu",),
        about="all-gathers that overlap with computing; of use with several devices",
        source="https://openxla.org/xla/flags_guidance",
        variable=LIBTPU_INIT_ARGS,
    ),
)

FLAG_SETS: Mapping[str, FlagSet] = {flags.name: flags for flags in _ALL}


def with_flags(environ: Mapping[str, str], name: str) -> dict[str, str]:
    """Return ``environ`` with the flags of set ``name`` after those that it has: the last of a flag counts."""
    chosen = FLAG_SETS[name]
    if not chosen.flags:
        return dict(environ)
    return {**environ, chosen.variable: " ".join((*environ.get(chosen.variable, "").split(), *chosen.flags))}


def missing_flags(environ: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Return the flags of set ``name`` that ``environ`` does not have."""
    chosen = FLAG_SETS[name]
    there = environ.get(chosen.variable, "").split()
    return tuple(flag for flag in chosen.flags if flag not in there)
