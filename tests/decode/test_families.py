"""Engines know no families: each rung gives each family its greedy tokens."""

from functools import cache, partial

import jax
import numpy as np
import pytest

from qwenperf.decode.build import build_engine
from qwenperf.decode.facts import Work
from qwenperf.errors import ConfigError
from qwenperf.models.config import ModelConfig
from qwenperf.models.decoder import logits
from qwenperf.models.registry import Model
from qwenperf.models.seeded import seeded_params
from qwenperf.workloads.engine import RUNGS
from qwenperf.workloads.models import PRESETS

_SMALL = {"hidden_size": 32, "num_hidden_layers": 1, "intermediate_size": 48, "vocab_size": 64}
_LLAMA3 = PRESETS["llama-3.2-1b"]["rope_scaling"] | {"original_max_position_embeddings": 8}
SHAPES = {
    "gpt2": PRESETS["gpt2"] | {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 64, "n_positions": 12},
    "qwen3": PRESETS["tiny"] | _SMALL | {"model_type": "qwen3", "head_dim": 16},
    "llama3": PRESETS["tiny"] | _SMALL | {"model_type": "llama", "rope_scaling": _LLAMA3},
}


CAPACITY = 12


@cache
def build(family):
    """Return a model of the family."""
    config = ModelConfig.from_hf(SHAPES[family])
    return Model(name=family, config=config, params=seeded_params(config, seed=2), dtype="f32")


@cache
def truth(family):
    """Return the compiled uncached forward pass, for sequences of the full capacity."""
    return jax.jit(partial(logits, build(family).params, build(family).config))


@pytest.mark.parametrize("rung", ["naive", "padded", "cached-concat", "cached-host", "cached"])
@pytest.mark.parametrize("family", SHAPES)
def test_every_rung_gives_the_greedy_tokens(family, rung, prompt):
    """Each token is what an uncached pass over all that precedes it chooses; fixed shapes go to the last position."""
    tokens = prompt(2, 7) % 64
    count = 2 if RUNGS[rung].shape == "growing" else 5
    new = np.asarray(build_engine(build(family), rung, capacity=CAPACITY).generate(tokens, count))
    whole = np.zeros((2, CAPACITY), np.int32)
    whole[:, : 7 + count] = np.concatenate((tokens, new), axis=1)
    chosen = np.asarray(truth(family)(whole)).argmax(-1)
    np.testing.assert_array_equal(new, chosen[:, 6 : 6 + count])
    # A model whose greedy tokens were all the same would hide faults.
    assert count == 2 or len(np.unique(new)) > 3


def test_learned_positions_end_where_their_table_ends():
    """By default an engine has as many positions as the table has rows; more are refused."""
    assert build_engine(build("gpt2"), "cached").capacity == 12
    with pytest.raises(ConfigError, match="capacity 13 is more than the model's max_position_embeddings 12"):
        build_engine(build("gpt2"), "cached", capacity=13)


def test_work_of_gpt2_has_no_gate():
    """Four matrices of attention, two of the MLP; of the table of positions a step reads one row a sequence."""
    model = build("gpt2")
    matrices = 2 * (4 * 32 * 32 + 2 * 32 * 128)
    work = Work(config=model.config, batch=3).forward(queries=5, keys=7)
    assert work == 2 * 3 * (5 * matrices + 64 * 32) + 4 * 3 * 2 * 32 * 5 * 7
    facts = build_engine(model, "cached", capacity=12).facts(3, 7, 5)
    weights = sum(leaf.nbytes for leaf in jax.tree.leaves(model.params))
    assert facts.bytes_per_step == weights - 12 * 32 * 4 + 3 * 32 * 4 + facts.kv_cache_bytes


def test_work_of_qwen3_has_wide_heads():
    """Query heads together are twice as wide as the hidden state; head norms are no matrices."""
    matrices = 32 * (2 * 64 + 2 * 32) + 3 * 32 * 48
    work = Work(config=build("qwen3").config, batch=1).forward(queries=1, keys=1)
    assert work == 2 * (matrices + 64 * 32) + 4 * 64
