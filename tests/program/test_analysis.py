"""Compiled programs are analysed from their text alone: those of a CPU's and of a TPU's compiler."""

import random

import pytest

from qwenperf.program import analysis, hlo
from qwenperf.program.analysis import analyse
from qwenperf.program.shapes import stored_bytes

ALL = (
    "cpu-unrolled",
    "cpu-scanned",
    "cpu-bf16-unrolled",
    "cpu-bf16-scanned",
    "v5e-unrolled",
    "v5e-scanned",
    "v5e-4-scanned",
    "v7x-1-scanned",
)
# Four layers of width 128 and a head of 1000 tokens: products with weights, and attention over 128 positions.
LAYER_PRODUCTS = 2 * 128 * (2 * 128 + 2 * 64 + 3 * 512)
PRODUCTS = 4 * LAYER_PRODUCTS + 4 * 2 * 2 * 4 * 32 * 128 + 2 * 1000 * 128


@pytest.mark.parametrize("name", ALL)
def test_weights_are_read_once_a_step_however_it_is_written_and_for_whatever_chip(texts, name):
    """All weights for the layers and the head, and one more row of the embedding table."""
    assert texts.analysed(name).extra["weight_bytes"] == pytest.approx(texts.figures()[name]["weight_bytes"], rel=0.002)


@pytest.mark.parametrize("kind", ["cpu", "cpu-bf16", "v5e"])
def test_scanned_and_unrolled_layers_agree(texts, kind):
    scanned, unrolled = texts.analysed(f"{kind}-scanned"), texts.analysed(f"{kind}-unrolled")
    assert scanned.unknown_loops == unrolled.unknown_loops == ()
    assert scanned.flops == pytest.approx(unrolled.flops, rel=0.02)
    assert scanned.extra["weight_bytes"] == pytest.approx(unrolled.extra["weight_bytes"], rel=0.02)


def test_the_slices_of_a_scan_on_a_cpu_are_written_and_read_again(texts):
    scanned, unrolled = texts.analysed("cpu-scanned"), texts.analysed("cpu-unrolled")
    assert scanned.hbm_bytes > unrolled.hbm_bytes + 2 * scanned.extra["sliced_weight_bytes"] * 0.95


@pytest.mark.parametrize("name", ALL)
def test_arithmetic_is_that_of_the_models_formula(texts, name):
    """Also where a TPU multiplies and sums instead of a product, and writes batches as convolutions with holes.

    Two devices share a v7x chip's step, four the step of batch 4.
    """
    expected = {"v7x-1-scanned": PRODUCTS / 2, "v5e-4-scanned": PRODUCTS}.get(name, PRODUCTS)
    assert texts.analysed(name).flops == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("name", [name for name in ALL if "scanned" not in name])
def test_without_loops_counts_are_the_compilers_own(texts, name):
    told, cost = texts.analysed(name), texts.figures()[name]["cost"]
    assert told.flops + told.extra["other_operations"] == pytest.approx(cost["flops"], rel=0.1)
    if name.startswith("cpu"):
        assert told.hbm_bytes == pytest.approx(cost["bytes accessed"], rel=0.1)


@pytest.mark.parametrize("name", ALL)
def test_arguments_take_the_bytes_that_the_compiler_says(texts, name):
    """Padding of a TPU's tiles included."""
    arguments = hlo.parse(texts.golden(name)).parameters
    held = sum(stored_bytes(one.type) for one in arguments)
    assert held == texts.figures()[name]["sizes"]["argument_bytes"]


def test_a_tpus_bytes_are_those_of_its_main_memory(texts):
    """Weights and cache once, by whichever way onto the chip; the compiler's own count is five times as much."""
    told, figures = texts.analysed("v5e-unrolled"), texts.figures()["v5e-unrolled"]
    assert told.hbm_bytes == pytest.approx(figures["weight_bytes"] + 1.5 * figures["cache_bytes"], rel=0.1)
    assert told.estimated_cycles > 100_000


def test_exchanges_of_a_divided_step_are_told_by_layer_with_what_is_gathered(texts):
    one_chip, four = texts.analysed("v7x-1-scanned"), texts.analysed("v5e-4-scanned")
    assert one_chip.extra["collectives_per_layer"] == {"all-reduce": 2}
    gathered = [one for one in four.collectives if one.kind == "all-gather" and one.extra.get("buffer")]
    assert {one.extra["buffer"] for one in gathered} >= {"params.layers.self_attn.o_proj.weight"}
    assert all(one.extra["group"] == 2 for one in four.collectives)
    assert (four.kernels, four.host_calls, four.double_precision, four.trigonometric) == ((), (), (), ())


def test_weights_in_bf16_are_copied_to_f32_on_a_cpu_at_one_row(texts):
    told = texts.analysed("cpu-bf16-unrolled")
    copy = told.copies[0]
    assert (copy.kind, copy.buffer, copy.source) == ("upcast", "params.embed_tokens.weight", "layers.py:112")
    assert told.extra["upcast_weight_bytes"] == pytest.approx(
        2 * texts.figures()["cpu-bf16-unrolled"]["weight_bytes"], rel=0.01
    )
    assert texts.analysed("cpu-unrolled").extra["upcast_weight_bytes"] == 0
    assert texts.analysed("v5e-unrolled").extra["upcast_weight_bytes"] == 0


def test_a_cache_in_bf16_is_rewritten_on_a_cpu(texts):
    for name, expected in (("cpu-bf16-unrolled", True), ("cpu-unrolled", False), ("v5e-unrolled", False)):
        copied = {copy.buffer for copy in texts.analysed(name).copies if copy.buffer.startswith("state.layers")}
        assert bool(copied) is expected


def test_weights_that_a_scan_copies_out_are_named_and_the_unrolled_form_has_none(texts):
    scanned = texts.analysed("cpu-scanned")
    first = scanned.copies[0]
    assert (first.kind, first.buffer, first.runs) == ("slice", "params.layers.mlp.down_proj.weight", 4)
    layers = texts.figures()["cpu-scanned"]["weight_bytes"] - 1000 * 128 * 4
    assert scanned.extra["sliced_weight_bytes"] == pytest.approx(layers, rel=0.01)
    for name in ("cpu-unrolled", "v5e-unrolled"):
        assert texts.analysed(name).extra["copied_weight_bytes"] == 0


def test_copies_that_do_not_fit_the_list_are_in_its_totals(texts, monkeypatch):
    whole = texts.analysed("cpu-scanned")
    monkeypatch.setattr(analysis, "MOST_COPIES", 1)
    cut = analyse("x", texts.golden("cpu-scanned"))
    assert len(cut.copies) == 1 < len(whole.copies)
    totals = cut.extra["copies_by_kind"]
    assert totals["slice"]["bytes"] == sum(copy.bytes * copy.runs for copy in whole.copies if copy.kind == "slice")
    assert sum(one["bytes"] for one in totals.values()) == cut.extra["copied_bytes"]
    assert sum(one["count"] for one in totals.values()) == sum(copy.runs for copy in whole.copies)


def test_operations_lead_to_lines_of_the_users_and_like_ones_are_one_entry(texts):
    costliest = texts.analysed("cpu-unrolled").operations[0]
    assert (costliest.category, costliest.source, costliest.runs) == ("matmul", "layers.py:112", 8)
    assert costliest.flops == 8 * 2 * 128 * 512
    assert costliest.extra["instances"] == 8
    prefetched = texts.analysed("v5e-unrolled").operations[0]
    assert (prefetched.category, prefetched.shape, prefetched.runs) == ("prefetch", "bf16[512,128]", 8)


def test_categories_add_up_to_the_whole(texts):
    for name in ALL:
        told = texts.analysed(name)
        for key, whole in (("flops", told.flops), ("bytes", told.hbm_bytes)):
            assert sum(one[key] for one in told.extra["categories"].values()) == pytest.approx(whole)


def test_the_compilers_own_figures_are_kept_only_where_they_can_be_true(texts):
    cost = {"flops": 123.0, "bytes accessed": -1.0, "optimal_seconds": -8.0}
    extra = analyse("x", texts.golden("cpu-unrolled"), cost=cost).extra
    assert extra["compiler_flops"] == 123.0
    assert "compiler_bytes" not in extra
    assert "compiler_seconds" not in extra
    told = analyse("x", texts.golden("cpu-unrolled"), cost={"optimal_seconds": 0.5}).extra
    assert told["compiler_seconds"] == 0.5
    # It counts a loop's body once: no time of a program that has loops.
    assert "compiler_seconds" not in analyse("x", texts.golden("cpu-scanned"), cost={"optimal_seconds": 0.5}).extra


@pytest.mark.parametrize(
    ("sizes", "peak"),
    [
        ({"argument_bytes": 10, "output_bytes": 6, "temp_bytes": 3, "alias_bytes": 4, "peak_bytes": 14}, 14),
        ({"argument_bytes": 10, "output_bytes": 6, "temp_bytes": 3, "alias_bytes": 4, "peak_bytes": 0}, 15),
        ({"argument_bytes": 10, "output_bytes": 6, "temp_bytes": 3, "alias_bytes": 4, "peak_bytes": None}, 15),
        ({"argument_bytes": 10, "output_bytes": 6, "temp_bytes": 90, "alias_bytes": 4, "peak_bytes": 13}, 102),
        ({"argument_bytes": 10, "output_bytes": None, "peak_bytes": 12}, 12),
        ({"peak_bytes": 0}, None),
        ({}, None),
    ],
)
def test_a_peak_that_cannot_be_one_is_reckoned(sizes, peak):
    assert analysis.peak_bytes(sizes) == peak


def test_a_lost_donation_is_named_by_argument_or_by_bytes(texts):
    undonated = texts.golden("cpu-unrolled").replace("{2}: (51, {}, may-alias), ", "")
    (lost,) = analyse("x", undonated, donated=("state",)).unaliased_donations
    assert lost.startswith("state.")
    assert texts.analysed("cpu-unrolled").unaliased_donations == ()
    nameless = analyse("x", texts.golden("cpu-unrolled"), donated=("mine",), donated_bytes=10, sizes={"alias_bytes": 4})
    assert nameless.unaliased_donations == ("6 of 10 donated bytes",)


def test_weights_are_told_by_name_or_else_by_what_is_not_written_over(texts):
    module = hlo.parse(texts.golden("cpu-unrolled"))
    named = analysis.weight_numbers(module, ())
    assert {one.path.partition("[")[0] for one in module.parameters if one.number in named} == {"params"}
    assert analysis.weight_numbers(module, ("tables",)) != named
    renamed = hlo.parse(texts.golden("cpu-unrolled").replace("params[", "theta["))
    guessed = {one.path for one in renamed.parameters if one.number in analysis.weight_numbers(renamed, (), ("state",))}
    assert "theta['embed_tokens']['weight']" in guessed
    assert not any(path.startswith("state") for path in guessed)


def test_text_that_is_no_program_has_no_counts():
    told = analyse("x", "no program")
    assert (told.flops, told.hbm_bytes, told.fingerprint, told.operations) == (None, None, "", ())


GARBAGE = '()[]{}%,=: 0123456789"\n-²٣while'


def garbled(text, seed):
    """Cut, shuffle or scatter a text as a broken log would."""
    choose = random.Random(seed)
    how = seed % 4
    if how == 0:
        return text[: choose.randrange(len(text))]
    if how == 1:
        lines = text.split("\n")
        choose.shuffle(lines)
        return "\n".join(lines)
    if how == 2:
        return text.replace(
            choose.choice(["24", "4", "128", "1"]), choose.choice(["9" * 5000, "-1", "0", "99999999999"])
        )
    letters = list(text)
    for _ in range(choose.choice([5, 100, 2000])):
        letters[choose.randrange(len(letters))] = choose.choice([*GARBAGE, ""])
    return "".join(letters)


@pytest.mark.parametrize("seed", range(24))
def test_garbled_text_is_never_an_error(texts, seed):
    name = ("cpu-scanned", "v5e-unrolled")[seed // 4 % 2]
    text = texts.golden(name)
    # The tables are most of the text and the least of the parsing.
    start = text.index("StackFrames")
    analyse("x", text[:300] + garbled(text[start:], seed), donated=("state",), cost={"flops": -1.0})
