"""A compiled program is judged by what the compiler made of it, and a failure names buffer, argument or line."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from qwenperf.gate.aot import UNMATCHED, exit_code, judge
from qwenperf.gate.aot_budget import ProgramBudgets, parse
from qwenperf.gate.aot_facts import FACTS
from qwenperf.schema.records import Outcome, Status

_SPEC = importlib.util.spec_from_file_location("aot_records", Path(__file__).with_name("aot_records.py"))
made = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(made)


def judged(case, **limits):
    """Return the verdicts by gate under a budget for everything."""
    budgets = parse({"*@*": limits}, "x") if limits else ProgramBudgets()
    record = judge(made.record(case), budgets)
    return {verdict.gate: verdict for verdict in record.cases[0].verdicts}, exit_code(record)


def test_a_good_program_passes_and_says_how_much_room_is_left():
    """Without a budget: it compiles, fits, and its donations alias."""
    verdicts, code = judged(made.good_case())
    assert {name: one.outcome for name, one in verdicts.items()} == dict.fromkeys(
        ("compiles", "memory", "donation"), Outcome.PASS
    )
    assert "context up to 500,000" in verdicts["memory"].summary
    assert code == 0


@pytest.mark.parametrize(
    ("changes", "limit", "told"),
    [
        (
            {"temp_bytes": 717_000_000, "copies": (made.RELAYOUT,)},
            {"temp_bytes": {"max": 1_000_000}},
            (
                "decode_step on v7x-4: temporary memory 717 MB is above its budget of at most 1.00 MB: copy of "
                "`params.layers.w_gate_up` (bf16[24,896,9728]) to another layout, from qwen2.py:88"
            ),
        ),
        ({"copies": (made.RELAYOUT,)}, {"relayouts": {"max": 0}}, "`params.layers.w_gate_up`"),
        ({"copies": (made.RELAYOUT,)}, {"copied_bytes": {"max": 0}}, "to another layout, from qwen2.py:88"),
        (
            {"copies": (made.UPCAST,)},
            {"upcast_bytes": {"max": 0}},
            "`params.layers.w_gate_up` to f32[24,896,9728], wider than bf16",
        ),
        (
            {"collectives": (made.ALL_REDUCE, made.PERMUTE)},
            {"collective_permutes": {"max": 0}},
            "number of collective-permutes 24 is above its budget of at most 0: collective-permute of bf16[1,1152]",
        ),
        (
            {"collectives": (made.ALL_REDUCE, made.PERMUTE)},
            {"collectives": {"max": 24}},
            "number of collectives 48 is above its budget of at most 24: collective-permute of bf16[1,1152]",
        ),
        (
            {"collectives": (made.ALL_REDUCE, made.PERMUTE)},
            {"collectives_per_layer": {"max": 1}},
            "collectives a layer 2 is above",
        ),
        ({"trigonometric": ("cosine from rotary.py:8",)}, {"trigonometric": {"max": 0}}, "cosine from rotary.py:8"),
        ({"double_precision": ("add from loss.py:3",)}, {"double_precision": {"max": 0}}, "add from loss.py:3"),
        ({"host_calls": ("print from step.py:1",)}, {"host_calls": {"max": 0}}, "print from step.py:1"),
        ({}, {"estimate_tokens_per_s": {"min": 900}}, "estimated speed (estimate) 790"),
        ({}, {"longest_context": {"min": 10**6}}, "longest context that fits (estimate) 500,000"),
        ({}, {"argument_bytes": {"max": 10}}, "`params.layers.w_gate_up` (bf16[24,896,9728], 418 MB)"),
    ],
)
def test_a_broken_budget_names_what_broke_it(changes, limit, told):
    """The line is enough to go and mend it."""
    verdicts, code = judged(made.good_case(made.good_program(**changes)), **limit)
    verdict = verdicts[f"budget:{next(iter(limit))}"]
    assert verdict.outcome is Outcome.FAIL
    assert told in verdict.summary
    assert code == 1


UNROLLED = (
    *(replace(made.ALL_REDUCE, runs=1, per_layer=False, operation=f"all-reduce.{number}") for number in range(47)),
    replace(made.ALL_REDUCE, runs=1, per_layer=False, source="embedding.py:31"),
)


@pytest.mark.parametrize(
    ("extra", "limit", "outcome", "code"),
    [
        ({"layers": 24}, 2, Outcome.PASS, 0),
        ({"layers": 24}, 1, Outcome.FAIL, 1),
        ({}, 2, Outcome.SKIPPED, 5),
    ],
)
def test_exchanges_of_unrolled_layers_are_counted_by_layer_where_their_number_is_known(extra, limit, outcome, code):
    """Two a layer, of which the last layer does one otherwise; the embedding's is of none. Else nobody can say."""
    program = made.good_program(collectives=UNROLLED, extra=extra)
    verdicts, ended = judged(made.good_case(program), collectives_per_layer={"max": limit})
    told = verdicts["budget:collectives_per_layer"]
    assert (told.outcome, ended) == (outcome, code)
    assert ("collectives a layer 2 is above its budget of at most 1: all-reduce" in told.summary) is (code == 1)


def test_a_program_without_exchanges_has_none_a_layer():
    """However many layers it has."""
    assert judged(made.good_case(), collectives_per_layer={"max": 0})[1] == 0


def test_copies_that_a_record_does_not_list_count_too():
    """The list is cut, and its totals are of all."""
    totals = {"relayout": {"count": 900, "bytes": 9000}, "upcast": {"count": 1, "bytes": 7}}
    case = made.good_case(made.good_program(copies=(made.RELAYOUT,), extra={"copies_by_kind": totals}))
    seen = {name: FACTS[name].value(case) for name in ("relayouts", "relayout_bytes", "slices", "copied_bytes")}
    assert seen == {"relayouts": 900, "relayout_bytes": 9000, "slices": 0, "copied_bytes": 9007}
    older = made.good_case(made.good_program(copies=(made.RELAYOUT,), extra={"copies_found": 2}))
    assert FACTS["relayout_bytes"].value(older) is None


def test_a_kept_budget_passes():
    """The limit itself is allowed."""
    limits = {"temp_bytes": {"max": 700_000}, "relayouts": {"max": 0}, "collectives": {"max": 0}}
    verdicts, code = judged(made.good_case(), **limits)
    assert {verdicts[f"budget:{name}"].outcome for name in limits} == {Outcome.PASS}
    assert code == 0


def test_a_lost_donation_fails_without_any_budget():
    """Who donates wants it updated in place."""
    program = made.good_program(unaliased_donations=("cache.k bf16[24,2,576,64]",), alias_bytes=0)
    verdicts, code = judged(made.good_case(program))
    assert "`cache.k` (bf16[24,2,576,64]) was donated and is not updated in place" in verdicts["donation"].summary
    assert code == 1


def test_a_program_without_donations_has_no_verdict_on_them():
    """A training step that donates nothing on purpose is not blamed."""
    case = made.good_case(arguments=())
    assert "donation" not in judged(case)[0]


def test_what_does_not_fit_names_its_largest_argument_unless_a_budget_says_not_to():
    """Also where the compiler let it through."""
    large = replace(made.CACHE, shape="bf16[24,2,1048576,64]", bytes=120_000_000_000)
    fit = replace(made.good_case().fit, peak_bytes=121_000_000_000, fits=False)
    case = made.good_case(fit=fit, arguments=(made.good_case().arguments[0], large))
    verdicts, code = judged(case)
    assert "does not fit: a device needs 121 GB of 103 GB" in verdicts["memory"].summary
    assert "`cache.k` (bf16[24,2,1048576,64], 120 GB)" in verdicts["memory"].summary
    assert code == 1
    verdicts, code = judged(case, fits=False)
    assert verdicts["memory"].outcome is Outcome.SKIPPED
    assert code == 0


def test_a_kernel_that_is_asked_for_and_not_there_fails():
    """Flash attention that became materialised attention: what takes its memory is named."""
    program = made.good_program(temp_bytes=950_000_000, operations=(made.PRODUCT, made.SCORES))
    verdicts, code = judged(made.good_case(program), kernels=["*flash_attention*"])
    assert "no kernel '*flash_attention*'" in verdicts["kernels"].summary
    assert any("f32[14,4096,4096], from attention.py:40" in line for line in verdicts["kernels"].detail)
    assert code == 1
    program = replace(program, kernels=("flash_attention_kernel",))
    assert judged(made.good_case(program), kernels=["*flash_attention*"])[0]["kernels"].outcome is Outcome.PASS


def test_what_the_compiler_refuses_fails_and_says_why():
    """A kernel whose block the chip cannot have is a failed gate, not a missing measurement."""
    error = "ValueError: The block shape must be divisible by 8 and 128.\nBlock spec for x_ref has (7, 100).\n"
    verdicts, code = judged(made.good_case(status=Status.FAILED, error=error))
    told = verdicts["compiles"]
    assert told.summary == (
        "decode_step on v7x-4: the compiler refuses it: The block shape must be divisible by 8 and 128"
    )
    assert told.detail == ("Block spec for x_ref has (7, 100).",)
    assert code == 1


def test_what_the_compiler_cannot_place_is_judged_as_too_large():
    """It never gave a program to read: the arguments are known all the same."""
    error = "RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 24.92G of 15.75G hbm."
    case = made.good_case(status=Status.FAILED, error=error)
    case = replace(case, program=None, fit=None)
    verdicts, code = judged(case)
    assert (
        "does not fit: Ran out of memory in memory space hbm. Used 24.92G of 15.75G hbm" in verdicts["memory"].summary
    )
    assert "`params.layers.w_gate_up`" in verdicts["memory"].summary
    assert "estimate" not in verdicts["memory"].summary
    assert code == 1
    case = replace(case, fit=replace(made.good_case().fit, fits=False, longest_context=9000, largest_batch=0))
    assert judged(case)[0]["memory"].summary.endswith(" (estimate: context up to 9,000)")


def test_what_the_compiler_cannot_place_is_not_judged_where_a_budget_says_so():
    """It is no failure, and not green: nothing else could be judged."""
    error = "RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 24.92G of 15.75G hbm."
    case = replace(made.good_case(status=Status.FAILED, error=error), program=None, fit=None)
    verdicts, code = judged(case, fits=False)
    assert [(gate, one.outcome) for gate, one in verdicts.items()] == [("memory", Outcome.SKIPPED)]
    assert "asks not to judge" in verdicts["memory"].summary
    assert code == 5


@pytest.mark.parametrize(
    ("status", "extra"), [(Status.TIMED_OUT, {}), (Status.MISSING, {}), (Status.FAILED, {"crashed": True})]
)
def test_what_nobody_learnt_anything_of_is_not_green(status, extra):
    """A compiler that is not here, hangs or crashes says nothing about the program."""
    verdicts, code = judged(made.good_case(status=status, error="no answer", extra=extra, program=None, fit=None))
    assert verdicts["compiles"].outcome is Outcome.SKIPPED
    assert code == 5


def test_no_compiler_here_ends_as_its_error_says():
    """A machine that cannot is another thing than a program that is bad."""
    case = made.good_case(status=Status.MISSING, error="no plugin", extra={"exit_code": 4})
    assert judged(case)[1] == 4


def test_a_budget_on_what_is_not_known_is_not_green():
    """Silence is no pass."""
    verdicts, code = judged(made.good_case(estimate=None), estimate_mbu={"min": 0.1})
    assert verdicts["budget:estimate_mbu"].outcome is Outcome.SKIPPED
    assert code == 5


@pytest.mark.parametrize(
    "limit",
    [
        {"relayouts": {"max": 0}},
        {"copied_bytes": {"max": 0}},
        {"collectives": {"max": 0}},
        {"collectives_per_layer": {"max": 0}},
        {"trigonometric": {"max": 0}},
        {"host_calls": {"max": 0}},
        {"fusions": {"max": 0}},
        {"hbm_bytes": {"max": 1}},
        {"kernels": ["*flash*"]},
    ],
)
def test_a_program_whose_text_nobody_understood_has_not_none_of_anything(limit):
    """That of a new compiler, or of a backend that gives none: only its sizes are known."""
    (name,) = limit
    verdicts, code = judged(made.good_case(made.UNREAD), **limit, temp_bytes={"max": 700_000})
    assert verdicts[name if name == "kernels" else f"budget:{name}"].outcome is Outcome.SKIPPED
    assert verdicts["budget:temp_bytes"].outcome is Outcome.PASS
    assert code == 5


def test_a_number_that_the_compiler_does_not_repeat_is_left_out_and_said():
    """A gate on it would fail by chance."""
    program = made.good_program(temp_bytes=10**9, unstable=("temp_bytes",))
    verdicts, code = judged(made.good_case(program), temp_bytes={"max": 1})
    assert "not the same in two compilations" in verdicts["budget:temp_bytes"].summary
    assert code == 0


@pytest.mark.parametrize(
    ("field", "gate", "limit"),
    [
        ("unaliased_donations", "donation", {}),
        ("kernels", "kernels", {"kernels": ["*flash*"]}),
        ("estimated_cycles", "budget:estimate_s", {"estimate_s": {"max": 1e-9}}),
        ("peak_bytes", "budget:longest_context", {"longest_context": {"min": 10**9}}),
    ],
)
def test_whatever_follows_from_such_a_number_is_left_out_too(field, gate, limit):
    """Donations, kernels, estimates, and how far a program could grow."""
    program = made.good_program(unstable=(field,), unaliased_donations=("cache.k bf16[8]",))
    verdicts, _ = judged(made.good_case(program), **limit)
    assert verdicts[gate].outcome is Outcome.SKIPPED
    assert "not the same in two compilations" in verdicts[gate].summary


def test_missing_interrupted_and_unmatched_are_told():
    """What was asked for and is not there counts."""
    record = judge(made.record(declared=("other@v5e-1/x",)), parse({"*@v9-*": {"fits": True}}, "x"))
    assert [finding.code for finding in record.findings] == [UNMATCHED]
    assert exit_code(record) == 5
    assert exit_code(made.record(interrupted=True)) == 130
    assert exit_code(replace(made.record(), cases=(), declared=())) == 5
