"""Cases and folders that the lab's tests share."""

import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from qwenperf.lab.run_folder import create_run_folder
from qwenperf.workloads.case import Case, Workload

WORKLOAD = Workload(prompt_length=4, new_tokens=6)


@pytest.fixture
def fake_worker():
    """The command of a process that behaves as the case's options say."""
    return (sys.executable, str(Path(__file__).with_name("fake_worker.py")))


@pytest.fixture
def folder(tmp_path):
    """A new run folder."""
    return create_run_folder(tmp_path / "profiles", datetime.now(UTC))


@pytest.fixture
def make_case():
    """Make a small case that behaves in some way."""

    def make(behaviour="measure", *, engine="cached", time_limit_s=60.0):
        options = {"behaviour": behaviour}
        return Case(model="tiny", engine=engine, workload=WORKLOAD, time_limit_s=time_limit_s, options=options)

    return make


class Notes:
    """A listener that notes what it hears."""

    def __init__(self):
        self.heard = []

    def case_started(self, case, number, total):
        """Note a case that begins."""
        self.heard.append(("started", case.id, number, total))

    def phase(self, case, name):
        """Note a phase."""
        self.heard.append(("phase", case.id, name))

    def case_ended(self, record):
        """Note a case that ended."""
        self.heard.append(("ended", record.id, record.status.value))


@pytest.fixture
def notes():
    """A listener that notes what it hears."""
    return Notes()
