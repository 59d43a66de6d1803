"""Records of programs that were compiled before, in the user's cache: the same program is not compiled twice.

A record is found by all that can change it: the program as it is given to the compiler; the target; versions; variables
that compilers read; the machine, where it is the one that is compiled for; and all of our own code, which has the lines
that a record names and analyses what a compiler made. (Lines are no part of the text: a function that two programs
share has those of whichever was traced first.) A file that cannot be read is none.

A second name, kept in the folder ``asked``, is of the question alone: case, model, target, and all that decides what is
traced. Who asks a question again gets its record without tracing anything.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import platform
import tempfile
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import qwenperf
from qwenperf.errors import RecordError
from qwenperf.schema.analysis import AotCase, TargetRecord
from qwenperf.schema.codec import aot_case_from_json, to_json
from qwenperf.settings import cache_folder

_PREFIXES = ("JAX_", "XLA_", "LIBTPU_", "TPU_")
"""Variables that begin so may change what is traced, or what is made of it, as ``JAX_OPTIMIZATION_LEVEL`` does."""

_PACKAGES = ("jax", "jaxlib", "libtpu", "jax-cuda12-pjrt", "jax-cuda13-pjrt")
"""What holds a compiler."""
_TRACING = (*_PACKAGES, "numpy", "ml_dtypes", "flax")
_ASKED = "asked"
_CODE = (".py", ".toml")
_OF_THE_MACHINE = ("cpu_model", "machine", "isa", "cores", "device_kind")
"""What a compiler for the machine that it runs on sees of it."""

_KEPT_S = 30 * 24 * 3600
"""Seconds for which a record that nobody asks for is kept."""


def folder() -> Path:
    """Return where records are kept, below everything else that is."""
    return cache_folder(os.environ) / "aot"


def key(
    text: str,
    target: TargetRecord,
    *told: Any,
    environ: Mapping[str, str] = os.environ,
    machine: Mapping[str, Any] | None = None,
) -> str:
    """Return the name of the record of a lowered program; ``told`` is what the text does not show.

    ``machine`` is what ``environment.describe`` tells of the one that is compiled for, by default this one; a TPU's
    compiler gives the same on any.
    """
    parts = {
        "target": to_plain(target),
        "told": told,
        "versions": {name: _version(name) for name in _PACKAGES},
        "variables": _variables(environ),
        "code": code_digest(),
        "machine": {}
        if target.platform == "tpu"
        else {name: (machine or here()).get(name) for name in _OF_THE_MACHINE},
    }
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode())
    digest.update(text.encode())
    return digest.hexdigest()


def asked_key(target: TargetRecord, *told: Any, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the name of the record of a question, which ``told`` is; ``None`` where that does not tell the program.

    Only a TPU's, for another compiler has to be asked what machine it is for. And not where the code of JAX may change
    under its version.
    """
    if target.platform != "tpu" or any(map(_is_editable, _TRACING)):
        return None
    parts = {
        "target": to_plain(target),
        "told": told,
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in _TRACING},
        "variables": _variables(environ),
        "code": code_digest(),
    }
    return f"{_ASKED}/{hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()}"


def to_plain(target: TargetRecord) -> dict[str, Any]:
    """Return what of a target a compiler and an estimate see."""
    return {name: str(value) for name, value in vars(target).items()}


def read(place: Path, name: str) -> AotCase | None:
    """Return the record of that name; ``None`` where there is none that can be read."""
    file = place / f"{name}.json.gz"
    try:
        data = json.loads(gzip.decompress(file.read_bytes()))
        case = aot_case_from_json(data, str(file))
    except (OSError, EOFError, zlib.error, ValueError, RecordError):
        return None
    with suppress(OSError):
        os.utime(file)
    return case


def write(place: Path, name: str, case: AotCase) -> None:
    """Keep a record, whole or not at all; a place that cannot be written to keeps none."""
    packed = gzip.compress(json.dumps(to_json(case)).encode(), mtime=0)
    target = place / f"{name}.json.gz"
    with suppress(OSError):
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=".record-")
        with os.fdopen(descriptor, "wb") as file:
            file.write(packed)
        Path(temporary).replace(target)


def is_kept(place: Path) -> bool:
    """Say whether a record that is written to ``place`` is there afterwards."""
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            return True
    except OSError:
        return False


def forget_old(place: Path, now: float | None = None) -> None:
    """Remove records that nobody has asked for in a month."""
    oldest = (time.time() if now is None else now) - _KEPT_S
    found: list[Path] = []
    with suppress(OSError):  # a folder that another process removes ends the walk, and not what was found
        found.extend(place.rglob("*.json.gz"))
    for file in found:
        with suppress(OSError):  # another process removes it too, or it is not ours to remove: the others are
            if file.stat().st_mtime < oldest:
                file.unlink()


@cache
def here() -> Mapping[str, Any]:
    """Describe this machine and its device; starts JAX, which who only removes old records does without."""
    from qwenperf.measure import environment

    return environment.describe()


@cache
def code_digest(root: Path = Path(qwenperf.__file__).parent) -> str:
    """Return a digest of the package in ``root``: what one room makes of a program another one may tell it."""
    digest = hashlib.sha256()
    for file in sorted(file for file in root.rglob("*") if file.suffix in _CODE):
        digest.update(f"{file.relative_to(root)}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()


@cache
def _is_editable(package: str) -> bool:
    """Say whether a package's code is a checkout, which changes without its version."""
    try:
        told = metadata.distribution(package).read_text("direct_url.json")
        return bool(told) and bool(json.loads(told or "{}").get("dir_info", {}).get("editable"))
    except (metadata.PackageNotFoundError, ValueError, AttributeError):
        return False


def _variables(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in sorted(environ.items()) if name.startswith(_PREFIXES)}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
