"""What does not wait is counted like what does, however a compiler writes it."""

import pytest

from qwenperf.program import analysis, buffers, hlo, kernels, loops

META = ', metadata={op_name="jit(step)/paged/pallas_call" source_file="/src/attention.py" source_line=12}'
KERNEL = f'custom_call_target="tpu_custom_call"{META}'
PRODUCT = """\
%fused (x: bf16[8,16], y: bf16[16,4]) -> bf16[8,4] {
  %x = bf16[8,16]{1,0} parameter(0)
  %y = bf16[16,4]{1,0} parameter(1)
  ROOT %d = bf16[8,4]{1,0} dot(%x, %y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""
ARGUMENTS = (
    '%a = bf16[8,16]{1,0} parameter(0), metadata={op_name="a"}',
    '%w = bf16[16,4]{1,0} parameter(1), metadata={op_name="params.w"}',
)
STARTED = "((bf16[8,16]{1,0}, bf16[16,4]{1,0}), bf16[8,4]{1,0}, s32[])"
FUSION = 'kind=kOutput, calls=%fused, metadata={source_file="/src/mlp.py" source_line=7}'
SHORT = (
    *ARGUMENTS,
    f'%s = {STARTED} fusion-start(%a, %w), async_execution_thread="parallel", {FUSION}',
    f"%u = {STARTED} fusion-update(%s)",
    "ROOT %r = bf16[8,4]{1,0} fusion-done(%u)",
)
PLAIN = (*ARGUMENTS, f"ROOT %r = bf16[8,4]{{1,0}} fusion(%a, %w), {FUSION}")


def test_a_fusion_that_does_not_wait_costs_what_one_that_does_costs(texts):
    """Operations, bytes, fusions, and the line that it comes from."""
    short, plain = (
        analysis.analyse("step", texts.program(*lines, computations=(PRODUCT,))) for lines in (SHORT, PLAIN)
    )
    assert plain.flops == 2 * 8 * 16 * 4
    assert (short.flops, short.hbm_bytes, short.fusions) == (plain.flops, plain.hbm_bytes, plain.fusions)
    assert short.extra["weight_bytes"] == plain.extra["weight_bytes"] == 16 * 4 * 2
    assert [(one.category, one.source) for one in short.operations] == [("matmul", "mlp.py:7")]


def test_a_kernel_that_does_not_wait_is_a_kernel(texts):
    """A gate that looks for it by name finds it, once."""
    module = texts.parsed(
        "%a = f32[4]{0} parameter(0)",
        f"%s = ((f32[4]{{0}}), f32[4]{{0}}, s32[]) custom-call-start(f32[4]{{0}} %a), {KERNEL}",
        "ROOT %r = f32[4]{0} custom-call-done(((f32[4]{0}), f32[4]{0}, s32[]) %s)",
    )
    assert kernels.kernels(module) == ("paged (tpu_custom_call) from attention.py:12",)


def test_a_callback_that_does_not_wait_is_one(texts):
    """The host is called all the same."""
    target = 'custom_call_target="xla_ffi_python_cpu_callback"'
    module = texts.parsed(f"%s = ((), f32[4]{{0}}, s32[]) custom-call-start(), {target}{META}")
    assert kernels.host_calls(module) == ("callback into the host from attention.py:12",)


def test_a_computation_that_is_written_in_short_runs_once_and_leads_back_to_its_arguments(texts):
    """As the long form does."""
    module = texts.parsed(*SHORT, computations=(PRODUCT,))
    runs = loops.schedule(module).runs
    assert {name: times for name, times in runs.items() if name != module.entry} == {"s.wrapped": 1}
    inside = module.root("s.wrapped")
    assert inside.opcode == "fusion"
    assert buffers.argument(module, module.operand(inside, 1)).path == "params.w"
    entry = [one.opcode for one in module.computations[module.entry]]
    assert entry[2:] == ["async-start", "async-update", "async-done"]


@pytest.mark.parametrize(
    "line",
    [
        "%c = (f32[4]{0:S(1)}, f32[4]{0}, u32[]) copy-start(%a)",
        "%c = ((f32[4]{0}), f32[2]{0:S(1)}, s32[]) slice-start(%a), slice={[0:2]}",
        "%c = ((f32[4]{0}), f32[2]{0}) reduce-scatter-start(%a), channel_id=1, dimensions={0}, to_apply=%sum",
        "%c = (f32[4]{0}, f32[4]{0}) collective-permute-start(%a), source_target_pairs={{0,1}}",
        "%c = f32[4]{0} copy-done(%a)",
    ],
)
def test_exchanges_and_prefetches_have_opcodes_of_their_own(texts, line):
    """They are read by these everywhere."""
    (before,) = (one for one in hlo.parse(texts.program(line)).operations if one.name == "c")
    assert before.opcode == line.partition(") ")[2].partition("(")[0] or before.opcode == "copy-done"


def test_a_start_without_a_type_that_says_what_it_makes_stays_as_it_is(texts):
    """Garbled text is left out of the counts, and is no error."""
    assert [one.opcode for one in texts.parsed("%s = f32[4]{0} sort-start(%a)").operations] == ["sort-start"]
