"""Findings on machines that are made of files."""

import pytest

from qwenperf.lab.doctor import machine_findings


@pytest.fixture
def machine(tmp_path):
    """Return a writer of files below a root that stands for ``/``."""

    def write(**files):
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


def codes(root):
    return {finding.code for finding in machine_findings(root, watch_s=0.0)} - {"profiler-missing"}


CPU = "sys__devices__system__cpu__"


def test_a_machine_that_tells_nothing_has_no_findings(tmp_path):
    """A container often hides all of it."""
    assert codes(tmp_path) == set()


@pytest.mark.parametrize(
    ("file", "bad", "good", "code"),
    [
        ("cpu0__cpufreq__scaling_governor", "powersave", "performance", "governor"),
        ("smt__active", "1", "0", "smt"),
        ("intel_pstate__no_turbo", "0", "1", "turbo"),
        ("cpu0__thermal_throttle__core_throttle_count", "7", "0", "throttling"),
    ],
)
def test_what_disturbs_measurements_is_found(machine, file, bad, good, code):
    """And not where it is as it should be."""
    assert codes(machine(**{CPU + file: bad})) == {code}
    assert codes(machine(**{CPU + file: good})) == set()


def test_every_finding_says_what_to_do(machine):
    """Knowing is not enough."""
    found = machine_findings(machine(**{f"{CPU}cpu0__cpufreq__scaling_governor": "powersave"}), watch_s=0.0)
    assert all(finding.advice for finding in found)
