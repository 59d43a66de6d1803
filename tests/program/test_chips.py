"""Published figures of chips: each has its source, and a device has its share."""

import pytest

from qwenperf.errors import UnknownNameError
from qwenperf.program import chips

FIGURES = (
    "devices_per_chip",
    "hbm_bytes",
    "hbm_bytes_per_s",
    "flops_per_s",
    "interconnect_bytes_per_s",
    "clock_hz",
    "usable_bytes",
)


@pytest.mark.parametrize("generation", chips.known())
def test_every_figure_has_a_source_and_nothing_else_has(generation):
    chip = chips.chip(generation)
    told = {name for name in FIGURES if getattr(chip, name) is not None}
    assert set(chip.sources) == told
    assert all(source.startswith(("https://", "derived: ", "the ")) for source in chip.sources.values())


def test_all_generations_that_a_program_is_compiled_for_are_there():
    assert set(chips.known()) >= {"v2", "v3", "v4", "v5e", "v5p", "v6e", "v7x"}


def test_the_figures_of_two_chips_are_the_published_ones():
    v5e, v7x = chips.chip("v5e"), chips.chip("v7x")
    assert (v5e.hbm_bytes, v5e.hbm_bytes_per_s, v5e.flops_per_s["bf16"]) == (16 * 2**30, 819e9, 197e12)
    assert (v7x.hbm_bytes, v7x.hbm_bytes_per_s, v7x.flops_per_s["bf16"]) == (192 * 2**30, 7380e9, 2307e12)


def test_a_device_has_its_share_of_its_chip():
    v7x = chips.chip("v7x")
    assert v7x.devices_per_chip == 2
    assert v7x.device_hbm_bytes == 96 * 2**30
    assert v7x.device_hbm_bytes_per_s == 3690e9
    assert v7x.device_flops_per_s["fp8"] == 2307e12
    assert v7x.device_interconnect_bytes_per_s == 600e9
    assert chips.chip("v3").device_interconnect_bytes_per_s == 400e9
    assert chips.chip("v2").device_interconnect_bytes_per_s == 248e9


def test_links_count_both_ways_of_every_link():
    """Four links of a flat torus or six of a cube; what one link does one way is rounded where it was published."""
    flat = {"v2": (4, 62e9), "v3": (4, 100e9), "v5e": (4, 50e9), "v6e": (4, 100e9)}
    one_way = {**flat, "v4": (6, 45e9), "v5p": (6, 100e9)}
    for generation, (links, bytes_per_s) in one_way.items():
        assert chips.chip(generation).interconnect_bytes_per_s == 2 * links * bytes_per_s, generation


@pytest.mark.parametrize(
    ("generation", "operations"),
    [("v2", 2**16), ("v3", 2**17), ("v4", 2**18), ("v5e", 2**17), ("v5p", 2**18), ("v6e", 2**19), ("v7x", 2**20)],
)
def test_a_clock_that_was_derived_gives_the_peak_back(generation, operations):
    """Operations a cycle of all matrix units of a chip, times the clock, within 2%."""
    chip = chips.chip(generation)
    assert chip.clock_hz * operations == pytest.approx(chip.flops_per_s["bf16"], rel=0.02)


@pytest.mark.parametrize("generation", chips.known())
def test_a_program_may_have_most_of_its_devices_memory_and_never_more(generation):
    chip = chips.chip(generation)
    assert 0.9 * chip.device_hbm_bytes < chip.usable_bytes <= chip.device_hbm_bytes


def test_names_have_aliases_and_an_unknown_one_lists_the_known():
    assert chips.chip("tpu7x") is chips.chip("V7X")
    with pytest.raises(UnknownNameError, match=r"unknown chip generation 'v9'.*v5e"):
        chips.chip("v9")
