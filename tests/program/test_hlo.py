"""HLO text of several compilers is read without JAX."""

from pathlib import Path

import pytest

from qwenperf.program import hlo

SNIPPETS = Path(__file__).parent / "snippets"


def module(name):
    return hlo.parse((SNIPPETS / f"{name}.hlo").read_text())


@pytest.mark.parametrize("version", ["0.10", "0.12"])
def test_parameters_carry_the_callers_key_paths_and_shapes_without_layout(version):
    parameters = module(f"jax-{version}-donated").parameters
    assert [(parameter.number, parameter.path, parameter.shape) for parameter in parameters] == [
        (0, "cache['k']", "f32[2,16,4]"),
        (1, "x", "f32[3,4]"),
        (2, "pos", "s32[3]"),
    ]


@pytest.mark.parametrize("version", ["0.10", "0.12"])
def test_the_alias_of_a_donated_argument_is_seen_and_its_absence_too(version):
    assert module(f"jax-{version}-donated").aliased == {0}
    assert module(f"jax-{version}-undonated").aliased == frozenset()


@pytest.mark.parametrize("version", ["0.10", "0.12"])
def test_operations_inside_fusions_have_their_source_line_from_the_frame_tables(version):
    cosine = next(
        operation for operation in module(f"jax-{version}-donated").operations if operation.opcode == "cosine"
    )
    assert cosine.source == "/src/qwen2.py:6"
    assert cosine.computation == "fused_computation.1"
    assert cosine.op_name == "jit(step)/cos"
    assert cosine.shape == "f32[3,4]"


def test_tuple_types_tilings_and_written_source_lines_are_understood():
    parsed = module("tpu-older")
    assert parsed.name == "jit_decode"
    assert parsed.aliased == {4, 5}
    by_opcode = {operation.opcode: operation for operation in parsed.operations}
    assert by_opcode["sine"].source == "/src/models/rotary.py:32"
    assert by_opcode["while"].shape == "(s32[], /*index=1*/bf16[1,2,512,64])"
    assert by_opcode["copy-start"].shape.startswith("(bf16[1,2,512,64], bf16[1,2,512,64]")
    assert [parameter.number for parameter in parsed.parameters] == [0, 4, 5, 6]


@pytest.mark.parametrize("text", ["", "no program at all", "HloModule x\n\nENTRY %main {\n  %a = \n}"])
def test_text_that_is_no_program_gives_an_empty_module(text):
    parsed = hlo.parse(text)
    assert parsed.operations == parsed.parameters == ()
    assert parsed.aliased == frozenset()
