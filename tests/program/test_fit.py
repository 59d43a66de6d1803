"""Whether a program fits, and how far it could grow."""

from dataclasses import replace

import pytest

from qwenperf.program import estimate
from qwenperf.program.fit import fit, refused
from qwenperf.schema.analysis import ProgramAnalysis, TargetRecord

TARGET = TargetRecord(name="x-1", platform="tpu", hbm_bytes=1000)
CACHE = {"cache_bytes": 100, "batch": 2, "context": 50}


def program(peak, alias=100):
    return ProgramAnalysis(name="decode_step", peak_bytes=peak, alias_bytes=alias)


def test_what_is_free_is_filled_by_the_cache():
    told = fit(program(600), TARGET, **CACHE)
    assert (told.fits, told.longest_context, told.largest_batch) == (True, 250, 10)
    # At that size nothing is left: 600 + 4 times the cache more.
    assert 600 + 100 * 250 / 50 - 100 == 1000


def test_a_cache_that_is_not_updated_in_place_is_held_twice_and_grows_twice_as_fast():
    told = fit(program(600, alias=0), TARGET, **CACHE)
    assert (told.longest_context, told.extra["cache_held"]) == (150, 2)


@pytest.mark.parametrize("alias", [0, 100])
def test_a_sweep_fits_up_to_the_largest_batch(alias):
    """Whether or not the cache is held twice."""
    analysis = ProgramAnalysis(name="decode_step", peak_bytes=600, alias_bytes=alias, flops=40.0, hbm_bytes=400.0)
    target = replace(TARGET, hbm_bytes_per_s=10.0, flops_per_s={"bf16": 100.0})
    largest = fit(analysis, target, **CACHE).largest_batch
    work = {"tokens_per_call": 2, "batch": 2, "weight_bytes": 200, "cache_bytes": 100}
    swept = estimate.estimate(analysis, target, **work, sweep=range(1, 15)).sweep
    assert {one.batch for one in swept if one.fits} == set(range(1, largest + 1))


def test_what_does_not_fit_tells_what_would():
    told = fit(program(1050), TARGET, **CACHE)
    assert (told.fits, told.longest_context, told.largest_batch) == (False, 25, 1)
    assert fit(program(5000), TARGET, **CACHE).longest_context == 0


def test_what_the_compiler_keeps_for_itself_is_not_free():
    """Of 16 GiB of a v5e the compiler gives a program 15.75."""
    target = TargetRecord(name="v5e-1", platform="tpu", generation="v5e", hbm_bytes=16 * 2**30)
    told = fit(program(int(15.8 * 2**30)), target, **CACHE)
    assert (told.fits, told.hbm_bytes, told.extra["usable_bytes"]) == (False, 16 * 2**30, int(15.75 * 2**30))


def test_a_program_without_a_cache_has_no_longest_context():
    told = fit(program(600), TARGET, cache_bytes=0, batch=1, context=0)
    assert (told.fits, told.longest_context, told.largest_batch) == (True, None, None)


@pytest.mark.parametrize(("wanted", "held", "context", "batch"), [(1050, 1, 25, 1), (1050, 2, 37, 1), (5000, 1, 0, 0)])
def test_of_a_program_that_is_refused_what_would_fit_is_reckoned_from_what_it_wants(wanted, held, context, batch):
    """As of one that the compiler lets through; where the weights alone are too large, nothing fits."""
    told = refused(wanted, TARGET, **CACHE, held=held)
    assert (told.fits, told.peak_bytes, told.longest_context, told.largest_batch) == (False, wanted, context, batch)
    if held == 1:
        assert told.longest_context == fit(program(wanted), TARGET, **CACHE).longest_context
    assert refused(wanted, TargetRecord(name="cpu", platform="cpu"), **CACHE, held=held) is None


@pytest.mark.parametrize(("peak", "target"), [(None, TARGET), (600, TargetRecord(name="cpu", platform="cpu"))])
def test_without_a_peak_or_a_memory_there_is_no_answer(peak, target):
    assert fit(program(peak), target, **CACHE) is None
