"""What heads of 64 cost on a TPU, whose tiles are 128 wide, as its compiler sees it: `python -m benchmarks.aot_heads`.

One layer's attention of a decode step, in each way to keep heads of half a tile: apart (each row of a cache is padded
to a tile), padded by ourselves to 128, or two heads packed side by side in one tile. Packed ones are never taken apart:
a query has zeros where the other head lies, so that one product gives its own scores. Nothing is run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp

from qwenperf import units
from qwenperf.aot.functions import compile_for
from qwenperf.schema.analysis import AotCase

KV_HEADS, GROUP, SIZE, TILE = 2, 7, 64, 128
"""Qwen2.5-0.5B: 14 query heads of 64 in 2 groups."""

TARGETS, BATCHES, POSITIONS = "v5e-1,v6e-1", (1, 32), 4096
Arrays = tuple[jax.Array, jax.Array, jax.Array]
Pair = tuple[jax.Array, jax.Array]


def attend(queries: jax.Array, keys: jax.Array, values: jax.Array, position: jax.Array) -> jax.Array:
    """Return the mixed values [N, H, C] of queries [N, H, C] over keys and values [N, S, C] up to a position."""
    scores = jnp.einsum("nhc,nsc->nhs", queries, keys, preferred_element_type=jnp.float32)
    seen = jnp.arange(keys.shape[1], dtype=position.dtype) <= position
    weights = jax.nn.softmax(jnp.where(seen[None, None], scores, jnp.float32(-1e30)))
    return jnp.einsum("nhs,nsc->nhc", weights.astype(values.dtype), values)


def written(cache: jax.Array, new: jax.Array, position: jax.Array) -> jax.Array:
    """Return the cache [N, S, C] with a row [N, C] at a position."""
    return jax.lax.dynamic_update_slice_in_dim(cache, new[:, None], position, axis=1)


def apart(queries: jax.Array, new: Pair, keys: jax.Array, values: jax.Array, position: jax.Array) -> Arrays:
    """Keep each head by itself, ``size`` wide: the cache is [B K, S, size], and wider than a head where padded."""
    size = keys.shape[-1]

    def by_head(x: jax.Array) -> jax.Array:
        wide = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, size - SIZE)])
        return wide.reshape(keys.shape[0], *wide.shape[2:])

    key, value = new
    keys, values = written(keys, by_head(key), position), written(values, by_head(value), position)
    mixed = attend(by_head(queries), keys, values, position)[..., :SIZE]
    return mixed.reshape(queries.shape), keys, values


def packed(queries: jax.Array, new: Pair, keys: jax.Array, values: jax.Array, position: jax.Array) -> Arrays:
    """Keep both heads side by side: the cache is [B, S, K C], and a query has zeros where the other head lies."""
    batch = queries.shape[0]
    own = jnp.eye(KV_HEADS, dtype=queries.dtype)
    key, value = new
    keys = written(keys, key.reshape(batch, -1), position)
    values = written(values, value.reshape(batch, -1), position)
    wide = jnp.einsum("bkgc,kj->bkgjc", queries, own).reshape(batch, KV_HEADS * GROUP, -1)
    mixed = attend(wide, keys, values, position).reshape(batch, KV_HEADS, GROUP, KV_HEADS, SIZE)
    return jnp.einsum("bkgjc,kj->bkgc", mixed, own), keys, values


@dataclass(frozen=True, kw_only=True)
class Form:
    """One way to keep heads: ``rows`` of a cache a row of the batch, each ``width`` wide."""

    step: Callable[..., Arrays]
    rows: int
    width: int


FORMS: Mapping[str, Form] = {
    "apart": Form(step=apart, rows=KV_HEADS, width=SIZE),
    "padded to 128": Form(step=apart, rows=KV_HEADS, width=TILE),
    "packed": Form(step=packed, rows=1, width=KV_HEADS * SIZE),
}


def compiled(form: Form, batch: int, positions: int, targets: str) -> tuple[AotCase, ...]:
    """Return what the compilers of the targets make of one form."""
    shape = partial(jax.ShapeDtypeStruct, dtype=jnp.bfloat16)
    cache = shape((batch * form.rows, positions, form.width))
    new = shape((batch, KV_HEADS, SIZE))
    position = jax.ShapeDtypeStruct((), jnp.int32)
    arguments = (shape((batch, KV_HEADS, GROUP, SIZE)), (new, new), cache, cache, position)
    step = jax.jit(form.step, donate_argnums=(2, 3))
    return compile_for(step, *arguments, targets=targets, tokens_per_call=batch, batch=batch).cases


def rows(targets: str, batches: tuple[int, ...], positions: int) -> Iterator[str]:
    """Yield the lines of a Markdown table.

    Raises:
      RuntimeError: a compiler refuses a form.
    """
    yield "| target | batch | heads | cache in memory | moved in a call | copied | ~time |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for batch in batches:
        for name, form in FORMS.items():
            for case in compiled(form, batch, positions, targets):
                program, estimate = case.program, case.estimate
                if program is None or estimate is None or estimate.seconds is None:
                    raise RuntimeError(f"{name} on {case.target.name}: {case.error}")
                sizes = (program.alias_bytes, program.hbm_bytes, program.extra["copied_bytes"])
                told = (*(units.byte_count(size or 0) for size in sizes), units.seconds(estimate.seconds))
                yield f"| {case.target.name} | {batch} | {name} | {' | '.join(told)} |"


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.aot_heads", description=__doc__)
    parser.add_argument("--target", default=TARGETS)
    parser.add_argument("--batch", type=int, nargs="+", default=BATCHES)
    parser.add_argument("--positions", type=int, default=POSITIONS)
    asked = parser.parse_args()
    for line in rows(asked.target, tuple(asked.batch), asked.positions):
        print(line, flush=True)  # noqa: T201 - the result
    return 0


if __name__ == "__main__":
    sys.exit(main())
