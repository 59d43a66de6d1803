"""Two summaries are compared by what operations are; all differences add up, and what is not explained is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qwenperf.errors import RecordError
from qwenperf.traces.diff import HOST_GAP, REST, Kind, diff, longest_lines, top_lines
from qwenperf.traces.matching import match
from qwenperf.traces.tokens import Row, per_token

MS = 1e-3


def operation(name, wall_ms, **about):
    return {
        "name": name,
        "program": "jit_step",
        "category": "matmul",
        "op_name": f"jit(step)/{name}",
        "source": "model.py:10",
        "shape": "f32[8]",
        "reads": "",
        "count": 4,
        "time_s": 2 * wall_ms * MS,
        "wall_s": wall_ms * MS,
        **about,
    }


def summary(rows, *, gap_ms=4.0, steps=4, slow_s=(), doing=(), tokens_per_step=1, listed=60):
    """A summary of ``steps`` equal steps that hold ``rows`` and a gap."""
    typical_s = sum(row["wall_s"] for row in rows) + gap_ms * MS
    categories = {}
    for row in rows:
        mine = categories.setdefault(row["category"], {"count": 0, "time_s": 0.0, "wall_s": 0.0})
        mine["wall_s"] += row["wall_s"]
    return {
        "version": 2,
        "steps": steps + len(slow_s),
        "step_s": [typical_s / steps] * steps + list(slow_s),
        "typical_steps": steps,
        "typical_s": typical_s,
        "tokens_per_step": tokens_per_step,
        "operations": rows[:listed],
        "categories": categories,
        "host": {"gap_s": gap_ms * MS, "doing": [{"name": name, "time_s": spent} for name, spent in doing]},
    }


BASE = [operation("dot", 8.0), operation("copy", 2.0, category="copy", source="model.py:20")]


def ms(value):
    return pytest.approx(value * MS)


def test_an_operation_that_takes_longer_comes_first_with_its_time_per_token():
    found = diff(summary(BASE), summary([operation("dot", 20.0), BASE[1]]))
    assert (found.base_s, found.head_s, found.difference_s) == (ms(3.5), ms(6.5), ms(3.0))
    first = found.changes[0]
    assert (first.name, first.kind, first.base_s, first.head_s, first.base_count) == ("dot", Kind.SAME, ms(2), ms(5), 1)
    assert first.line() == "dot +3.00 ms a token (2.00 ms -> 5.00 ms): matmul, f32[8] from model.py:10"
    assert ("matmul", ms(2), ms(5)) in found.categories


def test_what_explains_an_improvement_comes_first_when_head_is_faster():
    found = diff(summary([operation("dot", 20.0), BASE[1]]), summary([operation("dot", 8.0), operation("new", 1.0)]))
    assert (found.changes[0].name, found.changes[0].difference_s) == ("dot", ms(-3))


def test_a_pause_of_the_host_is_the_host_gap_with_what_the_host_did():
    slow = summary(BASE, gap_ms=44.0, doing=[("Python", 0.04), ("ParseArguments", 0.001)])
    first = diff(summary(BASE, doing=[("Python", 0.002)]), slow).changes[0]
    assert (first.name, first.difference_s, first.category) == (HOST_GAP, ms(10), "host")
    assert "the host is in Python" in first.line()


def test_another_number_another_line_and_another_shape_are_the_same_operation():
    """The compiler's numbers are no part of a name; a line may move, a shape may change."""
    moved = operation("copy", 2.0, category="copy", source="model.py:99")
    bigger = operation("dot", 8.0, shape="f32[16]")
    found = {one.name: one for one in diff(summary(BASE), summary([bigger, moved])).changes}
    assert (found["copy"].kind, found["dot"].kind) == (Kind.MOVED, Kind.CHANGED)
    assert found["copy"].detail.endswith("was model.py:20")
    assert found["dot"].detail.endswith("was f32[8]")


def test_new_and_gone_operations_are_told():
    head = [BASE[0], operation("transpose", 6.0, category="copy", op_name="jit(step)/transpose", source="mine.py:3")]
    found = diff(summary(BASE), summary(head))
    assert (found.changes[0].kind, found.changes[0].name) == (Kind.NEW, "transpose")
    assert found.changes[0].line().startswith("new: transpose +1.50 ms a token (0 s -> 1.50 ms): copy")
    assert (found.changes[-1].kind, found.changes[-1].name) == (Kind.GONE, "copy")


def test_the_same_operation_of_a_renamed_program_is_found():
    head = [{**row, "program": "jit_generate"} for row in BASE]
    kinds = {one.name: one.kind for one in diff(summary(BASE), summary(head)).changes}
    assert kinds["dot"] is kinds["copy"] is Kind.MOVED


rows = st.lists(
    st.builds(
        operation,
        st.sampled_from(["dot", "copy", "add"]),
        st.floats(min_value=0, max_value=50),
        source=st.sampled_from(["", "a.py:1", "b.py:2"]),
        shape=st.sampled_from(["f32[8]", "f32[9]"]),
        program=st.sampled_from(["jit_a", "jit_b"]),
    ),
    max_size=6,
)


@given(rows, rows, st.floats(min_value=1, max_value=9), st.integers(min_value=1, max_value=5))
def test_differences_always_add_up_to_that_of_the_steps(base, head, gap_ms, listed):
    """Whatever matches, is new, gone or not listed."""
    found = diff(summary(base, gap_ms=gap_ms), summary(head, listed=listed))
    assert sum(one.difference_s for one in found.changes) == pytest.approx(found.difference_s, abs=1e-12)
    assert sum(new - old for _, old, new in found.categories) == pytest.approx(found.difference_s, abs=1e-12)


@given(st.permutations(range(5)), st.permutations(range(5)))
def test_every_operation_is_paired_once(left, right):
    base = [Row(name="dot", source=f"a.py:{index}", seconds=index) for index in left]
    head = [Row(name="dot", source=f"a.py:{index}", seconds=index) for index in right]
    assert sorted((one.source, other.source) for one, other in match(base, head)) == [
        (f"a.py:{i}",) * 2 for i in range(5)
    ]


def test_operations_that_are_not_listed_are_one_line():
    many = [operation(f"op{index}", 1.0, source=f"a.py:{index}") for index in range(6)]
    found = diff(summary(many, listed=2), summary([{**row, "wall_s": 2 * MS} for row in many], listed=2))
    assert {one.name: one.difference_s for one in found.changes}[REST] == ms(1.0)


def test_slow_steps_explain_nothing_and_are_told_apart():
    found = diff(summary(BASE), summary(BASE, slow_s=(0.1,)))
    assert found.difference_s == ms(0)
    assert (found.slow_base_s, found.slow_head_s) == (ms(0), ms((4 * 3.5 + 100) / 5 - 3.5))


def test_a_step_that_is_a_whole_request_is_told_per_token():
    whole = summary(BASE, tokens_per_step=10)
    assert (per_token(whole).step_s, per_token(whole).gap_s) == (ms(0.35), ms(0.1))


def test_what_was_timed_and_traces_do_not_show_is_told():
    head = summary([operation("dot", 20.0), BASE[1]])
    assert diff(summary(BASE), head, timed_base_s=1 * MS, timed_head_s=4.2 * MS).reconciles()
    found = diff(summary(BASE), head, timed_base_s=1 * MS, timed_head_s=7 * MS)
    assert not found.reconciles()
    assert found.unexplained_s == ms(3)
    assert diff(summary(BASE), head).unexplained_s is None


def test_a_summary_of_an_older_version_is_read():
    """It knew names and thread times only."""
    old = {"steps": 2, "step_s": [0.01, 0.01], "device_busy_s": 0.012, "host_gap_s": 0.008}
    old["operations"] = [{"name": "dot", "category": "matmul", "count": 4, "time_s": 0.03, "share": 1.0}]
    seen = per_token(old)
    assert (seen.step_s, seen.gap_s, seen.rows[0].seconds, seen.rest_s) == (ms(10), ms(4), ms(6), ms(0))
    assert diff(old, summary(BASE)).changes


@pytest.mark.parametrize(
    "odd", [None, {}, {"step_s": []}, {"step_s": ["x"]}, {"step_s": [1.0]}, [1], {"step_s": [0.0]}]
)
def test_what_is_no_summary_is_an_error_and_explains_nothing(odd):
    with pytest.raises(RecordError):
        per_token(odd)
    assert top_lines(odd, summary(BASE)) == top_lines(summary(BASE), odd) == longest_lines(odd) == ()


def test_three_lines_say_what_slowed_a_token_and_none_if_nothing_did():
    head = summary([operation("dot", 20.0), operation("copy", 6.0, category="copy", source="model.py:20")], gap_ms=8.0)
    lines = top_lines(summary(BASE), head)
    assert [line.split(" +")[0] for line in lines] == ["dot", "copy", "host gap"]
    assert top_lines(head, summary(BASE)) == ()


def test_three_lines_say_where_a_token_s_time_goes():
    lines = longest_lines(summary(BASE))
    assert lines[0] == "dot (matmul) f32[8] from model.py:10: 2.00 ms of 3.50 ms a token"
    assert lines[1].startswith("host gap: 1.00 ms")


def of_requests(*parts, gap_ms=4.0):
    """A summary of whole requests of ten tokens: rows of programs by name and time."""
    rows = [operation(name, spent, program=program) for program, name, spent in parts]
    return {**summary(rows, gap_ms=gap_ms, tokens_per_step=10), "of": "requests"}


def test_of_whole_requests_it_is_told_which_program_took_longer_and_what_no_program_did():
    """The prefill of a request and its loop are programs; a pause between two requests is in neither."""
    base = of_requests(("jit_prefill", "dot", 8.0), ("jit_loop", "dot", 80.0))
    head = of_requests(("jit_prefill", "dot", 88.0), ("jit_loop", "dot", 84.0), gap_ms=12.0)
    found = diff(base, head)
    assert found.of == "requests"
    assert found.programs == (("jit_prefill", ms(0.2), ms(2.2)), ("jit_loop", ms(2.0), ms(2.1)))
    line = top_lines(base, head)[-1]
    assert line == "+2.30 ms a token: +2.00 ms in jit_prefill, +100 us in jit_loop, +200 us while nothing runs"
    assert [one["program"] for one in found.to_json()["programs"]] == ["jit_prefill", "jit_loop"]


def test_requests_that_were_timed_reconcile_with_requests_that_were_traced():
    """Within a tenth nothing is said; beyond, how much."""
    base, head = of_requests(("jit_loop", "dot", 80.0)), of_requests(("jit_loop", "dot", 120.0))
    told = {"timed_of": "requests"}
    assert len(top_lines(base, head, timed={"base": 2e-3, "head": 3e-3}, **told)) == 1
    (_, left) = top_lines(base, head, timed={"base": 2e-3, "head": 4e-3}, **told)
    assert left == "the traces leave +1.00 ms a token of the +2.00 ms that was timed unexplained"


def test_what_steps_do_not_show_of_requests_is_said_to_lie_outside_of_them():
    """In the prefill, or on the host between requests."""
    base, head = summary(BASE), summary([operation("dot", 12.0), BASE[1]])
    timed = {"base": 3.5e-3, "head": 6.5e-3}
    found = diff(base, head, timed_base_s=3.5e-3, timed_head_s=6.5e-3, timed="requests")
    assert (found.of, found.outside, found.unexplained_s) == ("steps", True, ms(2.0))
    left = top_lines(base, head, timed=timed, timed_of="requests")[-1]
    assert left.startswith("+2.00 ms a token of the +3.00 ms that was timed lies outside the steady steps")
    assert "outside" not in top_lines(base, head, timed=timed)[-1]
