"""A measuring process that outlives its parent would go on for minutes, for nobody."""

from __future__ import annotations

import os
import select
import signal
import threading


def end_with_parent(pipe: int) -> None:
    """Kill this process and its group as soon as nobody holds the reading end of ``pipe``, however the parent ended.

    The thread sleeps in the kernel and costs a measurement nothing.
    """

    def wait() -> None:
        poll = select.poll()
        poll.register(pipe, 0)  # no event but the end of the reader, which is always told
        poll.poll()
        if os.getpgrp() == os.getpid():
            os.killpg(os.getpid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, name="end-with-parent", daemon=True).start()
