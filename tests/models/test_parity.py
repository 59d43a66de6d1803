"""Our forward pass and readers against what transformers computed."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.models.decoder import logits
from qwenperf.models.gguf import half_split
from qwenperf.models.registry import load_model

MODELS = (
    "qwen2-tied", "qwen2-untied-sharded", "llama-untied", "llama-tied-head-dim", "gpt2-tied", "gpt2-untied-inner",
    "qwen3-tied", "qwen3-untied-yarn", "qwen2-yarn", "llama-llama3", "llama-linear",
)  # fmt: skip
PROMPTS = ("length-1", "length-7", "length-64", "right-padded", "left-padded")
FAMILIES = ("qwen2-tied", "llama-untied", "gpt2-tied", "qwen3-tied")
TINY_F32, SMOLLM2_F32 = 1e-5, 1e-4
F32 = [(name, prompt) for name in MODELS for prompt in (PROMPTS if name in FAMILIES else ("length-64", "left-padded"))]
"""Every prompt of one checkpoint a family; of its variants the longest, and padding: each pair compiles."""
BF16 = [
    *((name, prompt) for name in ("qwen2-tied", "llama-untied") for prompt in PROMPTS),
    *((name, "left-padded") for name in MODELS if name not in ("qwen2-tied", "llama-untied")),
]
"""Every prompt of two families, one of each other checkpoint: each pair compiles, and f32 tells the variants apart."""


@pytest.fixture(scope="module")
def tiny(golden):
    cache = {}

    def load(name, dtype):
        if (name, dtype) not in cache:
            cache[name, dtype] = load_model(str(golden.folder / name), dtype)
        return cache[name, dtype]

    return load


@partial(jax.jit, static_argnums=1)
def run(params, config, tokens_BT, mask_BT):
    return logits(params, config, tokens_BT, attention_mask_BT=mask_BT)


def error(params, config, arrays, prompt, columns=slice(None)):
    """Return max|difference| / max|logit| over the tokens that are no padding."""
    tokens, mask = arrays[f"{prompt}/tokens"], arrays[f"{prompt}/mask"]
    ours = run(params, config, jnp.asarray(tokens), None if mask.all() else jnp.asarray(mask))
    assert ours.dtype == jnp.float32
    difference = np.abs(np.asarray(ours)[mask][:, columns] - arrays[f"{prompt}/logits"])
    return difference.max() / arrays[f"{prompt}/largest"]


def of(golden, name):
    return {key.removeprefix(f"{name}/"): value for key, value in golden.tiny.items() if key.startswith(f"{name}/")}


@pytest.mark.parametrize(("name", "prompt"), F32)
def test_tiny_f32(golden, tiny, name, prompt):
    """A tiny checkpoint gives transformers' logits in f32, alone and padded on either side."""
    model = tiny(name, "f32")
    assert error(model.params, model.config, of(golden, name), prompt) <= TINY_F32


@pytest.mark.parametrize(("name", "prompt"), BF16)
def test_tiny_bf16(golden, tiny, name, prompt):
    """In bf16 we are no further from the exact logits than transformers in bf16 is."""
    model = tiny(name, "bf16")
    assert error(model.params, model.config, of(golden, name), prompt) <= golden.facts["bf16_error"][name]


@pytest.mark.parametrize("fault", ["order of q and k", "rope_theta", "bias", "norm"])
def test_a_planted_fault_is_far_off(golden, tiny, fault):
    """The comparison sees rotary halves left in GGUF's order, another rope_theta, a lost bias, a lost norm weight."""
    model = tiny("qwen2-tied", "f32")
    attention = model.params["layers"][1]["self_attn"]
    layer, config = model.params["layers"][1], model.config
    if fault == "order of q and k":
        turned = {
            name: attention[name] | {"weight": jnp.asarray(half_split(np.asarray(attention[name]["weight"]), heads))}
            for name, heads in (("q_proj", config.num_attention_heads), ("k_proj", config.num_key_value_heads))
        }
        layer = layer | {"self_attn": attention | turned}
    elif fault == "rope_theta":
        config = type(config)(**{**vars(config), "rope_theta": 10000.0})
    elif fault == "bias":
        layer = layer | {"self_attn": attention | {"v_proj": {"weight": attention["v_proj"]["weight"]}}}
    else:
        layer = layer | {"input_layernorm": {"weight": jnp.ones_like(layer["input_layernorm"]["weight"])}}
    params = model.params | {"layers": (model.params["layers"][0], layer)}
    assert error(params, config, of(golden, "qwen2-tied"), "length-64") > 100 * TINY_F32


@pytest.mark.parametrize("fault", ["positions", "norm bias", "order of q, k and v"])
def test_a_planted_fault_in_gpt2_is_far_off(golden, tiny, fault):
    """The comparison sees positions moved by one, a lost bias of a norm, and q, k and v in another order."""
    model = tiny("gpt2-tied", "f32")
    params, layer = model.params, model.params["layers"][1]
    attention, size = layer["self_attn"], model.config.hidden_size
    if fault == "positions":
        params = params | {"embed_positions": {"weight": jnp.roll(params["embed_positions"]["weight"], 1, axis=0)}}
    elif fault == "norm bias":
        layer = layer | {"input_layernorm": layer["input_layernorm"] | {"bias": jnp.zeros(size)}}
    else:
        exchanged = {name: jnp.roll(value, size, axis=0) for name, value in attention["qkv_proj"].items()}
        layer = layer | {"self_attn": attention | {"qkv_proj": exchanged}}
    params = params | {"layers": (params["layers"][0], layer)}
    assert error(params, model.config, of(golden, "gpt2-tied"), "length-64") > 100 * TINY_F32


@pytest.mark.parametrize("name", ["qwen3-tied", "qwen3-untied-yarn", "qwen2-yarn", "llama-llama3", "llama-linear"])
def test_a_lost_scaling_or_head_norm_is_far_off(golden, tiny, name):
    """The comparison sees positions that are not stretched, and a query head that is not normalised."""
    model = tiny(name, "f32")
    params, config = model.params, replace(model.config, rope_scaling=None)
    if model.config.rope_scaling is None:
        layer = params["layers"][1]
        attention = layer["self_attn"]
        ones = {"weight": jnp.ones_like(attention["q_norm"]["weight"])}
        layer = layer | {"self_attn": attention | {"q_norm": ones}}
        params = params | {"layers": (params["layers"][0], layer)}
    assert error(params, config, of(golden, name), "length-64") > 100 * TINY_F32


@pytest.mark.slow
@pytest.mark.parametrize("prompt", PROMPTS)
def test_smollm2_f32(golden, smollm2, prompt):
    """The real weights out of GGUF give transformers' logits."""
    columns = slice(None, None, 193)
    assert error(smollm2.params, smollm2.config, golden.smollm2, prompt, columns) <= SMOLLM2_F32


@pytest.mark.slow
def test_smollm2_bf16(golden, smollm2):
    """The real weights in bf16 are about as far off as transformers in bf16 is.

    Both are the largest of thousands of rounding errors, whose order of sums is the processor's: where an EPYC kept to
    what transformers shows, a Xeon with AVX-512 and no bf16 of its own was off by 1.06 times that.
    """
    params = jax.tree.map(lambda value: value.astype(jnp.bfloat16), smollm2.params)
    found = error(params, smollm2.config, golden.smollm2, "length-64", slice(None, None, 193))
    assert found <= 1.25 * golden.facts["bf16_error"]["smollm2-135m"]


@pytest.mark.slow
def test_smollm2_greedy(golden, smollm2):
    """The real weights continue a chat token for token as transformers does, in readable words."""
    prompt, expected = golden.smollm2["greedy/prompt"], golden.smollm2["greedy/tokens"]
    assert smollm2.tokenizer.encode(golden.facts["chat"]) == prompt.tolist()
    # One pass over prompt and expected tokens: each argmax must be the next token, so greedy decoding is the same.
    tokens = jnp.asarray(np.concatenate([prompt, expected])[None])
    chosen = np.asarray(run(smollm2.params, smollm2.config, tokens, None)[0].argmax(-1))
    np.testing.assert_array_equal(chosen[len(prompt) - 1 : -1], expected)
    assert smollm2.tokenizer.decode(expected).startswith("The capital of France is Paris.")
