"""A decode step and an attention in plain JAX, and each of them with one thing wrong: what the compiler is to show.

``step`` is right: layers unrolled, the cache donated and updated in place. Every other function differs in what its
name says. They take shapes only: nothing is ever run.
"""

import math
from functools import partial

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention
from jax.sharding import PartitionSpec as P

LAYERS, WIDTH, HEADS, HEAD, WIDE, VOCABULARY = 2, 1024, 8, 128, 4096, 65536
BATCH, POSITIONS = 8, 2048
"""Large enough that weights and cache do not fit the chip's own memory, in which copies cost little."""

SHAPES = {
    "w_qkv": (WIDTH, 3 * HEADS * HEAD),
    "w_q": (WIDTH, HEADS * HEAD),
    "w_k": (WIDTH, HEADS * HEAD),
    "w_v": (WIDTH, HEADS * HEAD),
    "w_o": (HEADS * HEAD, WIDTH),
    "w_gate_up": (WIDTH, 2 * WIDE),
    "w_gate": (WIDTH, WIDE),
    "w_up": (WIDTH, WIDE),
    "w_down": (WIDE, WIDTH),
}
APART = ("w_q", "w_k", "w_v", "w_o", "w_gate", "w_up", "w_down")
FUSED = ("w_qkv", "w_o", "w_gate", "w_up", "w_down")
STACKED = ("w_q", "w_k", "w_v", "w_o", "w_gate_up", "w_down")


DIVIDED = {"w_o": P("tensor", None), "w_down": P("tensor", None)}
"""How weights lie on a mesh with one axis, ``tensor``: whole heads on each device. Others are divided by outputs."""


def shape(*sizes, dtype=jnp.bfloat16):
    """Return the shape of an array that nobody allocates."""
    return jax.ShapeDtypeStruct(sizes, dtype)


def arguments(names=APART, positions=POSITIONS):
    """Return the shapes of a step: weights, cache, the tokens of this step and their position."""
    layers = [{name: shape(*SHAPES[name]) for name in names} for _ in range(LAYERS)]
    cache = {name: [shape(BATCH, positions, HEADS, HEAD) for _ in range(LAYERS)] for name in ("k", "v")}
    params = {"embedding": shape(VOCABULARY, WIDTH), "layers": layers}
    return params, cache, shape(BATCH, dtype=jnp.int32), shape(dtype=jnp.int32)


def divisions(names=APART):
    """Return how these arguments lie on a mesh."""
    layers = [{name: DIVIDED.get(name, P(None, "tensor")) for name in names} for _ in range(LAYERS)]
    cache = {name: [P(None, None, "tensor") for _ in range(LAYERS)] for name in ("k", "v")}
    return {"embedding": P(), "layers": layers}, cache, P(), P()


def stacked_arguments(layers=16, *, turned=False):
    """Return the shapes of a step whose layers are in one array each; ``turned``: that lie the other way round."""
    params, cache, *rest = arguments()
    stack = {name: shape(layers, *SHAPES[name][:: -1 if turned else 1]) for name in STACKED}
    return {**params, "layers": stack}, {name: arrays[:1] for name, arrays in cache.items()}, *rest


def block(layer, keys, values, x, position):
    """Return one layer's output and its cache with the new position written."""
    if "w_qkv" in layer:
        q, k, v = jnp.split(x @ layer["w_qkv"], 3, axis=-1)
    else:
        q, k, v = x @ layer["w_q"], x @ layer["w_k"], x @ layer["w_v"]
    q, k, v = (part.reshape(BATCH, 1, HEADS, HEAD) for part in (q, k, v))
    keys = jax.lax.dynamic_update_slice(keys, k.astype(keys.dtype), (0, position, 0, 0))
    values = jax.lax.dynamic_update_slice(values, v.astype(values.dtype), (0, position, 0, 0))
    scores = jnp.einsum("bqhd,bshd->bhqs", q, keys.astype(q.dtype)).astype(jnp.float32) / math.sqrt(HEAD)
    seen = jnp.arange(keys.shape[1]) <= position
    scores = jnp.where(seen[None, None, None], scores, -1e30)
    mixed = jnp.einsum("bhqs,bshd->bqhd", jax.nn.softmax(scores).astype(q.dtype), values.astype(q.dtype))
    x = x + mixed.reshape(BATCH, HEADS * HEAD) @ layer["w_o"]
    if "w_gate_up" in layer:
        gate, up = jnp.split(x @ layer["w_gate_up"], 2, axis=-1)
    else:
        gate, up = x @ layer["w_gate"], x @ layer["w_up"]
    return x + (jax.nn.silu(gate) * up) @ layer["w_down"], keys, values


def _step(params, cache, token, position):
    x = params["embedding"][token]
    keys, values = list(cache["k"]), list(cache["v"])
    for index, layer in enumerate(params["layers"]):
        x, keys[index], values[index] = block(layer, keys[index], values[index], x, position)
    return jnp.argmax(x @ params["embedding"].T, axis=-1), {"k": keys, "v": values}


step = jax.jit(_step, donate_argnames=("cache",))
not_donated = jax.jit(_step)


@partial(jax.jit, donate_argnames=("cache",))
def cache_in_another_dtype(params, cache, token, position):
    """Donate a cache in vain: what comes back is wider."""
    token, cache = _step(params, cache, token, position)
    return token, jax.tree.map(lambda array: array.astype(jnp.float32), cache)


@partial(jax.jit, donate_argnames=("cache",))
def weights_in_f32(params, cache, token, position):
    """Widen all weights at the top of the step."""
    wide = jax.tree.map(lambda array: array.astype(jnp.float32), params)
    return _step(wide, cache, token, position)


@partial(jax.jit, donate_argnames=("cache",))
def scanned(params, cache, token, position):
    """Run a loop over the layers of stacked weights."""
    x = params["embedding"][token]

    def body(carry, layer):
        x, keys, values = carry
        x, keys, values = block(layer, keys, values, x, position)
        return (x, keys, values), None

    (x, keys, values), _ = jax.lax.scan(body, (x, cache["k"][0], cache["v"][0]), params["layers"])
    return jnp.argmax(x @ params["embedding"].T, axis=-1), {"k": [keys], "v": [values]}


@partial(jax.jit, donate_argnames=("cache",))
def scanned_transposed(params, cache, token, position):
    """Run the same loop over weights that lie the other way round."""
    turned = {name: jnp.swapaxes(array, 1, 2) for name, array in params["layers"].items()}
    return scanned.__wrapped__({**params, "layers": turned}, cache, token, position)


def attention_arguments(length=8192):
    """Return the shapes of queries, keys and values, [B, H, T, D]."""
    return tuple(shape(1, HEADS, length, HEAD) for _ in range(3))


@jax.jit
def flash(q, k, v):
    """Attend in blocks, which never hold all scores."""
    return flash_attention(q, k, v, causal=True)


@jax.jit
def materialised(q, k, v):
    """Attend with all scores in memory."""
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k).astype(jnp.float32)
    causal = jnp.tril(jnp.ones(scores.shape[2:], bool))[None, None]
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(jnp.where(causal, scores, -1e30)).astype(v.dtype), v)


def _double(source, target):
    target[...] = source[...] * 2


def doubled(x, block):
    """Double ``x`` in a kernel, ``block`` at a time."""
    spec = pl.BlockSpec(block, lambda row, column: (row, column))
    grid = tuple(math.ceil(size / part) for size, part in zip(x.shape, block, strict=True))
    call = pl.pallas_call(
        _double,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=grid,
        in_specs=[spec],
        out_specs=spec,
        name="double",
    )
    return call(x)


kernel = jax.jit(partial(doubled, block=(8, 128)))
kernel_with_odd_block = jax.jit(partial(doubled, block=(7, 100)))
kernel_with_large_block = jax.jit(partial(doubled, block=(8192, 8192)))
