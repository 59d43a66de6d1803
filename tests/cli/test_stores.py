"""Which store a command means, and who gets the token."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from qwenperf.cli.stores import find_history


@pytest.fixture
def service():
    """A service without series that keeps what it was shown: its address, and the tokens."""
    shown = []

    class Asked(BaseHTTPRequestHandler):
        def do_GET(self):
            shown.append(self.headers.get("Authorization"))
            answer = b'{"series": [], "more": false}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Asked)
    threading.Thread(target=lambda: server.serve_forever(poll_interval=0.02), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", shown
    server.shutdown()
    server.server_close()


def test_a_service_that_only_a_file_names_gets_no_token(service, tmp_path, monkeypatch, capsys):
    """A pull request can change the file; a flag, a variable or the service that is pushed to is somebody's word."""
    address, shown = service
    monkeypatch.chdir(tmp_path)
    for name in ("STORE", "URL"):
        monkeypatch.delenv(f"QWENPERF_{name}", raising=False)
    monkeypatch.setenv("QWENPERF_TOKEN", "secret")
    (tmp_path / "pyproject.toml").write_text(f'[tool.qwenperf]\nstore = "{address}/p/demo"\n')
    assert find_history(None).cases() == {}
    assert f"QWENPERF_TOKEN is not sent to {address}" in capsys.readouterr().err
    assert find_history(f"{address}/p/demo").cases() == {}
    monkeypatch.setenv("QWENPERF_URL", f"{address}/")
    assert find_history(None).cases() == {}
    monkeypatch.setenv("QWENPERF_URL", "http://other.example")
    monkeypatch.setenv("QWENPERF_STORE", f"{address}/p/demo")
    assert find_history(None).cases() == {}
    assert shown == [None, *["Bearer secret"] * 3]
    assert capsys.readouterr().err == ""
