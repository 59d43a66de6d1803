"""Progress says what is happening and for how long: moving on a terminal, in plain lines elsewhere."""

import io
import sys

from qwenperf.cli.progress import LiveProgress, PlainProgress, progress
from qwenperf.schema.records import CaseRecord, Status
from qwenperf.workloads.case import Case, Workload

CASE = Case(model="tiny", engine="cached", workload=Workload(prompt_length=4, new_tokens=8))


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self):
        """Say so."""
        return True


def go_through(shown):
    with shown:
        shown.case_started(CASE, 1, 2)
        shown.phase(CASE, "cold")
        shown.case_ended(CaseRecord(id=CASE.id, spec={}, status=Status.MEASURED, wall_s=3.21))
        shown.case_started(CASE, 2, 2)
        shown.case_ended(CaseRecord(id=CASE.id, spec={}, status=Status.TIMED_OUT, wall_s=9.0))


def test_a_log_gets_lines_without_control_characters(monkeypatch):
    """Each case and phase is a line; how a case ended is another."""
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    shown = progress()
    assert isinstance(shown, PlainProgress)
    go_through(shown)
    lines = sys.stderr.getvalue().splitlines()
    assert lines[0] == "[1/2] tiny/cached/b1-p4-n8-f32 (at most 300 s)"
    assert lines[1].startswith("    cold (+")
    assert lines[2] == "[1/2] tiny/cached/b1-p4-n8-f32: measured in 3.21 s"
    assert lines[4] == "[2/2] tiny/cached/b1-p4-n8-f32: timed out in 9.00 s. It is told below."


def test_a_terminal_keeps_the_line_of_each_case(monkeypatch):
    """The spinner goes away; what ended stays."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    shown = progress()
    assert isinstance(shown, LiveProgress)
    go_through(shown)
    assert "[1/2] tiny/cached/b1-p4-n8-f32: measured in 3.21 s" in sys.stderr.getvalue()
