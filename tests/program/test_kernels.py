"""Kernels, callbacks and transfers are named."""

import pytest

from qwenperf.program import kernels, precision

META = ', metadata={op_name="jit(step)/flash_attention/pallas_call" source_file="/src/attention.py" source_line=12}'


def test_a_kernel_is_named_with_its_line(texts):
    module = texts.parsed(f'ROOT %k = f32[4]{{0}} custom-call(%a), custom_call_target="tpu_custom_call"{META}')
    assert kernels.kernels(module) == ("flash_attention (tpu_custom_call) from attention.py:12",)
    assert kernels.host_calls(module) == ()


@pytest.mark.parametrize(
    ("op_name", "name"),
    [
        ("jit(step)/jit(flash)/pallas_call", "flash"),
        ("jit(step)/pallas_call[name=paged]", "paged"),
        ("jit(step)/ffi_call", "tpu_custom_call"),
    ],
)
def test_a_kernel_has_the_name_that_its_author_gave_it(texts, op_name, name):
    line = f'custom-call(%a), custom_call_target="tpu_custom_call", metadata={{op_name="{op_name}"}}'
    module = texts.parsed(f"ROOT %k = f32[4]{{0}} {line}")
    assert kernels.kernel_name(module.operations[0]) == name


@pytest.mark.parametrize(
    "target", ["Sharding", "AllocateBuffer", "SPMDFullToShardShape", "AsyncCollectiveStart", "PrepareAsyncCallStart"]
)
def test_marks_for_the_compiler_are_no_kernels(texts, target):
    module = texts.parsed(f'ROOT %k = f32[4]{{0}} custom-call(%a), custom_call_target="{target}"')
    assert kernels.kernels(module) == kernels.host_calls(module) == ()


@pytest.mark.parametrize(
    "target", ["xla_python_cpu_callback", "xla_ffi_python_cpu_callback", "xla_ffi_partitioned_python_gpu_callback"]
)
def test_a_callback_into_python_is_named_with_its_line(texts, target):
    module = texts.parsed(f'ROOT %k = f32[4]{{0}} custom-call(%a), custom_call_target="{target}"{META}')
    assert kernels.host_calls(module) == ("callback into the host from attention.py:12",)
    assert kernels.kernels(module) == ()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("%s = (f32[4]{0}, u32[], token[]) send(%a, %t), channel_id=1, is_host_transfer=true", "transfer (send)"),
        ("%s = token[] outfeed(%a, %t)", "transfer (outfeed)"),
        ('%s = f32[4]{0} custom-call(%a), custom_call_target="MoveToHost"', "transfer (MoveToHost)"),
        (
            "%s = (f32[4]{0:S(5)}, f32[4]{0}, u32[]) copy-start(%a)",
            "transfer (copy to or from the host's memory)",
        ),
    ],
)
def test_transfers_to_the_host_are_named(texts, line, told):
    assert kernels.host_calls(texts.parsed(line)) == (told,)


def test_an_exchange_between_devices_is_no_transfer_to_the_host(texts):
    assert kernels.host_calls(texts.parsed("%s = (f32[4]{0}, u32[], token[]) send(%a, %t), channel_id=1")) == ()


def test_arithmetic_in_64_bits_is_named_once_with_its_line_and_arguments_by_their_path(texts):
    where = ', metadata={op_name="jit(step)/mul" source_file="/src/rotary.py" source_line=3}'
    module = texts.parsed(
        "%a = f64[4]{0} parameter(0), metadata={op_name=\"tables['cos']\"}",
        f"%m = f64[4]{{0}} multiply(%a, %a){where}",
        f"%n = f64[8]{{0}} multiply(%a, %a){where}",
        "%t = (f64[4]{0}) tuple(%m)",
        "ROOT %c = f32[4]{0} convert(%m)",
    )
    assert precision.double_precision(module) == ("f64 argument `tables['cos']`", "f64 multiply from rotary.py:3")
    assert precision.double_precision(texts.parsed("ROOT %m = f32[4]{0} multiply(%a, %a)")) == ()
