"""The fixture ``qwenperf`` and the marker of the same name: gates on anybody's engine, next to the unit tests.

Imports JAX only when a test asks a question. Decides nothing itself: the lab measures, gates judge, and this room
turns verdicts into passes, failures and warnings of pytest.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from qwenperf.errors import QwenperfError
from qwenperf.measure.default_platform import default_platform
from qwenperf.measure.measuring_lock import told_by
from qwenperf.pytest_plugin.checks import Checks
from qwenperf.pytest_plugin.globs import Ran, names_tests, unasked, unmatched
from qwenperf.pytest_plugin.marks import MARKER, read_marks
from qwenperf.pytest_plugin.record_files import RecordFiles
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
    files = RecordFiles(out=Path(out), root=config.rootpath) if out else None
    # A worker of pytest-xdist is told which tests to run, whoever chose them.
    chosen = names_tests(config) and not hasattr(config, "workerinput")
    config.stash[_RECORDED] = Recorded(files=files, ran=Ran(chosen=chosen))
    if out:
        from qwenperf.lab.run_folder import check_writable

        try:
            check_writable(Path(out))
        except QwenperfError as error:
            raise pytest.UsageError(f"--qwenperf-out: {error}") from None


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Keep that tests were left out: then a budget that matches nothing proves nothing."""
    for item in items[:1]:
        item.config.stash[_RECORDED].ran.left_out([one.nodeid for one in items])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep which tests did not pass: they may not have come to their questions."""
    report = yield
    if not report.passed:
        item.config.stash[_RECORDED].ran.failed(item.nodeid)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Keep whether the loop over the tests came to its end: a crash and ``pytest.exit`` may have any exit code."""
    recorded = session.config.stash[_RECORDED]
    recorded.broken_off = True
    result = yield
    recorded.broken_off = False
    return result


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Write what was measured, look for budgets that matched nothing, and fail where the tests alone would pass."""
    recorded = session.config.stash[_RECORDED]
    recorded.write(interrupted=recorded.broken_off)
    if recorded.trouble:
        recorded.failures.append(f"--qwenperf-out: {recorded.trouble}")
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[MESSAGE] = _message(recorded)
        return
    if exitstatus == pytest.ExitCode.OK:
        _look_after_globs(recorded, session.config.rootpath)
        if recorded.failures:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _look_after_globs(recorded: Recorded, root: Path) -> None:
    try:
        for line, is_failure in unmatched(root, recorded.ran):
            (recorded.failures if is_failure else recorded.unjudged).append(line)
        recorded.unjudged += unasked(root, recorded.cases)
    except QwenperfError as error:  # no test asked for the budgets, or it would have failed
        recorded.failures.append(str(error))


def _message(recorded: Recorded) -> dict[str, Any]:
    """Return what a worker of pytest-xdist hands to the session, as plain data."""
    ran = recorded.ran
    return {
        "unjudged": recorded.unjudged,
        "told": [recorded.told] if recorded.written and not recorded.trouble else [],
        "failures": recorded.failures,
        "ran": {"cases": ran.cases, "partial": sorted(ran.partial), "chosen": ran.chosen},
    }


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take from a worker of pytest-xdist what it has to tell: the session that people read is another process."""
    message = getattr(node, "workeroutput", {}).get(MESSAGE)
    if message:
        recorded = node.config.stash[_RECORDED]
        recorded.unjudged += message["unjudged"]
        recorded.elsewhere += message["told"]
        recorded.failures += message["failures"]
        recorded.ran.join(Ran(**{**message["ran"], "partial": set(message["ran"]["partial"])}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say where the record is, and what a test that passed was not judged by."""
    recorded = config.stash[_RECORDED]
    for line in recorded.unjudged:
        terminalreporter.write_line(f"qwenperf: {line}")
    for line in recorded.failures:
        terminalreporter.write_line(f"qwenperf: failed: {line}", red=True)
    if recorded.files is not None and not recorded.trouble:
        terminalreporter.write_line(f"qwenperf: {recorded.told}")


@pytest.fixture
def qwenperf(request: pytest.FixtureRequest) -> Iterator[Checks]:
    """Gates for recompiles, tokens and throughput of anybody's engine."""
    marks = read_marks(request.node, inconclusive=request.config.getoption("--qwenperf-inconclusive"))
    recorded = request.config.stash[_RECORDED]
    checks = Checks(recorded=recorded, test=request.node.nodeid, root=request.config.rootpath, marks=marks)
    with told_by(_aloud(request.config)):
        yield checks
    checks.close()


def _aloud(config: pytest.Config) -> Callable[[str], None]:
    """Return what tells people a line at once: what pytest captures is shown when a test is over, if it failed."""
    capture = config.pluginmanager.getplugin("capturemanager")

    def say(line: str) -> None:
        with nullcontext() if capture is None else capture.global_and_fixture_disabled():
            sys.stderr.write(f"\nqwenperf: {line}\n")
            sys.stderr.flush()

    return say
