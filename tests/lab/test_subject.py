"""The conversation with a child: real processes that answer, hang, die and talk nonsense."""

import os
import sys
import time
from pathlib import Path

import pytest

from qwenperf.errors import MeasurementError
from qwenperf.lab.subject import Subject

ECHO = """
import json, os, sys
commands, answers = int(sys.argv[1]), int(sys.argv[2])
for line in os.fdopen(commands):
    os.write(answers, json.dumps({"heard": json.loads(line)}).encode() + b"\\n")
"""


def is_running(pid):
    """Say whether a process lives; one that has ended and that nobody has waited for does not."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@pytest.fixture
def start(tmp_path):
    """Return a starter of subjects that run a piece of Python."""

    def begin(code):
        command = [sys.executable, "-c", code]
        return Subject.start("head", command, log=tmp_path / "log", environ=dict(os.environ), cwd=tmp_path)

    return begin


def test_a_subject_answers_what_it_is_asked(start):
    """Two questions, two answers, in order."""
    with start(ECHO) as subject:
        assert subject.ask({"n": 1}, 20) == {"heard": {"n": 1}}
        assert subject.ask({"n": 2}, 20) == {"heard": {"n": 2}}


def test_one_that_says_nothing_is_given_up(start):
    """A hung compile would otherwise hold the comparison for ever."""
    with (
        start("import time; time.sleep(60)") as subject,
        pytest.raises(MeasurementError, match="did not answer in 0 s"),
    ):
        subject.hear(0.2)


def test_one_that_says_nothing_in_time_is_killed(start):
    """Its answer would otherwise be taken for that to the next question."""
    with start("import time; time.sleep(60)") as subject:
        with pytest.raises(MeasurementError, match="did not answer"):
            subject.ask({}, 0.1)
        assert not is_running(subject.child.pid)
        with pytest.raises(MeasurementError, match="SIGKILL"):
            subject.ask({}, 20)


def test_leaving_it_kills_it_and_what_it_started(start, tmp_path):
    """A grandchild that goes on would disturb the next pair."""
    code = (
        "import subprocess, sys, os, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "open('pid', 'w').write(str(child.pid)); os.write(int(sys.argv[2]), b'{}\\n'); time.sleep(60)"
    )
    with start(code) as subject:
        subject.hear(20)
    pid = int((tmp_path / "pid").read_text())
    for _ in range(100):
        if not is_running(pid):
            return
        time.sleep(0.05)
    pytest.fail("the grandchild is still there")


def test_one_that_dies_says_how(start):
    """With the end of its log, where the reason stands."""
    with start("raise SystemExit('out of luck')") as subject, pytest.raises(MeasurementError) as caught:
        subject.hear(20)
    assert "head ended (exit code 1). It said: out of luck" in str(caught.value)


def test_a_killed_one_is_named_by_its_signal(start):
    """Out of memory looks like this."""
    with start("import os; os.kill(os.getpid(), 9)") as subject, pytest.raises(MeasurementError, match="SIGKILL"):
        subject.hear(20)


def test_its_own_error_is_passed_on(start):
    """What it found out is worth more than that it ended."""
    code = 'import os, sys; os.write(int(sys.argv[2]), b\'{"error": "no such model"}\\n\')'
    with start(code) as subject, pytest.raises(MeasurementError, match="head: no such model"):
        subject.hear(20)
