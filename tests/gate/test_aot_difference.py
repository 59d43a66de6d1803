"""Base against head: the same program passes, and what grew names the buffer, argument or line that made it grow."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from qwenperf.gate.aot import exit_code
from qwenperf.gate.aot_difference import compare_records
from qwenperf.schema.records import Outcome, Status

_SPEC = importlib.util.spec_from_file_location("aot_records", Path(__file__).with_name("aot_records.py"))
made = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(made)


def compared(*, base=None, head=None):
    """Return the verdicts by gate on one case, and the exit code."""
    record = compare_records(made.record(base or made.good_case()), made.record(head or made.good_case()))
    return {verdict.gate: verdict for verdict in record.cases[0].verdicts}, exit_code(record)


def other(**changes):
    """Return a case whose program is another one."""
    return made.good_case(made.good_program(fingerprint="b", **changes))


def failed(verdicts):
    return [name for name, one in verdicts.items() if one.outcome is Outcome.FAIL]


def test_the_same_fingerprint_is_the_same_program_and_passes():
    """Nothing else is said of it."""
    verdicts, code = compared()
    assert [one.summary for one in verdicts.values()] == ["decode_step on v7x-4: the same program"]
    assert code == 0


def test_another_text_with_the_same_numbers_passes():
    """A renamed function is no regression."""
    verdicts, code = compared(head=other())
    assert verdicts["program"].summary == "decode_step on v7x-4: another program, with the same numbers"
    assert (len(verdicts), code) == (1, 0)


def test_a_relayout_of_a_weight_reads_as_one_line():
    """Which program, which target, what grew, from what to what, by which buffer and which line."""
    verdicts, code = compared(head=other(temp_bytes=717_000_000, copies=(made.RELAYOUT,)))
    assert verdicts["temp_bytes"].summary == (
        "decode_step on v7x-4: temporary memory 700 kB -> 717 MB: copy of `params.layers.w_gate_up` "
        "(bf16[24,896,9728]) to another layout, from qwen2.py:88"
    )
    assert failed(verdicts) == ["temp_bytes", "copied_bytes", "relayout_bytes"]
    assert code == 1


@pytest.mark.parametrize(
    ("changes", "gate", "told"),
    [
        ({"copies": (made.UPCAST,)}, "upcast_bytes", "copy of `params.layers.w_gate_up` to f32[24,896,9728], wider"),
        ({"collectives": (made.PERMUTE,)}, "collectives_per_layer", "0 -> 1: collective-permute of bf16[1,1152]"),
        ({"unaliased_donations": ("cache.k bf16[2]",)}, "unaliased_donations", "0 -> 1: `cache.k` (bf16[2])"),
        ({"trigonometric": ("sine from rotary.py:8",)}, "trigonometric", "0 -> 1: sine from rotary.py:8"),
        ({"double_precision": ("add from x.py:1",)}, "double_precision", "add from x.py:1"),
        ({"host_calls": ("print from x.py:1",)}, "host_calls", "print from x.py:1"),
        (
            {"hbm_bytes": 2.9e9, "operations": (made.PRODUCT, made.SCORES)},
            "hbm_bytes",
            "1.00 GB -> 2.90 GB: new: attention f32[14,4096,4096] from attention.py:40: 0 B -> 1.90 GB",
        ),
        ({"flops": 2e9, "operations": (made.PRODUCT, made.SCORES)}, "flops", "1,000,000,000 flop in attention"),
    ],
)
def test_what_is_new_in_head_is_the_cause(changes, gate, told):
    """What base has as well explains nothing."""
    verdicts, code = compared(head=other(**changes))
    assert gate in failed(verdicts)
    assert told in verdicts[gate].summary
    assert code == 1


def test_a_copy_that_base_has_too_is_no_cause():
    """Only the second of two copies is new."""
    base = other(temp_bytes=500_000_000, copies=(made.RELAYOUT,))
    second = replace(made.RELAYOUT, buffer="params.layers.w_down", operation="copy.2", bytes=10**8)
    head = made.good_case(made.good_program(fingerprint="c", temp_bytes=600_000_000, copies=(made.RELAYOUT, second)))
    verdicts, _ = compared(base=base, head=head)
    assert "`params.layers.w_down`" in verdicts["temp_bytes"].summary
    assert "w_gate_up" not in verdicts["temp_bytes"].summary


def test_what_every_layer_does_is_told_once():
    """Twenty-four unrolled layers are one thing to mend."""
    copies = tuple(
        replace(made.RELAYOUT, buffer=f"params.layers.{layer}.w_down", bytes=10**7, operation=f"copy.{layer}")
        for layer in range(24)
    )
    verdicts, _ = compared(head=other(temp_bytes=240_000_000, copies=copies))
    assert "`params.layers.0.w_down` (bf16[24,896,9728]) to another layout, from qwen2.py:88 and 23 like it" in (
        verdicts["temp_bytes"].summary
    )
    assert verdicts["temp_bytes"].detail == ()


def test_a_cache_that_grows_is_named_with_both_shapes():
    """An argument grew: it is no temporary."""
    head = other(argument_bytes=1_100_000_000, peak_bytes=1_110_000_000)
    head = replace(head, arguments=(head.arguments[0], replace(made.CACHE, shape="bf16[24,2,16384,64]", bytes=10**8)))
    verdicts, _ = compared(head=head)
    assert (
        "`cache.k` bf16[24,2,576,64] -> bf16[24,2,16384,64] (3.54 MB -> 100 MB)" in verdicts["argument_bytes"].summary
    )
    assert "`cache.k`" in verdicts["peak_bytes"].summary


def test_an_argument_that_is_no_longer_donated_is_named():
    """Nothing is donated without effect then, and the cache is held twice all the same."""
    head = other(alias_bytes=0, peak_bytes=1_060_000_000, temp_bytes=4_200_000)
    head = replace(head, arguments=(head.arguments[0], replace(made.CACHE, donated=False)))
    verdicts, code = compared(head=head)
    assert "`cache.k` (bf16[24,2,576,64], 3.54 MB) was donated in base and is not in head" in (
        verdicts["alias_bytes"].summary
    )
    assert code == 1


def test_a_smaller_cache_has_less_to_alias_and_is_no_regression():
    """Less memory is better, also where less of it is updated in place, and where a layout pads the cache."""
    smaller = replace(made.CACHE, shape="bf16[24,2,144,64]", bytes=made.CACHE.bytes // 4)
    head = other(alias_bytes=smaller.bytes, argument_bytes=997_000_000)
    verdicts, code = compared(head=replace(head, arguments=(head.arguments[0], smaller)))
    assert (failed(verdicts), code) == ([], 0)
    padded = made.good_case(made.good_program(alias_bytes=2 * made.CACHE.bytes))
    head = other(alias_bytes=2 * smaller.bytes, argument_bytes=990_000_000)
    verdicts, code = compared(base=padded, head=replace(head, arguments=(head.arguments[0], smaller)))
    assert (failed(verdicts), code) == ([], 0)


def test_smaller_weights_do_not_excuse_a_cache_that_is_copied():
    """Quantised, the arguments are less by more than the cache; that it is no longer updated in place is a loss."""
    head = other(alias_bytes=0, argument_bytes=500_000_000, peak_bytes=510_000_000)
    weight = replace(head.arguments[0], shape="s8[24,896,9728]", bytes=made.WEIGHT_BYTES // 2)
    for cache, told in (
        (replace(made.CACHE, donated=False), "`cache.k` (bf16[24,2,576,64], 3.54 MB) was donated in base and is not"),
        (made.CACHE, "updated in place 3.54 MB -> 0 B"),
    ):
        verdicts, code = compared(head=replace(head, arguments=(weight, cache)))
        assert (failed(verdicts), code) == (["alias_bytes"], 1)
        assert told in verdicts["alias_bytes"].summary


def test_what_is_no_longer_donated_fails_though_something_else_is_updated_instead():
    """The sum of the bytes hides it; what is small beside the program is nothing."""
    small = replace(made.CACHE, path="length", shape="s32[]", bytes=4)
    base = replace(made.good_case(), arguments=(*made.good_case().arguments, small))
    grown = replace(made.CACHE, path="cache.v")
    lost = tuple(replace(one, donated=False) for one in (made.CACHE, small))
    verdicts, code = compared(base=base, head=replace(other(), arguments=(base.arguments[0], grown, *lost)))
    assert (failed(verdicts), code) == (["donation"], 1)
    assert "`cache.k` (bf16[24,2,576,64], 3.54 MB) was donated in base and is not" in verdicts["donation"].summary
    assert verdicts["donation"].detail == ()
    verdicts, code = compared(base=base, head=replace(other(), arguments=(*base.arguments[:2], lost[1])))
    assert (failed(verdicts), code) == ([], 0)


def test_what_shrinks_is_an_improvement_and_says_what_is_gone():
    """Read the other way round, the same difference is good news."""
    verdicts, code = compared(base=other(temp_bytes=717_000_000, copies=(made.RELAYOUT,)))
    assert verdicts["temp_bytes"].outcome is Outcome.IMPROVED
    assert "717 MB -> 700 kB: gone: copy of `params.layers.w_gate_up`" in verdicts["temp_bytes"].summary
    assert code == 0


def test_an_improvement_is_not_explained_by_what_base_has_more_of_the_other_way_round():
    """An argument that base alone has is no new one."""
    base = other(peak_bytes=1_200_000_000, argument_bytes=1_190_000_000, hbm_bytes=2e9)
    extra = replace(made.CACHE, path="cache.old", bytes=190_000_000)
    verdicts, _ = compared(base=replace(base, arguments=(*base.arguments, extra)))
    assert {verdicts[name].outcome for name in ("peak_bytes", "argument_bytes", "hbm_bytes")} == {Outcome.IMPROVED}
    assert not any("cache.old" in line for one in verdicts.values() for line in (one.summary, *one.detail))


@pytest.mark.parametrize("changes", [{"hbm_bytes": 1.02e9}, {"temp_bytes": 1_600_000}])
def test_a_small_change_is_told_and_passes(changes):
    """Less than 3%, or small beside the whole program."""
    verdicts, code = compared(head=other(**changes))
    (gate,) = changes
    assert verdicts[gate].outcome is Outcome.PASS
    assert "within what is accepted" in verdicts[gate].summary
    assert code == 0


def test_an_estimate_is_told_and_fails_nothing():
    """It rests on published peaks, and is no fact about the program."""
    head = other()
    head = replace(head, estimate=replace(head.estimate, seconds=5e-3, tokens_per_s=200.0))
    verdicts, code = compared(head=head)
    assert verdicts["estimate_s"].outcome is Outcome.PASS
    assert "estimated time (estimate) 1.30 ms -> 5.00 ms" in verdicts["estimate_s"].summary
    assert code == 0


def test_a_number_that_is_not_the_same_twice_is_not_compared():
    """On either side."""
    verdicts, code = compared(head=other(temp_bytes=10**9, unstable=("temp_bytes",)))
    assert "temp_bytes" not in verdicts
    assert code == 0


def test_kernels_that_are_not_the_same_twice_are_not_compared():
    """On either side."""
    base = other(kernels=("flash_attention_kernel",), unstable=("kernels",))
    verdicts, code = compared(base=base, head=made.good_case(made.good_program(fingerprint="c")))
    assert "kernels" not in verdicts
    assert code == 0


def test_a_kernel_that_is_gone_fails_and_says_what_runs_instead():
    """Flash attention was replaced by what the compiler makes of plain attention."""
    base = other(kernels=("flash_attention_kernel",))
    program = made.good_program(
        fingerprint="c", temp_bytes=940_000_000, hbm_bytes=2.9e9, operations=(made.PRODUCT, made.SCORES)
    )
    verdicts, code = compared(base=base, head=made.good_case(program))
    assert "kernel `flash_attention_kernel` is gone: instead result of attention f32[14,4096,4096]" in (
        verdicts["kernels"].summary
    )
    assert code == 1


def test_a_kernel_whose_line_moved_is_the_same_kernel():
    """Lines move with every change of the file."""
    base, head = (other(kernels=(f"flash (tpu_custom_call) from attention.py:{line}",)) for line in (12, 14))
    head = replace(head, program=replace(head.program, fingerprint="c"))
    verdicts, code = compared(base=base, head=head)
    assert "kernels" not in verdicts
    assert code == 0


def test_what_no_longer_compiles_fails_and_what_now_compiles_is_better():
    """Base's own compiler took it."""
    refused = made.good_case(status=Status.FAILED, error="ValueError: The block is odd.", program=None, fit=None)
    refused = replace(refused, program=None)
    verdicts, code = compared(head=refused)
    assert verdicts["compiles"].summary == (
        "decode_step on v7x-4: compiled in base, and in head the compiler refuses it: The block is odd"
    )
    assert code == 1
    verdicts, code = compared(base=refused)
    assert verdicts["compiles"].outcome is Outcome.IMPROVED
    assert code == 0


def test_what_neither_side_compiled_was_not_compared():
    """And is not green."""
    hung = replace(made.good_case(status=Status.TIMED_OUT, error="no answer in 60 s"), program=None)
    assert compared(base=hung, head=hung)[1] == 5


def test_a_program_that_only_base_has_is_missing_and_a_new_one_passes():
    """Nothing is lost in silence."""
    both = compare_records(made.record(made.good_case(target="v5e-1")), made.record(made.good_case()))
    assert [finding.code for finding in both.findings] == ["program-missing"]
    assert both.cases[0].verdicts[0].data == {"new": True}
    assert exit_code(both) == 5


@pytest.mark.parametrize("side", ["base", "head"])
def test_a_side_whose_text_nobody_understood_has_lost_and_gained_nothing(side):
    """Less of everything is no improvement where nothing was read; sizes count all the same."""
    full = other(copies=(made.RELAYOUT,), collectives=(made.ALL_REDUCE,), kernels=("flash",), temp_bytes=10**8)
    unread = made.good_case(made.UNREAD)
    verdicts, code = compared(**({"base": full, "head": unread} if side == "head" else {"base": unread, "head": full}))
    assert f"the compiled text of {side} was not understood" in verdicts["program"].summary
    assert set(verdicts) == {"program", "temp_bytes"}
    assert verdicts["temp_bytes"].outcome is (Outcome.IMPROVED if side == "head" else Outcome.FAIL)
    assert code == 5


def test_other_compilers_are_told():
    """A difference may be theirs."""
    head = made.record(environment={"jax": "0.11.0", "jaxlib": "0.11.0", "libtpu": "0.0.42"})
    (finding,) = compare_records(made.record(), head).findings
    assert "jax 0.10.2 in base, 0.11.0 in head" in finding.message
    assert "libtpu" not in finding.message


@pytest.mark.parametrize("changes", [{"interrupted": True, "cases": ()}, {"cases": (), "declared": ()}])
def test_a_base_that_is_incomplete_proves_nothing(changes):
    """Interrupted, or empty: nothing of head was compared, and that is not green."""
    record = compare_records(replace(made.record(), **changes), made.record())
    (verdict,) = record.cases[0].verdicts
    assert verdict.summary == "decode_step on v7x-4: not compared: base is incomplete and lacks it"
    assert exit_code(record) == 5


def test_a_program_that_neither_side_has_is_missing():
    """Base was asked for it, and head was not."""
    base = made.record(declared=(made.good_case().id, "other@v5e-1/x"), interrupted=True)
    record = compare_records(base, made.record())
    assert [one.message for one in record.findings] == ["other@v5e-1/x: asked for in base, and on neither side."]
    assert exit_code(record) == 5


def test_a_program_that_base_was_never_asked_for_is_new():
    """It has nothing to be compared with, and fails nothing."""
    new = made.good_case(target="v5e-1")
    record = compare_records(made.record(), made.record(made.good_case(), new))
    assert record.cases[1].verdicts[0].data["new"] is True
    assert exit_code(record) == 0
