"""Stands in for XProf where a test is of what stands before it: a program that tells what it was asked, on a socket."""

import http.server
import json
import os
import socketserver
import sys
import threading
from pathlib import Path

TRACES, PLACE = sys.argv[1:]


class Answers(http.server.BaseHTTPRequestHandler):
    """Names the sessions, shows a page, and repeats any other question."""

    def do_GET(self):
        """Answer."""
        path = self.path.partition("?")[0].removeprefix("/data/plugin/profile")
        if path == "/runs":
            kind, body = (
                "application/json",
                json.dumps(sorted(one.name for one in Path(TRACES).glob("plugins/profile/*"))),
            )
        elif path == "/":
            kind, body = "text/html", "<html><head><title>XProf</title></head></html>"
        else:
            told = {"path": self.path, "headers": dict(self.headers), "environment": dict(os.environ)}
            kind, body = "application/json", json.dumps(told)
        self.send_response(200)
        for name, value in (("Content-Type", kind), ("Set-Cookie", "theirs=1"), ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())

    def address_string(self):
        """Nobody has an address on a socket of the file system."""
        return "somebody"


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Answers several at once."""

    daemon_threads = True


threading.Thread(target=lambda: (os.read(0, 1), os._exit(0)), daemon=True).start()
if (Path(TRACES) / "plugins/profile/broken").is_dir():
    sys.exit("this trace is damaged")
Server(PLACE, Answers).serve_forever()
