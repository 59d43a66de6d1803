"""Traces as lines of text: numbers first, names last, and how far an operation is from the roofline."""

import pytest

from qwenperf.report.terminal import render
from qwenperf.report.traces import diff_report, run_lines, trace_report
from qwenperf.schema.records import Roofline
from qwenperf.traces.diff import REQUESTS, diff

ROOFLINE = Roofline(bytes_per_s=1e9, flops_per_s=1e9)


def summary(*, flops=0.0, moved=0.0, wall_s=0.004):
    row = {"name": "dot", "category": "matmul", "source": "model.py:3", "count": 4, "wall_s": wall_s}
    return {
        "steps": 5,
        "step_s": [0.002] * 4 + [0.1],
        "typical_steps": 4,
        "typical_s": 0.008,
        "operations": [{**row, "flops": flops, "bytes": moved}],
        "categories": {"matmul": {"wall_s": wall_s}},
        "host": {"gap_s": 0.008 - wall_s, "doing": []},
        "dispatches": [1, 1, 1, 1, 1],
    }


def lines_of(**more):
    told = trace_report("case", summary(**more), roofline=ROOFLINE, timed_s=0.0018, top=5)
    return render(told).splitlines()


@pytest.mark.parametrize(
    ("costs", "told"),
    [
        ({"moved": 2e6}, "50% memory"),
        ({"flops": 1e6, "moved": 1e3}, "25% arithmetic"),
        ({"moved": 8e6}, ">100% memory"),
        ({}, "-"),
    ],
)
def test_an_operation_s_place_on_the_roofline_is_the_time_it_had_to_take(costs, told):
    line = next(line for line in lines_of(**costs) if "dot" in line)
    assert line == f"   1.00 ms   50%      1 {told:>15}  dot: matmul from model.py:3"


def test_slow_steps_and_the_time_without_the_profiler_are_told():
    lines = lines_of()
    assert lines[1] == "5 steps, 2.00 ms a token; the device is busy 50% of it; 1 program a step"
    assert lines[2].startswith("1 of them took more than twice the median and are left out below; they add 19.6 ms")
    assert lines[3] == (
        "without the profiler a token took 1.80 ms: a streamed step (itl_p50_s); "
        "tokens/s in the run's table are of whole requests on the device"
    )
    told = trace_report("case", summary(), roofline=ROOFLINE, timed_s=0.0018, top=5, timed=REQUESTS)
    assert render(told).splitlines()[3].endswith("1.80 ms: whole requests, prefill included")


def test_of_several_programs_it_is_told_what_each_takes():
    """As in a whole request, whose prefill and loop are two; of one program there is nothing to tell."""
    seen = summary()
    (row,) = seen["operations"]
    took = {"jit_prefill": 0.001, "jit_loop": 0.003}
    seen["operations"] = [{**row, "program": name, "wall_s": wall_s} for name, wall_s in took.items()]
    text = render(trace_report("case", seen, roofline=None, timed_s=None, top=5))
    assert "\nby program: 750 us in jit_loop, 250 us in jit_prefill\n" in text
    assert "by program" not in "".join(lines_of())


def test_a_diff_names_both_cases_and_what_is_unexplained():
    found = diff(summary(), summary(wall_s=0.006), timed_base_s=0.001, timed_head_s=0.002)
    text = render(diff_report("a", "b", found, top=1))
    assert text.startswith("a -> b\na token in the traces: 2.00 ms -> 2.00 ms (+0 s)\n")
    assert "the traces leave +1.00 ms of that unexplained, 100% of it" in text
    assert "   1.00 ms    1.50 ms    +500 us  dot: matmul, from model.py:3" in text
    assert "   1.00 ms     500 us    -500 us  1 more" in text


def test_a_run_is_one_line_however_long_its_path():
    run = {"path": "p" * 200, "sessions": ["a", "b"], "bytes": 1500, "suite": "smoke", "problem": "no run.json"}
    text = render(run_lines([{**run, "under_way": True, "killed": 2}]))
    assert text.splitlines()[1] == f"     2  1.50 kB  {'p' * 200}  smoke, no run.json, under way, 2 killed captures"


def test_no_trace_steers_a_terminal():
    """Names of cases and operations come from anywhere; half a character is none that a terminal can be sent."""
    evil, seen = "\x1b]0;x\x07\ud800", summary()
    seen["operations"] = [{**row, "name": evil, "source": evil} for row in seen["operations"]]
    seen["categories"] = {evil: {"wall_s": 0.004}}
    shown = trace_report(evil, seen, roofline=ROOFLINE, timed_s=None, top=5)
    compared = diff_report(evil, "head", diff(summary(), seen), top=5)
    lines = [line.plain for line in (*shown, *compared)]
    assert [line for line in lines if not line.isprintable()] == []
    assert any("?]0;x" in line for line in lines)
