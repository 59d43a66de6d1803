"""The viewers that the README names open a logdir of ours: the real ones, as servers on this machine."""

import gzip
import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from qwenperf.measure.capture import capture
from qwenperf.traces import xplane

SESSION = "tiny__cached"
START_LIMIT_S = 90

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def logdir(tmp_path_factory):
    """Two runs with a session each."""
    folder = tmp_path_factory.mktemp("profiles")
    step = jax.jit(lambda x_ij: x_ij @ x_ij)
    x_ij = jnp.ones((128, 128))
    step(x_ij).block_until_ready()
    for run in ("first", "second"):
        assert capture(folder / run, SESSION, lambda: step(x_ij), steps=3).path is not None
    return folder


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def ask(port: int, question: str):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/data/plugin/profile/{question}", timeout=30) as answer:
        packed = answer.headers.get("Content-Encoding") == "gzip"
        body = answer.read()
    return json.loads(gzip.decompress(body) if packed else body)


@pytest.mark.parametrize("viewer", ["tensorboard", "xprof"])
def test_a_viewer_lists_every_run_and_its_tools(viewer, logdir, tmp_path):
    """``<viewer> --logdir profiles`` offers each session of each run, with a trace viewer."""
    port = free_port()
    command = [Path(sys.executable).with_name(viewer), "--logdir", logdir, "--port", str(port)]
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        runs = wait_for_runs(server, port, tmp_path / "log")
        assert sorted(runs) == [f"first/{SESSION}", f"second/{SESSION}"]
        tools = ask(port, f"run_tools?run=first/{SESSION}")
        tool = next(tool for tool in tools if tool.startswith("trace_viewer"))
        file = next((logdir / "first").rglob("*.xplane.pb"))
        profile, host = xplane.read(file), file.name.removesuffix(".xplane.pb")
        events = ask(port, f"data?run=first/{SESSION}&tag={tool}&host={host}&hosts={host}")["traceEvents"]
        names = {event.get("name", "") for event in events}
        assert any(name.startswith("decode") for name in names), names
        assert {profile.keys[key].name for track in profile.tracks for key in track.key} & names
    finally:
        server.kill()
        server.wait()


def wait_for_runs(server, port: int, log: Path) -> list[str]:
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            if runs := ask(port, "runs"):
                return runs
        except OSError:
            pass
        time.sleep(0.5)
    pytest.fail(f"the viewer did not list a run: {log.read_text()[-2000:]}")


@pytest.mark.parametrize("viewer", ["tensorboard", "xprof"])
def test_trace_open_starts_a_viewer_that_shows_the_run_and_ctrl_c_stops_it(viewer, logdir):
    """The address is printed once the viewer has shown the run; nothing is left running."""
    command = [sys.executable, "-m", "qwenperf", "trace", "open", logdir / "first", "--viewer", viewer, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            told = json.loads("".join(iter_document(process)))
            assert any(run.endswith(SESSION) for run in told["runs"])
            port = int(told["url"].split(":")[2].split("/")[0])
            assert ask(port, "runs") == told["runs"]
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
        finally:
            process.kill()
    with pytest.raises(OSError, match="refused"):
        ask(port, "runs")


def iter_document(process):
    """Yield the lines of one JSON document."""
    for line in process.stdout:
        yield line
        if line == "}\n":
            return
