"""What a profile has to show before it is kept: here, as many operations in each step as in the others."""

import importlib.util
from pathlib import Path

import pytest

from qwenperf.measure.capture_check import BadCaptureError, checked
from qwenperf.measure.capture_limits import longest_s

_SPEC = importlib.util.spec_from_file_location("xspaces", Path(__file__).parents[1] / "traces" / "xspaces.py")
xspaces = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(xspaces)

STEPS = tuple((1000 * index, 100) for index in range(5))


def look(folder, counts, spent_us=(1, 1, 1, 1, 1), **more):
    """Look at a profile with so many operations in each step, which take so long each."""
    operations = [
        ("dot.1", start + 10 * number, spent_us[run], "jit_step", 7, run)
        for run, (start, _) in enumerate(STEPS)
        for number in range(counts[run])
    ]
    (folder / "vm.xplane.pb").write_bytes(xspaces.space(xspaces.cpu(STEPS, operations)))
    return checked(folder, "decode", len(STEPS), max_bytes=10**6, tokens_per_step=1, **more)


def test_steps_alike_pass(tmp_path):
    """Half of the usual operations is few, and may be another kind of step."""
    assert look(tmp_path, [8, 8, 4, 8, 8])[2] == ()


def test_a_step_with_far_fewer_operations_than_the_others_is_tried_again(tmp_path):
    """The profiler has lost some, whatever the first and the last step show."""
    with pytest.raises(BadCaptureError, match=r"of 8 operations in the median step .* in step 3 \(3\)\.") as caught:
        look(tmp_path, [8, 8, 3, 8, 8])
    assert (caught.value.code, caught.value.retry_steps) == ("trace-uneven", 2)


def test_steps_that_differ_a_second_time_are_a_remark(tmp_path):
    """An engine may make several tokens at once and hand them out one by one."""
    file, summary, remarks = look(tmp_path, [8, 0, 8, 0, 8], last=True)
    assert (file.name, summary["steps"]) == ("vm.xplane.pb", 5)
    assert [one.code for one in remarks] == ["trace-uneven"]


def test_a_step_whose_operations_take_far_less_time_than_the_others_is_tried_again(tmp_path):
    """As many as in the others, and the long ones are lost; what other work on the machine does is never so much."""
    assert look(tmp_path, [8] * 5, (8, 8, 2, 8, 8))[2] == ()
    with pytest.raises(BadCaptureError, match=r"of 64.0 us of operations in the median step .* in step 3 \(8.00 us\)"):
        look(tmp_path, [8] * 5, (8, 8, 1, 8, 8))


def test_operations_that_cover_next_to_nothing_of_the_steps_are_told(tmp_path):
    """A host that is slow looks like a profiler that lost operations."""
    (remark,) = look(tmp_path, [1] * 5, (0.5,) * 5)[2]
    assert (remark.code, remark.severity) == ("trace-uncovered", "note")
    assert remark.message == "operations cover 0.5% of the time of the steps."


def test_a_capture_takes_no_longer_than_all_its_limits_together():
    """It waits for its turn, and tries twice."""
    assert longest_s(20.0, 60.0) == 20 + 2 * (20 + 60)
