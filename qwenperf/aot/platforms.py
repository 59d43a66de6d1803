"""Which compilers are here, and the environment that the TPU's wants when there is no TPU. Imports no JAX."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from qwenperf.errors import EnvironmentUnfitError
from qwenperf.measure.default_platform import default_platform

VARIABLES: Mapping[str, str] = {
    # Nobody is to be asked which TPU this machine has: the answer takes a minute to stay away.
    "TPU_SKIP_MDS_QUERY": "1",
    # The library takes a lock for a TPU that only one process may have, and compiling has none.
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    # What it would have asked: without an answer it complains, with any it is content. Layouts are named anyway.
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_MIN_LOG_LEVEL": "2",
    "TPU_STDERR_LOG_LEVEL": "2",
    "TPU_LOG_DIR": "disabled",
}
"""What libtpu is told, unless somebody has told it something else."""

_OF_CUDA: Mapping[str, str] = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
"""Several processes compile at a time, and each would take most of the GPU's memory when it starts."""

_LIBRARY = "libtpu"
_CUDA_PLUGINS = ("jax_cuda13_plugin", "jax_cuda12_plugin")
_CUDA_DEVICES = "nvidia[0-9]*"
_DEV = Path("/dev")


def gpu_is_here(dev: Path = _DEV) -> bool:
    """Say whether there is an NVIDIA GPU: then programs are compiled for it, else for one that is described."""
    return any(dev.glob(_CUDA_DEVICES))


def missing_compiler(platform_name: str) -> str:
    """Say in one line why there is no compiler for a platform; nothing where there is one."""
    if platform_name == "tpu" and not _has(_LIBRARY) and "TPU_LIBRARY_PATH" not in os.environ:
        here = f"{platform.system()} on {platform.machine()}"
        where = "" if (sys.platform, platform.machine()) == ("linux", "x86_64") else f" (this is {here})"
        return f"the TPU compiler is not installed: pip install 'qwenperf[tpu]', on Linux x86-64{where}"
    if platform_name == "cuda" and not any(map(_has, _CUDA_PLUGINS)):
        return "cuda is not available because JAX's CUDA plugin is not installed: pip install 'qwenperf[cuda]'"
    return ""


def check_compiler(platform_name: str) -> None:
    """Refuse a platform that has no compiler here.

    Raises:
      EnvironmentUnfitError: says which extra has it, or what is missing.
    """
    why = missing_compiler(platform_name)
    if why:
        raise EnvironmentUnfitError(f"{why}.")


def compiler_environ(environ: Mapping[str, str], *, cuda: bool = False) -> dict[str, str]:
    """Return the environment of a process that compiles: JAX runs on the CPU, libtpu looks for no TPU.

    With ``cuda``, where there is a GPU, it runs on that, whose compiler asks what it is, and takes no memory before it
    needs it.
    """
    if cuda and gpu_is_here():
        return {**VARIABLES, **_OF_CUDA, **environ, "JAX_PLATFORMS": "cuda,cpu"}
    return {**VARIABLES, **environ, "JAX_PLATFORMS": "cpu"}


@contextmanager
def compiler_variables() -> Iterator[None]:
    """Have libtpu's variables set while it is loaded into this process, which may be anybody's.

    Where there is an accelerator nothing is set: it may be a TPU, and this process may use it.
    """
    alone = bool(default_platform({}))
    added = [name for name in VARIABLES if alone and name not in os.environ]
    os.environ.update({name: VARIABLES[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def _has(module: str) -> bool:
    return find_spec(module) is not None
