"""Operations inside CUDA graphs are hidden in a GPU's trace; it is told how much that is, and how to see them."""

import pytest

from qwenperf.measure.capture_check import checked
from qwenperf.report.traces import trace_report
from qwenperf.traces import graphs, xplane
from qwenperf.traces.diff import diff
from qwenperf.traces.summary import summarize

LAUNCHES = (("cuGraphLaunch (CudaGraph:2)", 1, 2), ("cuGraphLaunch (CudaGraph:2)", 201, 2))
STEPS = ((0, 100), (200, 100))


def gpu(xspaces, *events):
    """Make a GPU's plane; an event is ``(kind, name, start, duration)``, of which an ``op`` names its instruction."""
    plane = xspaces.Plane("/device:GPU:0")
    make = {"op": plane.operation, "kernel": plane.event}
    return plane.line("Stream #13(Compute)", [make[kind](*rest) for kind, *rest in events])


def both_steps(*events):
    return [(kind, name, start + at, spent) for at in (0, 200) for kind, name, start, spent in events]


@pytest.fixture
def summary_of(saved, xspaces):
    """Sum up a GPU's profile; the host launches graphs unless it is told otherwise."""

    def make(*events, host=LAUNCHES):
        planes = gpu(xspaces, *both_steps(*events)), xspaces.cpu(STEPS, (), host)
        return summarize(xplane.read(saved(*planes), "decode"))

    return make


@pytest.mark.parametrize(
    "event",
    [("op", "command_buffer", 10, 60), ("kernel", "CudaGraphExec:2", 10, 60), ("kernel", "gemm_kernel_v2", 10, 60)],
)
def test_what_runs_in_a_graph_is_a_category_of_its_own(summary_of, event):
    """Named by its program, by the profiler, or a kernel that names no operation."""
    found = summary_of(event, ("op", "dot.1", 70, 20), ("kernel", "MemcpyD2H", 90, 5))
    assert found["graphs"] == {"launches": 2, "wall_s": pytest.approx(120e-6), "share": pytest.approx(120 / 170)}
    assert found["categories"][graphs.CATEGORY]["wall_s"] == pytest.approx(120e-6)
    assert set(found["categories"]) == {graphs.CATEGORY, "matmul", "copy"}


def test_without_graphs_nothing_is_hidden(summary_of):
    """A kernel that names no operation is then only that."""
    assert summary_of(("op", "dot.1", 10, 60), ("kernel", "my_kernel", 70, 20), host=())["graphs"] is None
    assert summary_of(("op", "dot.1", 10, 60))["graphs"] is None


def test_a_capture_says_how_much_is_hidden_and_which_flag_shows_it(saved, xspaces):
    """As a finding on the run that was traced."""
    planes = gpu(xspaces, *both_steps(("op", "command_buffer", 10, 60))), xspaces.cpu(STEPS, (), LAUNCHES)
    file = saved(*planes)
    _, _, (found,) = checked(file.parent, "decode", 2, max_bytes=10**6, tokens_per_step=1)
    assert found.code == "trace-graphs"
    assert found.message.startswith("100% of the device's time is inside CUDA graphs")
    assert "--xla_gpu_enable_command_buffer= to XLA_FLAGS" in found.advice


def test_a_report_and_a_difference_say_so_too(summary_of):
    """Whoever asks which operation became slower is told why none is named."""
    base, head = summary_of(("op", "command_buffer", 10, 60)), summary_of(("op", "command_buffer", 10, 80))
    lines = [line.plain for line in trace_report("case", base, roofline=None, timed_s=None, top=5)]
    assert any("100% of the device's time is inside CUDA graphs" in line for line in lines)
    line = next(one.line() for one in diff(base, head).changes if one.name == "command_buffer")
    assert line.startswith("command_buffer +20.0 us a token")
    assert "its operations are hidden, --xla_gpu_enable_command_buffer= in XLA_FLAGS shows them" in line
