import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from qwenperf.errors import UnknownNameError
from qwenperf.models.decoder import logits
from qwenperf.models.modules import CausalLM
from qwenperf.models.registry import load_model

FAMILIES = ("qwen2-tied", "qwen3-untied-yarn", "llama-llama3", "gpt2-tied")
TOKENS = np.array([[3, 1, 4, 1, 5], [2, 7, 1, 8, 2]], np.int32)


@nnx.jit
def call(module, mask=None):
    return module(jnp.asarray(TOKENS), attention_mask_BT=mask)


def mean_square(module):
    return jnp.mean(jnp.square(module(jnp.asarray(TOKENS))))


@pytest.fixture(scope="module", params=FAMILIES)
def pair(request, golden):
    """A checkpoint of each family, as functions with their parameters and as a Module."""
    path = str(golden.folder / request.param)
    return load_model(path), CausalLM.load(path)


@pytest.fixture(scope="module")
def module():
    return CausalLM.load("tiny")


def test_a_module_of_a_checkpoint_is_the_pure_functions(pair):
    """Any checkpoint loads as a Module, whose logits are those of the functions, padding and jit included."""
    model, module = pair
    mask = jnp.array([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]], jnp.int32)
    plain = jax.jit(lambda params: logits(params, model.config, jnp.asarray(TOKENS), attention_mask_BT=mask))
    np.testing.assert_array_equal(call(module, mask), plain(model.params))


def test_parameters_come_back_as_they_went_in(pair):
    """The tree of a Module is the engines' tree: the same arrays, at the same places."""
    model, _ = pair
    back = CausalLM.from_params(model.config, model.params).to_params()
    assert jax.tree.structure(back) == jax.tree.structure(model.params)
    assert all(new is old for new, old in zip(jax.tree.leaves(back), jax.tree.leaves(model.params), strict=True))


def test_a_state_is_split_off_changed_and_merged(module):
    """Graph and state go both ways, and the merged Module computes with the state that it was given."""
    graph, state = nnx.split(module)
    expected = call(module)
    np.testing.assert_array_equal(call(nnx.merge(graph, state)), expected)
    halved = nnx.merge(graph, jax.tree.map(lambda value: value / 2, state))
    assert not np.array_equal(call(halved), expected)
    np.testing.assert_array_equal(halved.to_params()["norm"]["weight"], module.to_params()["norm"]["weight"] / 2)


def test_filters_choose_tensors_by_the_names_of_their_path(module):
    """One layer, one kind of matrix or the rest can be told from all others."""
    queries, first, rest = nnx.state(module, nnx.PathContains("q_proj"), nnx.PathContains(0), ...)
    assert {path[-2] for path, _ in nnx.to_flat_state(queries)} == {"q_proj"}
    assert {path[2] for path, _ in nnx.to_flat_state(first)} == {0}
    total = sum(len(jax.tree.leaves(part)) for part in (queries, first, rest))
    assert total == len(jax.tree.leaves(module.to_params()))
    assert nnx.state(module, nnx.BatchStat) == nnx.State({})


def test_gradients_are_those_of_the_pure_functions(module):
    """Differentiating the Module gives the functions' gradients, and of chosen tensors alone where a filter says so."""
    tokens, config = jnp.asarray(TOKENS), module.config
    value, found = nnx.jit(nnx.value_and_grad(mean_square))(module)
    plain = jax.jit(jax.value_and_grad(lambda params: jnp.mean(jnp.square(logits(params, config, tokens)))))
    expected_value, expected = plain(module.to_params())
    np.testing.assert_allclose(value, expected_value, rtol=1e-5)
    by_path = {path: leaf[...] for path, leaf in nnx.to_flat_state(found)}
    wanted = by_path["weights", "layers", 1, "mlp", "up_proj", "weight"]
    np.testing.assert_allclose(wanted, expected["layers"][1]["mlp"]["up_proj"]["weight"], rtol=1e-3, atol=1e-6)
    norms = nnx.PathContains("norm")
    some = nnx.jit(nnx.grad(mean_square, argnums=nnx.DiffState(0, norms)))(module)
    assert [path for path, _ in nnx.to_flat_state(some)] == [("weights", "norm", "weight")]


def test_a_module_is_saved_and_restored_as_a_plain_tree(module):
    """What a saver of dictionaries of arrays keeps is enough: no class of ours is in it."""
    graph, state = nnx.split(module)
    plain = jax.tree.map(np.asarray, nnx.to_pure_dict(state))
    assert {type(leaf) for leaf in jax.tree.leaves(plain)} == {np.ndarray}
    blank = nnx.merge(graph, jax.tree.map(jnp.zeros_like, state))
    assert not np.any(call(blank))
    fresh = nnx.state(blank)
    nnx.replace_by_pure_dict(fresh, plain)
    nnx.update(blank, fresh)
    np.testing.assert_array_equal(call(blank), call(module))


def test_an_unknown_model_is_refused_with_the_nearest_name():
    """The Module's loader is the functions' loader."""
    with pytest.raises(UnknownNameError, match="tiny"):
        CausalLM.load("tyni")
