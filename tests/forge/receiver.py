"""A receiver of messages on this machine: keeps what it got, and answers as it is told."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class _Handler(BaseHTTPRequestHandler):
    """Answers with ``answers`` one after another, then 204; where it sends on to, nobody must go."""

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.append((dict(self.headers), body))
        self.send_response(self.server.answers.pop(0) if self.server.answers else 204)
        self.send_header("Location", f"http://{self.headers['host']}/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()


@contextmanager
def receiving(encrypts=None):
    """Take messages until the block ends; ``encrypts`` is the context of a server that has a certificate."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    if encrypts is not None:
        server.socket = encrypts.wrap_socket(server.socket, server_side=True)
    server.got, server.answers = [], []
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def receiver():
    """A server that takes messages; for whoever makes this name one of theirs."""
    with receiving() as found:
        yield found
