"""A viewer that does not show the traces is an error that says why; the real ones are started in test_viewers.py."""

import socket
import sys

import pytest

from qwenperf.errors import EnvironmentUnfitError, UsageError
from qwenperf.lab.trace_viewer import find_viewer, opened

ENDS = """
import sys
print("ImportError: the plugin wants another protobuf")
sys.exit(3)
"""

EMPTY = """
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response({status})
        self.end_headers()
        self.wfile.write(b"[]")
HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Answer).serve_forever()
"""


@pytest.fixture
def viewer(tmp_path):
    """Make a viewer out of a few lines of Python."""

    def make(code):
        program = tmp_path / "viewer"
        program.write_text(f"#!{sys.executable}\n{code}")
        program.chmod(0o755)
        return program

    return make


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ENDS, r"it ended with 3 \(.*tensorboard-plugin-profile .*It said: ImportError: the plugin wants another"),
        (EMPTY.format(status=200), "it shows no run"),
        (EMPTY.format(status=404), "its profile plugin answers 404"),
    ],
)
def test_a_viewer_of_no_use_is_an_error_with_its_reason_and_versions(code, told, viewer, tmp_path):
    with pytest.raises(EnvironmentUnfitError, match=told), opened(tmp_path, "tensorboard", viewer(code), limit_s=1.5):
        pytest.fail("it shows nothing")


def test_a_port_in_use_is_refused_before_anything_starts(viewer, tmp_path):
    """Who answers there is somebody else."""
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(UsageError, match=f"port {port} cannot be used"),
            opened(tmp_path, "xprof", viewer(ENDS), port),
        ):
            pytest.fail("the port is taken")


def test_a_viewer_that_is_not_installed_is_an_error_with_the_way_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    for name in (None, "xprof"):
        with pytest.raises(EnvironmentUnfitError, match=r"cannot be found.*qwenperf\[profile\]"):
            find_viewer(name)
