"""A process that does one thing at a time when it is told to: the parent's end of the conversation.

One JSON object a line, both ways. Knows nothing of cases: what is said is the business of ``pairs`` and
``pair_worker``. A subject that answers nothing in time is killed, with all that it started.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from qwenperf.errors import MeasurementError
from qwenperf.lab.executor import log_tail, signal_name

Message = Mapping[str, Any]


@dataclass(kw_only=True)
class Subject:
    """A running child; ``ask`` waits for its next message. A context manager: leaving it kills the child."""

    name: str
    log: Path
    child: subprocess.Popen[bytes]
    reader: int
    writer: int
    pending: bytes = field(default=b"", repr=False)

    @classmethod
    def start(cls, name: str, command: Sequence[str], *, log: Path, environ: Mapping[str, str], cwd: Path) -> Subject:
        """Start ``command`` with the descriptors to read commands from and to answer to as its last arguments."""
        commands_read, commands_write = os.pipe()
        answers_read, answers_write = os.pipe()
        ours, theirs = (commands_write, answers_read), (commands_read, answers_write)
        try:
            with log.open("wb") as log_file:
                child = subprocess.Popen(
                    [*command, *map(str, theirs)],
                    stdin=subprocess.DEVNULL,
                    stdout=log_file,
                    stderr=subprocess.STDOUT,
                    pass_fds=theirs,
                    start_new_session=True,
                    env=dict(environ),
                    cwd=cwd,
                )
        except OSError as error:
            for descriptor in ours:
                os.close(descriptor)
            raise MeasurementError(f"{name} does not start: {error}.") from error
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        return cls(name=name, log=log, child=child, reader=answers_read, writer=commands_write)

    def __enter__(self) -> Self:
        """Return the subject itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the child and all that it started."""
        self._kill()
        for descriptor in (self.reader, self.writer):
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait()

    def tell(self, message: Message) -> None:
        """Send one message.

        Raises:
          MeasurementError: the child is gone.
        """
        try:
            os.write(self.writer, json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise self._gone() from error

    def hear(self, time_limit_s: float) -> Message:
        """Return the child's next message.

        Raises:
          MeasurementError: none came in time and the child was killed, it ended, or it answered with an error.
        """
        deadline = time.monotonic() + time_limit_s
        with selectors.DefaultSelector() as selector:
            selector.register(self.reader, selectors.EVENT_READ)
            while b"\n" not in self.pending:
                left = deadline - time.monotonic()
                if left <= 0 or not selector.select(left):
                    self._kill()  # a late answer would be taken for that to the next question
                    raise MeasurementError(f"{self.name} did not answer in {time_limit_s:.0f} s; see {self.log}.")
                chunk = os.read(self.reader, 65_536)
                if not chunk:
                    raise self._gone()
                self.pending += chunk
        line, _, self.pending = self.pending.partition(b"\n")
        message: Message = json.loads(line)
        if "error" in message:
            raise MeasurementError(f"{self.name}: {message['error']}")
        return message

    def ask(self, message: Message, time_limit_s: float) -> Message:
        """Send one message and return the answer; errors as ``tell`` and ``hear``."""
        self.tell(message)
        return self.hear(time_limit_s)

    def _gone(self) -> MeasurementError:
        """Say how the child ended, which may take a moment to be known."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.child.wait(timeout=5)
        code = self.child.returncode
        how = signal_name(code) if code is not None and code < 0 else f"exit code {code}"
        tail = log_tail(self.log, lines=3)
        return MeasurementError(f"{self.name} ended ({how}).{f' It said: {tail}' if tail else ''}")
