"""Servers that can be started quickly and killed at any moment: children of a process that has imported everything.

A child is a server like any other, in a process of its own; only importing, which no kill is about, is done once.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import httpx

_IMPORTED_LATER = (
    "alembic.command", "psycopg", "qwenperf.service.api.openapi", "qwenperf.service.api.table", "qwenperf.service.auth",
    "qwenperf.service.judging", "qwenperf.service.web", "uvicorn.lifespan.on", "uvicorn.loops.auto",
    "uvicorn.protocols.http.auto", "uvicorn.protocols.websockets.auto",
)  # fmt: skip


@dataclass(kw_only=True)
class Nursery:
    """Starts servers on one folder or database, one at a time."""

    data: Path
    database: str = ""
    token: str = ""
    url: str = ""
    pid: int = 0
    _process: subprocess.Popen[str] | None = field(default=None, repr=False)

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", __name__, str(self.data), self.database]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        assert self._process is not None
        self._process.communicate("")
        self._process.wait(30)

    def start(self) -> None:
        """Start a server, and wait until it listens."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("start\n")
        self._process.stdin.flush()
        told = json.loads(self._process.stdout.readline())
        self.pid, self.url, self.token = told["pid"], told["url"], told["token"] or self.token

    def kill(self) -> None:
        """Kill the server as it stands."""
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self.pid = 0


def client(url: str, token: str) -> httpx.Client:
    """Return a client of a server on this machine, which has no certificate that would be worth reading others for."""
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=url, headers=headers, timeout=60, verify=False)  # noqa: S501  (plain HTTP)


def peak_bytes(pid: int) -> int:
    """Return the largest resident memory of a process, with that of each process that it has begun."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    own = next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))
    children = Path(f"/proc/{pid}/task").glob("*/children")
    return own + sum(peak_bytes(int(child)) for file in children for child in file.read_text().split())


def main() -> None:
    """Start a server for each line of stdin."""
    from qwenperf.service.serving import serve
    from qwenperf.service.settings import ServiceSettings

    for module in _IMPORTED_LATER:
        import_module(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    data, database = Path(sys.argv[1]), sys.argv[2]
    settings = ServiceSettings(data=data, database=database, port=0, sweep_s=0.2, rate_per_s=1e6, rate_burst=10**6)

    def ready(url: str, token: str | None) -> None:
        told: dict[str, Any] = {"pid": os.getpid(), "url": url, "token": token}
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()

    for _ in sys.stdin:
        if os.fork() == 0:
            serve(settings, ready)
            os._exit(0)


if __name__ == "__main__":
    main()
