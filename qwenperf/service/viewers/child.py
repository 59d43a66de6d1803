"""Runs XProf on a folder of traces, behind a socket in the file system. A program: it imports nothing of qwenperf.

XProf's own program listens on every network interface of the machine, with a second server beside that answers other
machines. Here nobody reaches it but who may open the socket's folder, and the second server is left out: it is there
to share the work on traces of many hosts. The program ends when its standard input does, which is when whoever
started it ends, however that comes about; what it was given to show goes with it.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from pathlib import Path


def main(traces: str, place: str) -> None:
    """Serve the sessions below ``traces`` on the socket ``place``."""
    threading.Thread(target=_end_with_input, args=(traces, Path(place).parent), daemon=True).start()
    from cheroot import wsgi
    from xprof import server  # type: ignore[import-not-found,import-untyped,unused-ignore]  # may be absent
    from xprof.convert import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        _pywrap_profiler_plugin as native,
    )

    def run(plugin: object, *_address: object) -> None:
        wsgi.Server(place, server.make_wsgi_app(plugin)).start()

    native.start_grpc_server = lambda *_: None
    native.trace = lambda *_: None  # it takes traces from any address that somebody names
    server.run_server = run
    # The ports are asked for and used by nobody.
    server.start_server(logdir=traces, port=1, grpc_port=2, hide_capture_profile_button=True)


def _end_with_input(traces: str, folder: Path) -> None:
    while os.read(sys.stdin.fileno(), 1):  # unbuffered: Python could not end while a buffer is waited for
        pass
    # The mark by which the service knows the folder goes last: it would remove what is left.
    for one in (traces, folder):
        shutil.rmtree(one, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
