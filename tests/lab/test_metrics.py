"""Formulas of the registry give the right numbers from readings made by hand."""

import dataclasses

import pytest

from qwenperf.decode.engine import EngineFacts
from qwenperf.lab import metrics
from qwenperf.schema.records import ProgramFacts, Roofline, StreamEvidence
from qwenperf.workloads.case import Workload

WORK = Workload(prompt_length=10, new_tokens=5, batch=2)
FACTS = EngineFacts(bytes_per_step=1_000_000, flops_per_step=4e6, flops_per_request=3e7, dispatches_per_request=2)
ROOFLINE = Roofline(bytes_per_s=1e8, flops_per_s=1e9)


def values(named):
    return {name: metric.value for name, metric in named}


def test_cold_and_steady_requests():
    """Tokens per second count the whole batch."""
    assert values(metrics.cold_metrics(WORK, 4.0)) == {"cold_request_s": 4.0, "cold_tokens_per_s": 2.5}
    assert values(metrics.request_metrics(WORK, [1.0, 2.0, 4.0])) == {"request_s": 2.0, "request_tokens_per_s": 5.0}
    assert values(metrics.first_token_metrics(WORK, [0.5])) == {"ttft_s": 0.5, "prefill_tokens_per_s": 40.0}


def test_decoding_is_what_is_left_after_the_first_token_beside_it():
    """TPOT divides by the tokens after the first; MBU and MFU are shares of the roofline."""
    found = values(metrics.decode_metrics(WORK, [0.5, 0.9, 1.9], [0.1, 0.1, 0.7], FACTS, ROOFLINE))
    assert found["tpot_s"] == pytest.approx(0.2)
    assert found["decode_tokens_per_s"] == pytest.approx(10)
    assert found["mbu"] == pytest.approx(1e6 / 0.2 / 1e8)
    assert found["mfu"] == pytest.approx(4e6 / 0.2 / 1e9)


def test_a_slow_machine_slows_both_of_a_pair():
    """A load that comes with the last trial of both leaves the time per token as it was."""
    found = dict(metrics.decode_metrics(WORK, [0.5, 0.5, 5.4], [0.1, 0.1, 5.0], FACTS, None))
    assert found["tpot_s"].interval == pytest.approx((0.1, 0.1))


def test_a_first_token_as_slow_as_the_request_gives_no_decode_speed():
    """Noise must not become a negative or absurd throughput."""
    assert values(metrics.decode_metrics(WORK, [0.5, 0.9], [0.9, 0.5], FACTS, ROOFLINE)) == {}


def test_a_pair_without_time_is_not_dropped():
    """Leaving it out would make the engine look slower: it counts, and bounds the rate from below only."""
    found = dict(metrics.decode_metrics(WORK, [0.1, 0.9, 0.9], [0.5, 0.5, 0.5], FACTS, ROOFLINE))
    assert found["tpot_s"].samples == pytest.approx((-0.1, 0.1, 0.1))
    assert found["tpot_s"].value == pytest.approx(0.1)
    assert found["decode_tokens_per_s"].interval == pytest.approx((20.0, 2 / 1e-9))


def test_a_rate_is_the_time_turned_round():
    """For an even number of readings too: the median of reciprocals is not the reciprocal of the median."""
    found = dict(metrics.decode_metrics(WORK, [0.5, 1.3], [0.1, 0.1], FACTS, None))
    assert found["decode_tokens_per_s"].value == pytest.approx(WORK.batch / found["tpot_s"].value)
    low_s, high_s = found["tpot_s"].interval
    assert found["decode_tokens_per_s"].interval == pytest.approx((WORK.batch / high_s, WORK.batch / low_s))


def test_a_sample_keeps_its_interval_and_what_it_covers():
    """Three readings cover the median in 75% of cases, and the metric says so."""
    made = metrics.timed("request_s", [1.0, 3.0, 2.0])
    assert (made.value, made.samples, made.interval) == (2.0, (1.0, 3.0, 2.0), (1.0, 3.0))
    assert made.coverage == 0.75


def test_a_stream_gives_latencies_and_growth():
    """Steps that grow by 1% of the median each position grow by 100% in 100 positions."""
    step_s = tuple(1.0 + 0.01 * step for step in range(-2, 3))
    found = dict(metrics.stream_metrics(StreamEvidence(positions=tuple(range(10, 15)), step_s=(step_s, step_s))))
    assert found["itl_p50_s"].value == pytest.approx(1.0)
    assert found["itl_p99_s"].value == pytest.approx(1.02)
    assert found["scaling_per_100_tokens"].value == pytest.approx(1.0)
    low, high = found["scaling_per_100_tokens"].interval
    assert (low, high) == pytest.approx((1.0, 1.0))


def test_two_steps_have_no_slope():
    """A slope needs three positions; latencies are there all the same."""
    found = values(metrics.stream_metrics(StreamEvidence(positions=(4, 5), step_s=((1.0, 2.0),))))
    assert set(found) == {"itl_p50_s", "itl_p99_s"}


def test_facts_and_programs_become_metrics_where_known():
    """What an engine or compiler does not say is absent, never zero."""
    found = values(metrics.fact_metrics(WORK, FACTS))
    assert found == {
        "bytes_per_step": 1e6,
        "flops_per_step": 4e6,
        "flops_per_request": 3e7,
        "dispatches_per_token": 0.4,
    }
    sizes = {"argument_bytes": 100, "output_bytes": 30, "temp_bytes": 5, "alias_bytes": 20}
    assert values(metrics.program_metrics(ProgramFacts(name="step", **sizes)))["peak_bytes"] == 115
    assert "peak_bytes" not in values(metrics.program_metrics(ProgramFacts(name="step", temp_bytes=5)))


def test_floors_leave_room_for_caches_and_narrow_types():
    """Small weights may lie in caches, so that only arithmetic bounds them; large ones must be read."""
    small = metrics.floors(WORK, FACTS, ROOFLINE)
    assert small.step_s == pytest.approx(4e6 / 4e9)
    assert small.request_s == pytest.approx(3e7 / 4e9)
    large = metrics.floors(WORK, EngineFacts(bytes_per_step=600_000_000), ROOFLINE)
    assert large.step_s == pytest.approx(600_000_000 / 1.5e8)
    assert large.request_s == pytest.approx(5 * large.step_s)
    assert metrics.floors(WORK, FACTS, None) == metrics.floors(WORK, EngineFacts(), ROOFLINE) == metrics.Floors()


def test_several_devices_share_the_work():
    """Four devices read four times as fast, so that nothing is above 100%; parts that fit a cache bound nothing."""
    large = EngineFacts(bytes_per_step=2_400_000_000, flops_per_step=4e6, flops_per_request=3e7)
    four = dataclasses.replace(large, devices=4)
    one, shared = (metrics.floors(WORK, facts, ROOFLINE) for facts in (large, four))
    assert shared.step_s == pytest.approx(one.step_s / 4)
    assert shared.request_s == pytest.approx(one.request_s / 4)
    cached = EngineFacts(bytes_per_step=600_000_000, devices=4)
    assert metrics.floors(WORK, cached, ROOFLINE) == metrics.Floors()
    one, shared = (values(metrics.decode_metrics(WORK, [8.1], [0.1], facts, ROOFLINE)) for facts in (large, four))
    for name in ("mbu", "mfu"):
        assert shared[name] == pytest.approx(one[name] / 4)
    assert shared["decode_tokens_per_s"] == one["decode_tokens_per_s"]
