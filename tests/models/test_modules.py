import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from qwenperf.models.decoder import logits
from qwenperf.models.modules import CausalLM
from qwenperf.models.registry import load_model


def test_module_is_the_pure_functions():
    """The Flax Module gives the pure functions' logits, survives split and merge, and hands its arrays back."""
    model = load_model("tiny")
    tokens = jnp.array([[3, 1, 4, 1, 5]], jnp.int32)
    module = CausalLM.from_params(model.config, model.params)
    expected = logits(model.params, model.config, tokens)
    np.testing.assert_array_equal(module(tokens), expected)
    graph, state = nnx.split(module)
    np.testing.assert_array_equal(nnx.merge(graph, state)(tokens), expected)
    halved = nnx.merge(graph, jax.tree.map(lambda value: value / 2, state))
    assert not np.array_equal(halved(tokens), expected)
    back = module.to_params()
    assert jax.tree.structure(back) == jax.tree.structure(model.params)
    jax.tree.map(np.testing.assert_array_equal, back, model.params)
