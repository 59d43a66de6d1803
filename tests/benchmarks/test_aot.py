"""How long compiling takes, and whether what compilers and formulas say can be true: the two programmes, on records."""

import importlib
import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from qwenperf.aot.topology import described, resolve
from qwenperf.schema.analysis import AotCase, Estimate, ProgramAnalysis

CONFIG = {
    "hidden_size": 64, "intermediate_size": 128, "vocab_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def parts(repository):
    sys.path.insert(0, str(repository))
    return SimpleNamespace(**{name: importlib.import_module(f"benchmarks.aot_{name}") for name in ("time", "sweep")})


@pytest.fixture
def swept(parts):
    """Two points along the batch, of which the second does twice the work of the first."""
    lines = {"batch": tuple(parts.sweep.Sizes(layers=2, batch=batch, context=128) for batch in (1, 2))}
    points = []
    for sizes in lines["batch"]:
        program = ProgramAnalysis(
            name="decode_step", flops=1e6 * sizes.batch, hbm_bytes=1e6 * sizes.batch, argument_bytes=10, peak_bytes=20
        )
        estimate = Estimate(seconds=1e-3 * sizes.batch, mfu=0.1, mbu=0.2)
        record = AotCase(id="x", target=described(resolve("v5e-1")), program=program, estimate=estimate)
        points.append(parts.sweep.Point(sizes=sizes, program="decode_step", target="v5e-1", record=record))
    return points, lines


def with_record(point, **changes):
    return replace(point, record=replace(point.record, **changes))


def test_points_that_can_be_true_have_no_problem(parts, swept):
    points, lines = swept
    assert parts.sweep.problems(points, lines, CONFIG) == []
    assert "| v5e-1 | decode_step | batch | 1, 2 |" in parts.sweep.table(points, lines, CONFIG)


def test_an_estimate_below_what_the_chip_needs_is_impossible(parts, swept):
    """The least time is reckoned from the shape: weights of two layers and the logits, read once."""
    points, lines = swept
    layer = 2 * 64 * 64 + 2 * 64 * 16 * 2 + 3 * 64 * 128
    least = 2 * (2 * layer + 64 * 256) / 819e9
    assert parts.sweep.floor_s(points[0], CONFIG) == pytest.approx(least)
    low = with_record(points[0], estimate=Estimate(seconds=0.9 * least, mfu=0.1, mbu=0.2))
    (told,) = parts.sweep.problems([low, points[1]], lines, CONFIG)
    assert "the chip needs" in told


@pytest.mark.parametrize("share", ["mfu", "mbu"])
def test_a_chip_that_is_used_beyond_its_peak_is_impossible(parts, swept, share):
    points, lines = swept
    estimate = replace(points[1].record.estimate, **{share: 1.01})
    assert len(parts.sweep.problems([points[0], with_record(points[1], estimate=estimate)], lines, CONFIG)) == 1


@pytest.mark.parametrize("fact", ["flops", "argument_bytes"])
def test_a_number_that_shrinks_where_a_size_grows_is_told(parts, swept, fact):
    points, lines = swept
    program = replace(points[1].record.program, **{fact: 1})
    (told,) = parts.sweep.problems([points[0], with_record(points[1], program=program)], lines, CONFIG)
    assert told.startswith(f"decode_step on v5e-1: batch 1 to 2: {fact} shrinks")


def test_a_plan_that_is_better_for_more_work_is_told_and_is_no_problem(parts, swept):
    """Peak and seconds are the compiler's; beside them everything may still be fine."""
    points, lines = swept
    assert parts.sweep.outcome(points, lines, CONFIG) == "2 programs: nothing is impossible, and nothing shrinks."
    better = [points[0], with_record(points[1], program=replace(points[1].record.program, peak_bytes=1))]
    assert parts.sweep.problems(better, lines, CONFIG) == []
    first, _, told = parts.sweep.outcome(better, lines, CONFIG).splitlines()
    assert first == "2 programs: nothing is impossible."
    assert told == "decode_step on v5e-1: batch 1 to 2: peak_bytes shrinks from 20 to 1"


def test_a_program_that_was_not_compiled_is_a_problem(parts, swept):
    points, lines = swept
    refused = with_record(points[0], program=None, estimate=None, error="no.")
    assert "not compiled: no." in parts.sweep.problems([refused, points[1]], lines, CONFIG)[0]


def test_the_limits_are_those_of_the_first_engine(parts):
    """The others are timed to compare with."""
    one = parts.time.Timed(engine="a", run="cold", wall_s=59.0, cpu_s=1.0, compile_s=1.0, programs=10, remembered=0)
    warm = replace(one, run="warm 1", wall_s=9.0)
    assert parts.time.within([one, warm, replace(one, engine="b", wall_s=200.0)])
    assert not parts.time.within([replace(one, wall_s=61.0), warm])
    assert not parts.time.within([one, replace(warm, wall_s=11.0)])
    assert "| `a` | cold | 59.0 | 1.0 | 10 |" in parts.time.table([one])


@pytest.mark.slow
def test_compiling_is_timed_with_nothing_and_with_everything_known(parts, capsys):
    """The tiny model: the second run finds all programs, and says so."""
    asked = ["--quick", "--engine", "cached", "--target", "v5e-1", "--warm", "1", "--json"]
    assert parts.time.main(asked) == 0, capsys.readouterr().err
    cold, warm = json.loads(capsys.readouterr().out)
    assert (cold["run"], cold["remembered"], cold["programs"]) == ("cold", 0, 2)
    assert (warm["run"], warm["remembered"]) == ("warm 1", 2)


@pytest.mark.slow
def test_estimates_of_two_chips_and_facts_of_a_cpu_can_be_true_at_all_sizes(parts, capsys):
    """Layers, batch and context, two sizes of each at least; compilers are in processes of their own."""
    small = ["--model", "4x128", "--layers", "1", "2", "--batch", "1", "8", "--context", "64", "256"]
    assert parts.sweep.main(small) == 0, capsys.readouterr().out
    told = capsys.readouterr().out
    assert "30 programs: nothing is impossible" in told
    # Of so small a model a compiler may plan more work better, by its own estimate; bytes and operations never shrink.
    assert all(": seconds shrinks " in line for line in told.splitlines() if " shrinks " in line), told
