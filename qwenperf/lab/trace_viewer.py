"""Starts somebody else's viewer on a folder of traces, and sees that it really shows them. Imports no JAX.

A viewer that starts may still be of no use: its plugin may not load, or may be of another version than its frame. So it
is asked for its runs before anybody is sent there.
"""

from __future__ import annotations

import gzip
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import IO, Any

from qwenperf.errors import EnvironmentUnfitError, UsageError

VIEWERS = ("tensorboard", "xprof")
START_LIMIT_S = 90.0
_ANSWER_S = 10.0
_INSTALL = "Install both: pip install 'qwenperf[profile]'."
_PACKAGES = {"tensorboard": ("tensorboard", "tensorboard-plugin-profile"), "xprof": ("xprof",)}
_TOLD = 600


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A viewer that runs and shows ``runs``."""

    viewer: str
    url: str
    versions: dict[str, str]
    runs: tuple[str, ...]
    process: subprocess.Popen[bytes]


def find_viewer(name: str | None) -> tuple[str, Path]:
    """Return the viewer that is asked for, or the first that is installed, and its program.

    Raises:
      EnvironmentUnfitError: it is not there.
    """
    for viewer in (name,) if name else VIEWERS:
        beside = Path(sys.executable).with_name(viewer)
        found = str(beside) if beside.is_file() else shutil.which(viewer)
        if found and _versions(viewer):
            return viewer, Path(found)
    raise EnvironmentUnfitError(f"{name or ' and '.join(VIEWERS)} cannot be found.", advice=_INSTALL)


@contextmanager
def opened(
    logdir: Path, viewer: str, program: Path, port: int | None = None, *, limit_s: float = START_LIMIT_S
) -> Iterator[Opened]:
    """Run a viewer on ``logdir``, on a free port unless one is given; it ends with the block.

    Raises:
      UsageError: the port is taken.
      EnvironmentUnfitError: it ends, or shows no run within ``limit_s``; with what it said last.
    """
    port = _free_port(port or 0)
    command = [str(program), "--logdir", str(logdir), "--port", str(port)]
    # XProf starts a second server; two viewers side by side must not want the same port for it.
    command += ["--grpc_port", str(_free_port())] if viewer == "xprof" else ["--host", "localhost"]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        try:
            runs = _wait(process, port, limit_s, viewer, log)
            url = f"http://localhost:{port}/{'#profile' if viewer == 'tensorboard' else ''}"
            yield Opened(viewer=viewer, url=url, versions=_versions(viewer), runs=runs, process=process)
        finally:
            _end(process)


def ask(port: int, question: str, limit_s: float = 30.0) -> Any:
    """Ask the profile plugin on this machine; JSON back.

    Raises:
      OSError: nobody answers, or with an error.
      ValueError: the answer is no JSON.
    """
    url = f"http://localhost:{port}/data/plugin/profile/{question}"
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy knows nothing of this machine
    with direct.open(url, timeout=limit_s) as answer:
        body = answer.read()
    return json.loads(gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body)


def _wait(process: subprocess.Popen[bytes], port: int, limit_s: float, viewer: str, log: IO[bytes]) -> tuple[str, ...]:
    deadline, seen = time.monotonic() + limit_s, "it did not answer"
    while time.monotonic() < deadline:
        if process.poll() is not None:
            seen = f"it ended with {process.returncode}"
            break
        try:
            runs = ask(port, "runs", _ANSWER_S)
        except urllib.error.HTTPError as error:
            seen = f"its profile plugin answers {error.code}"
        except (OSError, ValueError):
            pass
        else:
            if isinstance(runs, list) and runs:
                return tuple(map(str, runs))
            seen = "it shows no run"
        time.sleep(0.3)
    versions = ", ".join(f"{name} {version}" for name, version in _versions(viewer).items())
    raise EnvironmentUnfitError(
        f"{viewer} does not show the traces: {seen} ({versions}). It said: {_tail(log)}",
        advice="Try --viewer with the other one, or other versions; `qwenperf trace show` needs neither.",
    )


def _tail(log: IO[bytes]) -> str:
    log.seek(0)
    said = " ".join(log.read().decode("utf-8", "replace").split())
    return said[-_TOLD:] or "nothing."


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port(wanted: int = 0) -> int:
    """Return the port that is wanted, or any: somebody else's viewer on it would answer in the place of ours."""
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            free.bind(("", wanted))
        except OSError as error:
            advice = "Give another --port, or none for a free one."
            raise UsageError(f"port {wanted} cannot be used: {error.strerror}.", advice=advice) from error
        port: int = free.getsockname()[1]
        return port


def _versions(viewer: str) -> dict[str, str]:
    """Return the versions of a viewer's packages; empty unless all are there."""
    found = {}
    for package in _PACKAGES.get(viewer, ()):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            return {}
    return found
