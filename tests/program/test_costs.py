"""What each instruction costs in one call, loops and layers taken together."""

from qwenperf.program import costs, loops

META = 'metadata={op_name="jit(step)/dot_general" source_file="/src/layers.py" source_line=112}'


def layered(texts, count):
    """Make a program of ``count`` equal products, one behind the other."""
    lines = ["%x0 = f32[1,64]{1,0} parameter(0)", "%w = f32[64,64]{1,0} parameter(1)"]
    for number in range(count):
        dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
        cycles = ', backend_config={"estimated_cycles":"100"}' if number else ""
        lines.append(f"%x{number + 1} = f32[1,64]{{1,0}} dot(%x{number}, %w), {dims}, {META}{cycles}")
    return texts.parsed(*lines)


def steps(module):
    return costs.steps(module, loops.schedule(module))


def test_alike_instructions_are_one_entry_with_their_runs_summed(texts):
    module = layered(texts, 3)
    (cost,) = costs.operations(module, steps(module), {1})
    assert (cost.runs, cost.flops, cost.source, cost.extra) == (3, 3 * 2 * 64 * 64, "layers.py:112", {"instances": 3})
    # Cycles of those that have any.
    assert cost.cycles == 200


def test_bytes_of_weights_and_of_other_arguments_are_told_apart(texts):
    module = layered(texts, 2)
    total = costs.totals(module, steps(module), {1})
    assert (total.weight_bytes, total.state_bytes) == (2 * 64 * 64 * 4, 64 * 4)
    assert (total.cycles, total.without_cycles) == (100, 1)


def test_the_list_is_cut_at_the_cheap_end(texts):
    module = texts.parsed(
        "%a = f32[64]{0} parameter(0)",
        "%small = f32[2]{0} slice(%a), slice={[0:2]}",
        "%large = f32[64]{0} negate(%a)",
    )
    assert [cost.name for cost in costs.operations(module, steps(module), ())] == ["large", "small"]
    assert [cost.name for cost in costs.operations(module, steps(module), (), most=1)] == ["large"]


def test_weights_that_nothing_reads_are_told(texts):
    """Of a table that is only looked up that is all but the row; a kernel may read the whole of what it is given."""
    kernel = 'backend_config={"custom_call_config":{"cost_estimate":{"flops":"8","bytes_accessed":"99"}}}'
    module = texts.parsed(
        "%table = f32[1000,64]{1,0} parameter(0)",
        "%row = s32[] parameter(1)",
        "%zero = s32[] constant(0)",
        "%head = f32[64,64]{1,0} parameter(2)",
        "%given = f32[64,64]{1,0} parameter(3)",
        "%x = f32[1,64]{1,0} dynamic-slice(%table, %row, %zero), dynamic_slice_sizes={1,64}",
        "%y = f32[1,64]{1,0} dot(%x, %head), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        f'%z = f32[1,64]{{1,0}} custom-call(%y, %given), custom_call_target="tpu_custom_call", {kernel}',
    )
    total = costs.totals(module, steps(module), {0, 2, 3})
    assert total.unread_weight_bytes == 999 * 64 * 4
    assert total.weight_passes == 1


def test_weights_that_every_step_of_a_loop_reads_are_passed_over_so_many_times(texts):
    """A loop over tokens reads them anew at each; rows of a table that nobody looks up are read by none."""
    state = "(s32[], f32[1,64]{1,0}, f32[64,64]{1,0})"
    go = texts.computation("go", f"%p = {state} parameter(0)", "ROOT %t = pred[] constant(true)")
    body = texts.computation(
        "body",
        f"%p = {state} parameter(0)",
        "%i = s32[] get-tuple-element(%p), index=0",
        "%x = f32[1,64]{1,0} get-tuple-element(%p), index=1",
        "%m = f32[64,64]{1,0} get-tuple-element(%p), index=2",
        "%y = f32[1,64]{1,0} dot(%x, %m), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        f"ROOT %t = {state} tuple(%i, %y, %m)",
    )
    module = texts.parsed(
        "%x0 = f32[1,64]{1,0} parameter(0)",
        "%w = f32[64,64]{1,0} parameter(1)",
        "%zero = s32[] constant(0)",
        f"%state = {state} tuple(%zero, %x0, %w)",
        texts.loop(5, "body", state=state),
        computations=(go, body),
    )
    total = costs.totals(module, steps(module), {1})
    assert (total.weight_bytes, total.unread_weight_bytes, total.weight_passes) == (5 * 64 * 64 * 4, 0, 5)
