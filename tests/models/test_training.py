from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from qwenperf.errors import ConfigError, UnknownNameError
from qwenperf.measure.memory import program_facts
from qwenperf.models.config import ModelConfig
from qwenperf.models.loss import count_targets, make_batch, summed_loss
from qwenperf.models.modules import CausalLM
from qwenperf.models.seeded import seeded_params
from qwenperf.models.training import Trainer, TrainSettings, gradients_of, make_trainer

CONFIG = ModelConfig(
    model_type="qwen2",
    vocab_size=31,
    hidden_size=16,
    intermediate_size=32,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=4,
    tie_word_embeddings=True,
    attention_bias=True,
)
TEXT = np.tile(np.array([3, 1, 4, 1, 5, 9, 2, 6], np.int32), (4, 4))
LENGTHS = np.array([32, 5, 32, 20])
MASK = np.arange(32) < LENGTHS[:, None]
QUICK = {"xla_backend_optimization_level": 0}
"""Compiles several times as fast, to slower programs with the same buffers."""


def norm(tree):
    return np.sqrt(sum(np.square(np.asarray(leaf, np.float64)).sum() for leaf in jax.tree.leaves(tree)))


def difference(tree, other):
    return jax.tree.map(lambda one, two: np.asarray(one) - np.asarray(two), tree, other)


def bytes_of(tree):
    return sum(leaf.nbytes for leaf in jax.tree.leaves(tree))


@pytest.fixture(scope="module")
def params():
    """Layers stacked, so that they are scanned: four compile as fast as one."""
    made = seeded_params(CONFIG)
    return made | {"layers": jax.tree.map(lambda *layers: jnp.stack(layers), *made["layers"])}


@pytest.fixture(scope="module")
def ragged():
    return make_batch(TEXT, CONFIG, attention_mask=MASK)


@pytest.fixture(scope="module")
def gradients(params, ragged):
    """Compiles gradients for settings, once each: the program, the loss and the gradients."""
    known = {}

    def compiled(**settings):
        key = tuple(settings.items())
        if key not in known:
            chosen = TrainSettings(**settings)
            run = jax.jit(lambda params, batch: gradients_of(params, CONFIG, batch, chosen))
            program = run.lower(params, ragged).compile(QUICK)
            known[key] = program, *program(params, ragged)
        return known[key]

    return compiled


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """A trainer and its step for the batch, compiled ahead of time."""

    trainer: Trainer
    step: jax.stages.Compiled


def compiled(params, batch, *args):
    trainer = make_trainer(CONFIG, *args)
    return Compiled(trainer=trainer, step=trainer.step.lower(trainer.init(params), batch).compile(QUICK))


@pytest.fixture(scope="module")
def adamw(params, ragged):
    return compiled(params, ragged, TrainSettings(learning_rate=1e-2))


@pytest.fixture(scope="module")
def sgd(params, ragged):
    return compiled(params, ragged, TrainSettings(clip_norm=0.5, donate=False), optax.sgd(1.0))


def test_the_loss_falls_on_a_short_repeated_text(adamw, params, ragged):
    """Twenty steps learn most of what comes next."""
    state, losses = adamw.trainer.init(params), []
    for _ in range(20):
        state, progress = adamw.step(state, ragged)
        losses.append(float(progress.loss))
    assert losses[0] == pytest.approx(np.log(31), rel=0.2)
    assert losses[-1] < losses[0] / 2
    assert losses == sorted(losses, reverse=True)


def test_the_state_is_updated_in_place_and_the_model_keeps_its_own(adamw, params, ragged):
    """Weights and what the optimiser remembers alias in the compiled program; the arrays of the model stay alive."""
    state = adamw.trainer.init(params)
    facts = program_facts("train_step", adamw.step, donated=("state",), donated_bytes=bytes_of(state))
    assert facts.unaliased_donations == ()
    assert facts.alias_bytes >= bytes_of(state)
    adamw.step(state, ragged)
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(state.params))
    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(params))


def test_a_state_that_is_not_donated_is_kept(sgd, params, ragged):
    """Without donation nothing aliases, and the old state can be used again."""
    state = sgd.trainer.init(params)
    assert sgd.step.memory_analysis().alias_size_in_bytes == 0
    first, second = sgd.step(state, ragged)[1], sgd.step(state, ragged)[1]
    np.testing.assert_array_equal(first.loss, second.loss)


def test_gradients_are_clipped_by_their_global_norm(sgd, params, ragged, gradients):
    """A step of rate 1 is as long as the limit, in the direction of the gradients; their own norm is reported."""
    state = sgd.trainer.init(params)
    after, progress = sgd.step(state, ragged)
    _, _, found = gradients()
    np.testing.assert_allclose(progress.grad_norm, norm(found), rtol=1e-5)
    assert float(progress.grad_norm) > 0.5
    moved = difference(state.params, after.params)
    assert norm(moved) == pytest.approx(0.5, rel=1e-3)
    scale = 0.5 / progress.grad_norm
    np.testing.assert_allclose(moved["norm"]["weight"], found["norm"]["weight"] * scale, rtol=1e-2, atol=1e-6)


def test_computing_activations_again_changes_no_gradient_and_needs_less_memory(gradients):
    """Same numbers, and temporaries without the activations of all layers."""
    (plain, loss, expected), (again, loss_again, found) = gradients(), gradients(remat=True)
    np.testing.assert_allclose(loss_again, loss, rtol=1e-6)
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6), found, expected)
    sizes = [program.memory_analysis().temp_size_in_bytes for program in (again, plain)]
    assert sizes[0] < 0.75 * sizes[1]


def test_microbatches_add_up_to_the_whole_batch(gradients):
    """Rows of very different lengths weigh by their tokens: a mean of the parts' means would not."""
    (_, loss, expected), (_, parts_loss, found) = gradients(), gradients(microbatches=2)
    np.testing.assert_allclose(parts_loss, loss, rtol=1e-5)
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-6), found, expected)


def test_mixed_precision_computes_in_bf16_and_keeps_f32(gradients):
    """Products are bf16, gradients come back in f32 and are those of f32 within bf16's rounding."""
    (_, loss, expected), (program, rounded_loss, found) = gradients(), gradients(compute_dtype="bf16")
    assert {leaf.dtype for leaf in jax.tree.leaves(found)} == {jnp.dtype(jnp.float32)}
    assert "bf16[" in program.as_text()
    assert float(rounded_loss) != float(loss)
    np.testing.assert_allclose(rounded_loss, loss, rtol=1e-2)
    assert 0 < norm(difference(found, expected)) < 0.05 * norm(expected)


def test_the_state_holds_f32_whatever_the_model_is_stored_in(params):
    """A bf16 model trains on f32 copies: small updates would be rounded away."""
    stored = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params)
    state = make_trainer(CONFIG, TrainSettings(compute_dtype="bf16")).init(stored)
    floats = [leaf for leaf in jax.tree.leaves(state) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    assert {leaf.dtype for leaf in floats} == {jnp.dtype(jnp.float32)}


def test_a_module_is_trained_by_the_same_gradients(params, ragged, gradients):
    """The loss of a Module's parameters, differentiated by Flax, gives what the step uses; and back goes the state."""
    graph, state = nnx.split(CausalLM.from_params(CONFIG, params))

    def loss(module):
        return summed_loss(module.to_params(), CONFIG, ragged) / count_targets(ragged)

    differentiated = jax.jit(lambda state: nnx.value_and_grad(loss)(nnx.merge(graph, state)))
    value, found = differentiated.lower(state).compile(QUICK)(state)
    _, expected_value, expected = gradients()
    np.testing.assert_allclose(value, expected_value, rtol=1e-5)
    jax.tree.map(
        lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-6),
        nnx.merge(graph, found).to_params(),
        expected,
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"microbatches": 0}, "microbatches is 0"),
        ({"microbatches": True}, "microbatches is True"),
        ({"learning_rate": 0.0}, r"learning_rate is 0.0"),
        ({"learning_rate": float("nan")}, "learning_rate is nan"),
        ({"clip_norm": -1.0}, r"clip_norm is -1.0"),
        ({"weight_decay": -0.1}, r"weight_decay is -0.1"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, message):
    """The setting and its value are named."""
    with pytest.raises(ConfigError, match=message):
        TrainSettings(**settings)


def test_an_unknown_dtype_is_refused():
    """With the known ones."""
    with pytest.raises(UnknownNameError, match="bf16"):
        TrainSettings(compute_dtype="f16")


def test_rows_that_cannot_be_shared_evenly_are_refused(params, ragged):
    """Before anything is compiled."""
    with pytest.raises(ConfigError, match="4 rows cannot be shared evenly by 3 microbatches"):
        jax.eval_shape(lambda batch: gradients_of(params, CONFIG, batch, TrainSettings(microbatches=3)), ragged)
