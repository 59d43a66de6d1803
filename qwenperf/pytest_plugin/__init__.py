"""The fixture ``qwenperf`` and the marker of the same name: gates on anybody's engine, next to the unit tests.

Imports JAX only when a test asks a question. Decides nothing itself: the lab measures, gates judge, and this room
turns verdicts into passes, failures and warnings of pytest.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from qwenperf.errors import QwenperfError
from qwenperf.measure.default_platform import default_platform
from qwenperf.pytest_plugin.checks import Checks
from qwenperf.pytest_plugin.marks import MARKER, read_marks
from qwenperf.pytest_plugin.session import InconclusiveWarning, Recorded

__all__ = ["Checks", "InconclusiveWarning"]

MESSAGE = "qwenperf"
"""The key of what a worker of pytest-xdist hands to the session."""

_RECORDED = pytest.StashKey[Recorded]()


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Keep JAX from looking for a TPU that is not there, which takes 12 s where its compiler is installed."""
    if find_spec("libtpu") is not None:
        os.environ |= default_platform(os.environ)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the command-line options."""
    group = parser.getgroup("qwenperf")
    group.addoption("--qwenperf-out", metavar="DIR", help="write a run.json of all that was measured below DIR")
    group.addoption(
        "--qwenperf-inconclusive",
        choices=("warn", "fail"),
        default="warn",
        help="what a timed gate does when noise keeps it from a verdict (default: warn)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker, and refuse a folder that cannot be written to before any test runs."""
    config.addinivalue_line("markers", MARKER)
    out = config.getoption("--qwenperf-out")
    config.stash[_RECORDED] = Recorded(out=Path(out) if out else None)
    if out:
        from qwenperf.lab.run_folder import check_writable

        try:
            check_writable(Path(out))
        except QwenperfError as error:
            raise pytest.UsageError(f"--qwenperf-out: {error}") from None


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what was measured."""
    recorded = session.config.stash[_RECORDED]
    recorded.write(session.config.rootpath)
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[MESSAGE] = {"unjudged": recorded.unjudged, "told": [recorded.told] if recorded.written else []}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take from a worker of pytest-xdist what it has to tell: the session that people read is another process."""
    message = getattr(node, "workeroutput", {}).get(MESSAGE)
    if message:
        recorded = node.config.stash[_RECORDED]
        recorded.unjudged += message["unjudged"]
        recorded.elsewhere += message["told"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say where the record is, and what a test that passed was not judged by."""
    recorded = config.stash[_RECORDED]
    for line in recorded.unjudged:
        terminalreporter.write_line(f"qwenperf: {line}")
    if recorded.out is not None:
        terminalreporter.write_line(f"qwenperf: {recorded.told}")


@pytest.fixture
def qwenperf(request: pytest.FixtureRequest) -> Iterator[Checks]:
    """Gates for recompiles, tokens and throughput of anybody's engine."""
    marks = read_marks(request.node, inconclusive=request.config.getoption("--qwenperf-inconclusive"))
    recorded = request.config.stash[_RECORDED]
    checks = Checks(recorded=recorded, test=request.node.nodeid, root=request.config.rootpath, marks=marks)
    yield checks
    checks.close()
