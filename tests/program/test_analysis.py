"""Compiled programs are analysed from their text alone: those of a CPU's and of a TPU's compiler."""

import random

import pytest

from qwenperf.program import analysis, hlo
from qwenperf.program.analysis import analyse

# The four layers of width 128 that the golden texts are of.
WEIGHTS_F32 = 1000 * 128 * 4 + 4 * (128 * (2 * 128 + 2 * 64 + 3 * 512) + 2 * 128 + 128 + 2 * 64) * 4 + 128 * 4
ROW_F32 = 128 * 4
LAYER_PRODUCTS = 2 * 128 * (2 * 128 + 2 * 64 + 3 * 512)


def test_weights_are_read_once_a_step_however_the_layers_are_written(texts):
    for name in ("cpu-unrolled", "cpu-scanned"):
        read = texts.analysed(name).extra["weight_bytes"]
        # All weights for the layers and the head, and one row of the embedding table.
        assert read == pytest.approx(WEIGHTS_F32 + ROW_F32, rel=0.01)


def test_scanned_and_unrolled_layers_agree(texts):
    scanned, unrolled = texts.analysed("cpu-scanned"), texts.analysed("cpu-unrolled")
    assert scanned.flops == pytest.approx(unrolled.flops, rel=0.02)
    assert scanned.extra["weight_bytes"] == pytest.approx(unrolled.extra["weight_bytes"], rel=0.02)
    # The slices of the scan cost bytes that the unrolled form does not move: written and read again.
    assert scanned.hbm_bytes > unrolled.hbm_bytes + 2 * scanned.extra["sliced_weight_bytes"] * 0.95


def test_products_are_counted_by_formula(texts):
    flops = texts.analysed("cpu-unrolled").flops
    attention = 4 * 2 * 2 * 4 * 32 * 32
    assert flops == pytest.approx(4 * LAYER_PRODUCTS + attention + 2 * 1000 * 128, rel=0.03)


def test_a_tpus_products_are_found_where_they_were_rewritten(texts):
    """At one row a TPU multiplies and sums, and batches are convolutions: 128 positions here, 32 on the CPU."""
    attention = 4 * 2 * 2 * 4 * 32 * 128
    assert texts.analysed("v5e-unrolled").flops == pytest.approx(
        4 * LAYER_PRODUCTS + attention + 2 * 1000 * 128, rel=0.05
    )


def test_a_tpus_bytes_are_those_of_its_main_memory(texts):
    """In bf16, half of the weights' bytes in f32, read once, by whichever way onto the chip."""
    told = texts.analysed("v5e-unrolled")
    assert told.extra["weight_bytes"] == pytest.approx(WEIGHTS_F32 / 2, rel=0.01)
    assert told.hbm_bytes == pytest.approx(WEIGHTS_F32 / 2 + told.extra["state_bytes"], rel=0.1)
    assert told.estimated_cycles > 100_000


def test_weights_that_a_scan_copies_out_are_named_and_the_unrolled_form_has_none(texts):
    scanned = texts.analysed("cpu-scanned")
    first = scanned.copies[0]
    assert (first.kind, first.buffer, first.runs) == ("slice", "params.layers.mlp.down_proj.weight", 4)
    assert scanned.extra["sliced_weight_bytes"] == pytest.approx(WEIGHTS_F32 - 1000 * 128 * 4, rel=0.01)
    for name in ("cpu-unrolled", "v5e-unrolled"):
        assert texts.analysed(name).extra["copied_weight_bytes"] == 0


def test_operations_lead_to_lines_of_the_users_and_like_ones_are_one_entry(texts):
    costliest = texts.analysed("cpu-unrolled").operations[0]
    assert (costliest.category, costliest.source, costliest.runs) == ("matmul", "layers.py:112", 8)
    assert costliest.flops == 8 * 2 * 128 * 512
    assert costliest.extra["instances"] == 8
    prefetched = texts.analysed("v5e-unrolled").operations[0]
    assert (prefetched.category, prefetched.shape, prefetched.runs) == ("prefetch", "bf16[512,128]", 8)


def test_categories_add_up_to_the_whole(texts):
    for name in ("cpu-scanned", "cpu-unrolled", "v5e-unrolled"):
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
