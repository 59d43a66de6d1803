"""One function for one target: what the compiler made of it, or why it refuses."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.sharding import PartitionSpec

import qwenperf
from qwenperf.errors import UsageError
from qwenperf.gate.aot import exit_code, judge
from qwenperf.gate.aot_budget import ProgramBudgets
from qwenperf.schema.codec import aot_loads, dumps
from qwenperf.schema.records import Outcome, Status

SHAPE = jax.ShapeDtypeStruct((8,), jnp.float32)


@pytest.fixture(scope="module")
def sound(step, shapes):
    """The step for one chip, its cache donated."""
    return qwenperf.compile_for(step, *shapes(), targets="v5e-1", donate_argnums=2, tokens_per_call=1)


def failure(record):
    """The one summary of a failed gate."""
    (verdict,) = [
        one for case in judge(record, ProgramBudgets()).cases for one in case.verdicts if one.outcome is Outcome.FAIL
    ]
    return verdict.summary


def test_a_program_s_record_names_its_arguments_and_has_its_sizes(sound):
    """Everything is there, of a chip that is not; the record can be read back."""
    (case,) = sound.cases
    assert case.status is Status.MEASURED, case.error
    assert case.id == "decode_step@v5e-1/decode_step"
    named = {one.path: (one.shape, one.bytes, one.donated) for one in case.arguments}
    assert named["cache.keys"] == ("bf16[256,256]", 131072, True)
    assert named["params.embed"] == ("bf16[512,256]", 262144, False)
    assert [one.bytes for one in case.arguments] == sorted((one.bytes for one in case.arguments), reverse=True)
    assert case.program.unaliased_donations == ()
    assert case.program.argument_bytes >= sum(size for _, size, _ in named.values())
    assert case.fit.fits
    assert 0 < case.estimate.tokens_per_s < 1e7
    assert case.compile_s > 0
    assert aot_loads(dumps(sound)) == sound
    assert exit_code(judge(sound, ProgramBudgets())) == 0


def test_two_compilations_give_one_record(sound, step, shapes):
    """Facts are deterministic: only seconds differ."""
    (again,) = qwenperf.compile_for(step, *shapes(), targets="v5e-1", donate_argnums=2, tokens_per_call=1).cases
    (case,) = sound.cases
    assert (again.program, again.fit, again.estimate) == (case.program, case.fit, case.estimate)


def test_a_donation_that_is_lost_is_named(shapes):
    """An output of another dtype cannot be written over the cache."""

    def widened(params, _token, cache):
        return {"keys": cache["keys"].astype(jnp.float32) + params["w"][0, 0].astype(jnp.float32)}

    record = qwenperf.compile_for(widened, *shapes(), donate_argnums=2)
    assert "cache.keys" in failure(record)
    assert "was donated and is not updated in place" in failure(record)


def test_a_cache_past_the_chip_s_memory_is_named(step, shapes):
    """The compiler refuses, and the record says how much it wanted and which argument is large."""
    record = qwenperf.compile_for(step, *shapes(24 * 2**20), targets="v5e-1,v7x-4", donate_argnums=())
    small, large = record.cases
    assert small.status is Status.FAILED
    assert not small.extra.get("crashed")
    assert "RESOURCE_EXHAUSTED" in small.error
    assert small.fit is not None
    assert small.fit.peak_bytes > small.fit.hbm_bytes > 2**30
    assert not small.fit.fits
    assert "`cache.keys` (bf16[25165824,256], 12.9 GB)" in failure(only(record, small))
    assert large.status is Status.MEASURED, large.error


@pytest.mark.slow
def test_the_largest_cache_that_is_foretold_is_one_that_compiles(step, shapes):
    """A tenth less fits and a tenth more does not; the refusal foretells about the same, of a thousand rows' cache."""
    asked = partial(qwenperf.compile_for, step, donate_argnums=2, tokens_per_call=1)
    positions = 1024
    (small,) = asked(*shapes(positions)).cases
    most = positions * small.fit.largest_batch
    less, more = (asked(*shapes(int(most * share)), batch=1000) for share in (0.9, 1.1))
    (fits,), (too_large,) = less.cases, more.cases
    assert fits.status is Status.MEASURED, fits.error
    assert fits.fit.fits
    assert too_large.status is Status.FAILED
    assert too_large.fit.largest_batch == pytest.approx(1000 / 1.1, rel=0.02)
    assert f"(estimate: batch up to {too_large.fit.largest_batch})" in failure(more)


def only(record, case):
    return replace(record, cases=(case,), declared=(case.id,))


def test_a_kernel_s_block_that_the_chip_has_not_is_an_answer():
    """Lowering for a TPU refuses it, with the kernel's line; on a CPU the function itself is fine to trace."""

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    def doubled(x):
        spec = pl.BlockSpec((3, 100), lambda i: (i, 0))
        return pl.pallas_call(
            kernel, grid=(8,), in_specs=[spec], out_specs=spec, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype)
        )(x)

    record = qwenperf.compile_for(doubled, jax.ShapeDtypeStruct((24, 200), jnp.float32))
    (case,) = record.cases
    assert case.status is Status.FAILED
    assert case.extra["phase"] == "lowering"
    assert "block" in failure(record)


def test_an_error_in_the_function_is_its_author_s(shapes):
    """It raises where it was made, as under jit."""

    def broken(params, _token, cache):
        return params["w"] @ cache["length"]

    with pytest.raises((TypeError, ValueError), match=r"matmul|scalar|dimension"):
        qwenperf.compile_for(broken, *shapes())


def test_a_training_step_compiles_on_several_chips_as_its_specs_say():
    """Weights divided over one axis, the batch over the other; sizes are those of one device."""

    def loss(params, batch):
        return jnp.mean(jnp.square(jnp.tanh(batch @ params["up"]) @ params["down"]))

    @partial(jax.jit, donate_argnums=0)
    def train_step(params, batch):
        value, slopes = jax.value_and_grad(loss)(params, batch)
        return jax.tree.map(lambda old, slope: old - jnp.float32(0.1) * slope, params, slopes), value

    f32 = partial(jax.ShapeDtypeStruct, dtype=jnp.float32)
    spec = PartitionSpec
    record = qwenperf.compile_for(
        train_step, {"up": f32((256, 512)), "down": f32((512, 256))}, f32((16, 256)), targets="v5e-4",
        mesh={"data": 2, "tensor": 2},
        specs=({"up": spec(None, "tensor"), "down": spec("tensor", None)}, spec("data")),
    )  # fmt: skip
    (case,) = record.cases
    assert case.status is Status.MEASURED, case.error
    assert case.target.mesh == {"data": 2, "tensor": 2}
    assert {one.path: one.shape for one in case.arguments} == {
        "params.up": "f32[256,256]", "params.down": "f32[256,256]", "batch": "f32[8,256]",
    }  # fmt: skip
    assert {one.kind for one in case.program.collectives} == {"all-reduce"}
    assert case.program.unaliased_donations == ()


def test_partials_methods_and_static_arguments_are_taken_as_they_are():
    """The names are those of the function's own parameters."""

    class Model:
        def scaled(self, x, factor):
            return x * factor

    @partial(jax.jit, static_argnums=1)
    def repeated(x, times, y):
        return x * times + y

    f32 = jax.ShapeDtypeStruct((8,), jnp.float32)
    (case,) = qwenperf.compile_for(partial(repeated, f32, 3), f32, targets="cpu").cases
    assert [one.path for one in case.arguments] == ["x", "y"]
    (case,) = qwenperf.compile_for(Model().scaled, f32, f32, targets="cpu").cases
    assert [one.path for one in case.arguments] == ["x", "factor"]
    assert case.fit is None
    assert case.estimate.tokens_per_s is None


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"targets": "v99-1"}, "unknown target 'v99-1'"),
        ({"donate_argnums": 0, "jitted": True}, "donate_argnums is given, and the function is jitted already"),
        ({"mesh": {"x": 3}, "targets": "v5e-4"}, "has 3 devices, and the target 4"),
        ({"specs": (PartitionSpec(),)}, "specs needs a mesh"),
        ({"function": "no function"}, "is no function"),
        ({"function": partial(lambda x, y: x + y, SHAPE)}, "holds a jax.ShapeDtypeStruct"),
        ({"function": partial(jax.jit(lambda x, y: x + y), y=SHAPE)}, "holds a jax.ShapeDtypeStruct"),
        ({"tokens_per_call": -1}, "tokens_per_call is -1, and no whole number of at least 0"),
        ({"tokens_per_call": float("nan")}, "tokens_per_call is nan"),
        ({"batch": 0}, "batch is 0, and no whole number of at least 1"),
        ({"batch": 1.5}, "batch is 1.5"),
        ({"targets": None}, "targets None is no name"),
        ({"targets": 5}, "targets 5 is no name"),
        ({"mesh": "a"}, "mesh 'a' has no axes with sizes"),
        ({"mesh": {}}, "has no axes with sizes"),
        ({"mesh": {"a": -1}}, "has no axes with sizes"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_compiles(more, told):
    """One line, with what to do."""
    more = dict(more)
    function = more.pop("function", lambda x: x + 1)
    if more.pop("jitted", False):
        function = jax.jit(function)
    with pytest.raises(UsageError, match=told):
        qwenperf.compile_for(function, jax.ShapeDtypeStruct((8,), jnp.float32), **more)
