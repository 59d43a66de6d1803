"""One viewer: a process of XProf on the traces of one record, in a folder that goes with it."""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from qwenperf.service.problems import ServiceUnavailableError
from qwenperf.service.viewers import folders

if TYPE_CHECKING:
    from qwenperf.service.auth.identity import Identity

START_LIMIT_S = 90.0
PREFIX = "/data/plugin/profile"
"""What XProf's own addresses begin with, and what its pages find themselves by."""

_CHILD = Path(__file__).with_name("child.py")
_ENVIRONMENT = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG", "SYSTEMROOT")
"""What the process gets of ours: no token, no password and no proxy of the service is any business of a viewer's."""

_ANSWER_S, _PAUSE_S, _END_S = 10.0, 0.1, 5.0
_TOLD = 300
_MOST_TICKETS = 200


@dataclass(frozen=True, kw_only=True)
class Holder:
    """Who got a ticket, and the hash of the session's cookie that it was asked with; empty for a token."""

    identity: Identity
    session: str


class Viewer:
    """A process that shows one run or comparison, and who was let in. ``sessions``: the names of its traces."""

    def __init__(self, fill: Callable[[Path], None], clock: Callable[[], float] = time.monotonic) -> None:
        """Start it on what ``fill`` writes into a folder.

        Raises:
          ServiceUnavailableError: it does not show the traces; with what it said last.
        """
        self._clock = clock
        self._lock = threading.Lock()
        self._tickets: OrderedDict[str, Holder] = OrderedDict()
        self._under_way, self._asked_at = 0, clock()
        # For its owner alone: whoever may open the socket may see the traces.
        self._held = folders.make()
        self.folder = self._held.path
        self.socket = self.folder / "socket"
        try:
            traces = self.folder / "traces"
            traces.mkdir()
            fill(traces)
            self.process = self._start(traces)
        except BaseException:
            self._held.remove()
            raise
        try:
            self.sessions = self._wait()
        except BaseException:
            self.end()
            raise

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process.poll() is None

    @property
    def idle_s(self) -> float:
        """For how many seconds nobody has asked it; 0 while somebody waits for an answer."""
        with self._lock:
            return 0.0 if self._under_way else self._clock() - self._asked_at

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Keep it from ending while somebody waits for an answer of it."""
        with self._lock:
            self._under_way += 1
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1
                self._asked_at = self._clock()

    def admit(self, identity: Identity, session: str = "") -> str:
        """Return a new ticket, which is good as long as the viewer runs and ``identity`` may see the record.

        ``session`` is the hash of the session's cookie, where it was one that asked: the ticket is kept with it.
        """
        ticket = secrets.token_urlsafe(24)
        with self._lock:
            self._asked_at = self._clock()
            self._tickets[_digest(ticket)] = Holder(identity=identity, session=session)
            while len(self._tickets) > _MOST_TICKETS:
                self._tickets.popitem(last=False)
        return ticket

    def holder(self, ticket: str) -> Holder | None:
        """Return to whom a ticket was given; ``None`` where it is none."""
        with self._lock:
            return self._tickets.get(_digest(ticket))

    def end(self) -> None:
        """End the process and remove its folder."""
        with suppress(OSError):
            assert self.process.stdin is not None
            self.process.stdin.close()
        try:
            self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._held.remove()

    def _start(self, traces: Path) -> subprocess.Popen[bytes]:
        given = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        given |= {"HOME": str(self.folder), "TMPDIR": str(self.folder)}
        # The child's own folder is no place to import from.
        command = [sys.executable, "-P", str(_CHILD), str(traces), str(self.socket)]
        with (self.folder / "log").open("wb") as log:
            return subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, env=given, cwd=self.folder,
                start_new_session=True,
            )  # fmt: skip

    def _wait(self) -> frozenset[str]:
        ends, seen = time.monotonic() + START_LIMIT_S, "it did not answer"
        transport = httpx.HTTPTransport(uds=str(self.socket), verify=False, trust_env=False)
        with httpx.Client(transport=transport, timeout=_ANSWER_S) as client:
            while time.monotonic() < ends:
                if not self.alive:
                    seen = f"it ended with {self.process.returncode}"
                    break
                with suppress(httpx.HTTPError, ValueError, OSError):
                    # A connection of httpx that fails is left open.
                    with socket.socket(socket.AF_UNIX) as first:
                        first.connect(str(self.socket))
                    found = client.get(f"http://xprof{PREFIX}/runs").json()
                    if isinstance(found, list) and found:
                        return frozenset(map(str, found))
                    seen = "it shows no trace"
                time.sleep(_PAUSE_S)
        raise ServiceUnavailableError(
            f"XProf does not show the traces: {seen}. It said: {self._said()}", advice="Open them on your own machine."
        )

    def _said(self) -> str:
        words = " ".join((self.folder / "log").read_bytes().decode("utf-8", "replace").split())
        return words[-_TOLD:] or "nothing."


def _digest(ticket: str) -> str:
    return hashlib.sha256(ticket.encode("utf-8", "replace")).hexdigest()
