"""Operations are sorted by what they compute and for whom; by their names where nothing else is known."""

import pytest

from qwenperf.traces.categories import categorize, category


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ynn_fusion", "matmul"),
        ("dot.3", "matmul"),
        ("select_dynamic-update-slice_fusion", "cache update"),
        ("multiply_reduce_fusion", "reduction"),
        ("broadcast_add_fusion", "elementwise"),
        ("bitcast_add_fusion", "elementwise"),
        ("transpose_copy_fusion", "copy"),
        ("MemcpyD2H", "copy"),
        ("wrapped_convert", "convert"),
        ("dynamic-slice.4", "gather"),
        ("all-reduce-start", "collective"),
        ("ncclDevKernel_AllReduce", "collective"),
        ("cudnn_fmha", "attention"),
        ("while", "control"),
        ("rng", "other"),
        ("custom-call.5", "other"),
        ("xla_ffi_python_cpu_callback", "host"),
        ("call.1", "control"),
        ("ampere_sgemm_32x128_tn", "matmul"),
        ("nvjet_tst_64x8_64x16_1x1_v_bz_TNN", "matmul"),
    ],
)
def test_names_alone_tell_the_category(name, expected):
    assert category(name) == expected


@pytest.mark.parametrize(
    ("opcode", "computed", "scopes", "expected"),
    [
        ("dot", {"dot"}, (), "matmul"),
        ("fusion", {"dot", "multiply"}, ("linear", "self_attention"), "matmul"),
        ("fusion", {"dot", "multiply"}, ("_score", "attend", "self_attention"), "attention"),
        ("fusion", {"multiply", "rsqrt"}, ("rms_norm", "_block"), "norm"),
        ("fusion", {"transpose", "bitcast"}, ("attend",), "copy"),
        ("copy", {"copy"}, (), "copy"),
        ("fusion", {"convert", "copy"}, ("rms_norm",), "convert"),
        ("fusion", {"dynamic-update-slice", "select"}, ("attention",), "cache update"),
        ("all-reduce-start", {"all-reduce-start"}, (), "collective"),
        ("while", {"while"}, ("attend",), "control"),
        ("infeed", {"infeed"}, (), "host"),
        ("fusion", {"reduce", "add"}, (), "reduction"),
        ("fusion", {"gather", "add"}, (), "gather"),
        ("fusion", {"add", "broadcast"}, ("_block",), "elementwise"),
    ],
)
def test_an_instruction_is_sorted_by_work_then_by_its_nearest_scope(opcode, computed, scopes, expected):
    assert categorize(opcode, computed, scopes) == expected


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("__cublas$gemm", "matmul"),
        ("__cudnn$fmhaSoftmax", "attention"),
        ("xla_ffi_python_cpu_callback", "host"),
        ("mine", "other"),
    ],
)
def test_a_custom_call_is_sorted_by_what_it_calls(target, expected):
    assert categorize("custom-call", {"custom-call"}, (), target) == expected
