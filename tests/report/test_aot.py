"""The report on compiled programs reads at 80 columns, without colour, and marks every estimate."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from qwenperf.gate.aot import judge
from qwenperf.gate.aot_budget import parse
from qwenperf.gate.aot_difference import compare_records
from qwenperf.report.aot import aot_report, operations_report
from qwenperf.report.aot_difference import difference_report
from qwenperf.report.terminal import render
from qwenperf.schema.records import Status

_SPEC = importlib.util.spec_from_file_location("aot_records", Path(__file__).parents[1] / "gate" / "aot_records.py")
made = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(made)


@pytest.fixture(scope="module")
def bad():
    """A case in which much is wrong."""
    program = made.good_program(
        fingerprint="b", temp_bytes=717_000_000, copies=(made.RELAYOUT,), collectives=(made.ALL_REDUCE, made.PERMUTE),
        trigonometric=("cosine from rotary.py:8",), unstable=("fusions",),
    )  # fmt: skip
    return made.good_case(program, target="v5e-1")


@pytest.fixture(scope="module")
def refused():
    """A case that the compiler says no to."""
    case = made.good_case(target="v6e-1", status=Status.FAILED, error="ValueError: The block is odd.")
    return replace(case, program=None, estimate=None, fit=None)


@pytest.fixture(scope="module")
def text(bad, refused):
    """The whole report of three targets."""
    budgets = parse({"*@*": {"temp_bytes": {"max": 1e6}, "relayouts": {"max": 0}}}, "[tool.qwenperf.budgets]")
    record = judge(made.record(made.good_case(), bad, refused), budgets)
    return render(aot_report(record, "profiles/x/aot.json"))


def test_it_fits_80_columns_and_says_everything_once(text):
    """A log shows it as a terminal does."""
    assert max(map(len, text.splitlines())) <= 80
    words = " ".join(text.split())
    for part in (
        "v7x-4 (tpu7x:2x2x1): 4 chips, 8 devices of 103 GB at 3.69 TB/s, mesh data 4 x tensor 2",
        "qwen2.5-0.5b/cached/b1-p512-n64-bf16: decode_step",
        "v5e-1 1.01 GB 1.0% 717 MB 1.00 GB 418 MB 48 ~790 memory 90% FAIL",
        "v5e-1: copy of `params.layers.w_gate_up` (bf16[24,896,9728]) to another layout, from qwen2.py:88",
        "v5e-1: computed in each call: cosine from rotary.py:8",
        "v5e-1: not the same in two compilations, not judged: fusions",
        "v7x-4, v5e-1: fits up to context ~500,000",
        "~MFU 60% from batch 130, compute-bound from batch 240, no batch reaches MFU 80%",
        "FAIL: decode_step on v6e-1: the compiler refuses it: The block is odd",
        "record: profiles/x/aot.json",
    ):
        assert words.count(part) == 1, part


@pytest.mark.parametrize(
    ("reached", "bound", "told"),
    [
        ({"0.6": 9, "0.8": 900}, 1000, "MFU 60% from batch 9 and 80% from batch 900, compute-bound from batch 1,000"),
        ({"0.6": 9, "0.8": None}, None, "MFU 60% from batch 9, no batch reaches MFU 80%, none is compute-bound"),
        ({"0.6": None, "0.8": None}, None, "no batch reaches MFU 60% or 80%, none is compute-bound"),
        ({}, None, "no batch is compute-bound"),
    ],
)
def test_what_no_batch_reaches_is_said(reached, bound, told):
    """Where each row reads its own cache, more rows make no program bound by arithmetic."""
    case = made.good_case()
    estimate = replace(case.estimate, compute_bound_batch=bound, extra={"batch_at_mfu": reached})
    lines = " ".join(render(aot_report(made.record(replace(case, estimate=estimate)), "x")).split())
    assert f"v7x-4: ~{told} " in lines


def test_an_estimate_is_never_without_its_mark(text):
    """Nobody takes it for a measurement."""
    assert "~790" in text
    assert " 790" not in text
    assert "Nothing was run." in text


def test_one_cause_is_one_failure(text):
    """What the same copy makes worse stands below it."""
    words = " ".join(text.split())
    assert words.count("FAIL: decode_step on v5e-1") == 1
    assert "for the same reason: decode_step on v5e-1: number of relayouts 1 is above its budget of at most 0" in words


def test_the_costliest_operations_come_with_their_lines(bad):
    """What to look at first."""
    text = render(operations_report(bad))
    assert "900 MB 0.800 500 us   24 matmul bf16[1,9728] layers.py:20" in text


def test_operations_are_in_the_report_where_they_are_asked_for(bad, refused, text):
    """Those of each program below its id, and none of a program that is not there."""
    record = made.record(bad, refused)
    asked = render(aot_report(record, operations=1))
    assert asked.count("matmul") == 1
    assert bad.id in asked
    assert max(map(len, asked.splitlines())) <= 80
    assert "matmul" not in text


def test_estimates_over_the_batch_are_in_the_report_where_they_are_asked_for(bad, refused, text):
    """A line a batch with speed and both utilisations, of each program that has one."""
    bad = replace(bad, estimate=replace(bad.estimate, assumptions=("weights are read once a call",)))
    asked = render(aot_report(made.record(bad, refused), batches=True))
    words = " ".join(asked.split())
    assert "batch ~time ~tok/s ~MFU ~MBU ~bound ~fits 1 1.00 ms 790 1.0% 90.0% memory - 256" in words
    assert "70.0% 50.0% compute - ~ weights are read once a call" in words
    assert words.count("~MFU ~MBU") == 1
    assert max(map(len, asked.splitlines())) <= 80
    assert "~MBU" not in text


def test_a_difference_shows_a_table_for_what_changed_and_a_line_for_what_did_not(bad):
    """With the explanation below it."""
    base = made.record(made.good_case(), made.good_case(target="v5e-1"))
    judged = compare_records(base, made.record(made.good_case(), bad))
    text = render(difference_report(base, judged, ("main", "working tree")))
    assert max(map(len, text.splitlines())) <= 80
    words = " ".join(text.split())
    assert "base main, head working tree" in words
    assert "v7x-4: the same program" in words
    assert "temp_bytes 700 kB 717 MB +102,329% FAIL" in words.replace("+102328.6%", "+102,329%")
    assert "~estimate_s 1.30 ms 1.30 ms =" in words
    assert "FAIL: decode_step on v5e-1: temporary memory 700 kB -> 717 MB: copy of" in words
