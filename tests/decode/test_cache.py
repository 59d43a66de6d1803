"""The cache as arrays: layouts, dtypes, bytes, and what becomes of it between requests and in compiled steps."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.decode.build import build_engine
from qwenperf.decode.cache import allocate, cache_bytes, capacity_of, write_in_place, write_layer
from qwenperf.decode.facts import keys_read
from qwenperf.decode.state import byte_size
from qwenperf.models.keys_values import KeysValues
from qwenperf.models.registry import load_model
from qwenperf.program.facts import copies
from qwenperf.program.hlo import parse
from qwenperf.program.rewrites import converted
from qwenperf.workloads.engine import EngineSettings, parse_engine

LAYOUTS = ["head-major", "position-major", "stacked"]
CACHES = [(layout, dtype) for layout in LAYOUTS for dtype in ("native", "bf16", "int8")]
ROW = {"native": 16 * 4, "bf16": 16 * 2, "int8": 16 + 4}
"""Bytes of a head of 16 at one position, int8 with its scale."""


@pytest.mark.parametrize(("layout", "dtype"), CACHES)
def test_a_caches_bytes_are_those_of_the_formula(layout, dtype, model):
    """Scales included; and the capacity is told whatever the order of the axes."""
    settings = EngineSettings(cache_layout=layout, cache_dtype=dtype)
    layers = jax.eval_shape(lambda: allocate(model.config, 3, 16, jnp.dtype(jnp.float32), settings)).layers
    assert byte_size(layers) == cache_bytes(model.config, 3, 16, 4, dtype) == 2 * 2 * 3 * 2 * 16 * ROW[dtype]
    assert capacity_of(layers) == 16


@pytest.mark.parametrize(("layout", "dtype"), CACHES)
def test_facts_of_an_engine_have_its_caches_bytes(layout, dtype, model):
    """By formula as allocated, and in what a step reads."""
    engine = build_engine(model, EngineSettings(cache_layout=layout, cache_dtype=dtype), capacity=16)
    facts = engine.facts(1, 7, 5)
    assert facts.kv_cache_bytes == facts.kv_cache_allocated_bytes == 2 * 2 * 1 * 2 * 16 * ROW[dtype]
    assert facts.bytes_per_step == facts.weight_bytes + facts.kv_cache_bytes


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("layer", [0, 1])
def test_a_write_changes_its_positions_of_its_layer_alone(layout, layer, model):
    """Position 5 and 6 of one layer, and what is returned for the layer is what it then holds."""
    settings = EngineSettings(cache_layout=layout)
    layers = allocate(model.config, 1, 8, jnp.dtype(jnp.float32), settings).layers
    shape = (1, 2, 2, 16) if layout == "position-major" else (2, 2, 16)
    new = KeysValues(keys=jnp.full(shape, 1.0), values=jnp.full(shape, 2.0))
    written, known = write_layer(layers, layer, new, 5, write_in_place)
    for array, value in zip(known, (1.0, 2.0), strict=True):
        by_position = np.asarray(array) if layout == "position-major" else np.asarray(array).swapaxes(0, 1)[None]
        assert (by_position[:, 5:7] == value).all()
        assert np.count_nonzero(by_position) == 2 * 2 * 16
    assert sum(np.count_nonzero(leaf) for leaf in jax.tree.leaves(written)) == 2 * 2 * 2 * 16


def test_blocks_read_what_is_filled_and_seen():
    """Whole blocks up to the last filled one; with a window, from the first that it reaches into."""
    blocks, windowed = (parse_engine(f"cached+key_block=8{more}") for more in ("", "+window=5"))
    assert [keys_read(blocks, 64, filled) for filled in (1, 8, 9, 17)] == [8, 8, 16, 24]
    assert [keys_read(windowed, 64, filled) for filled in (1, 8, 9, 17, 29)] == [8, 8, 16, 16, 8]
    assert keys_read(EngineSettings(), 64, 9) == 64


def test_a_step_over_blocks_needs_fewer_bytes(engine, model):
    """The average of the steps at 8, 9, 10 and 11 keys: one block of 8 keys, then two."""
    by_blocks = build_engine(model, "cached+key_block=8", capacity=64)
    facts = by_blocks.facts(1, 7, 5)
    weights = engine("cached").facts(1, 7, 5).weight_bytes
    assert facts.bytes_per_step - weights == 2 * 2 * 2 * ROW["native"] * (8 + 16 + 16 + 16) // 4
    assert facts.kv_cache_bytes == 2 * 2 * 2 * ROW["native"] * 64


@pytest.mark.parametrize(("reuse", "kept"), [("true", 1), ("false", 0)])
def test_a_cache_is_kept_for_the_next_request_or_not(reuse, kept, model, prompt):
    """Without reuse each request allocates its own."""
    engine = build_engine(model, f"cached-host+reuse={reuse}", capacity=16)
    engine.generate(prompt(1, 7), 2)
    assert len(engine.spare) == kept


def test_one_cache_is_kept_whatever_batch_sizes_came_before(model, prompt):
    """Callers with batches of every size would else fill the device with caches that nobody uses."""
    engine = build_engine(model, "cached-host", capacity=16)
    for batch in (1, 2, 3, 2):
        engine.generate(prompt(batch, 7), 2)
    assert list(engine.spare) == [2]


def program(model, changes, batch=3, name="decode_step"):
    return build_engine(model, f"cached-host+{changes}", capacity=16).programs(batch, 7, 5)[name]


@pytest.mark.parametrize(
    ("changes", "copied"),
    [
        ("attention=grouped", False),
        ("attention=einsum", True),
        ("cache_dtype=int8", True),
        ("cache_dtype=int8+key_block=4", False),
    ],
)
def test_forms_that_make_the_compiler_copy_the_cache_are_seen(changes, copied, model):
    """On CPU: axes of batch and head apart, or a cast that is fused with the write; a loop over blocks undoes it."""
    given = program(model, changes)
    assert bool(copies(parse(given.compiled.as_text()), given.cache_shapes)) is copied


@pytest.fixture(scope="module")
def narrow():
    """The same model in bfloat16."""
    return load_model("tiny", "bf16")


@pytest.mark.parametrize("layout", ["position-major", "stacked"])
def test_on_cpu_a_bfloat16_cache_is_updated_in_place_as_its_bits(layout, narrow):
    """XLA has no such update there: it widens the whole cache, writes, and narrows it again, in every step."""
    given = program(narrow, f"cache_layout={layout}", batch=1)
    assert all(shape.startswith("u16[") for shape in given.cache_shapes)
    module = parse(given.compiled.as_text())
    assert copies(module, given.cache_shapes) == converted(module, given.cache_shapes) == ()


@pytest.mark.parametrize("changes", ["attention=grouped", "key_block=4", "attention=einsum"])
def test_bits_hold_the_numbers_that_were_written(changes, narrow, prompt, monkeypatch):
    """The same tokens as with the cache that another platform has."""
    tokens, name = prompt(2, 5), f"cached+{changes}"
    found = np.asarray(build_engine(narrow, name, capacity=16).generate(tokens, 6))
    with monkeypatch.context() as patch:
        patch.setattr(jax, "default_backend", lambda: "tpu")
        plain = build_engine(narrow, name, capacity=16)
    assert found.tolist() == np.asarray(plain.generate(tokens, 6)).tolist()


def test_bits_are_for_the_cpu_alone(narrow):
    """Other compilers update bfloat16 as it is."""
    for platform, dtype in (("cpu", jnp.uint16), ("tpu", jnp.bfloat16), ("gpu", jnp.bfloat16)):
        cache = allocate(narrow.config, 1, 8, jnp.dtype(jnp.bfloat16), platform=platform)
        assert {leaf.dtype for leaf in jax.tree.leaves(cache.layers)} == {jnp.dtype(dtype)}


@pytest.mark.parametrize("mask", ["additive", "where", "table", "computed"])
def test_no_mask_is_written_out_for_every_head(mask, model):
    """Outside fusions, which keep nothing, no array of truth values or of zeros and lows has one for each score."""
    module = parse(program(model, f"mask={mask}", name="prefill").compiled.as_text())
    fused = {operation.calls for operation in module.operations if operation.opcode == "fusion"}
    kept = [operation for operation in module.operations if operation.computation not in fused]
    scores = 3 * 4 * 7 * 7
    assert not [one.name for one in kept if one.shape.startswith("pred[") and size_of(one.shape) >= scores]
    assert not [one.name for one in kept if one.opcode in {"broadcast", "select"} and size_of(one.shape) >= scores]


def size_of(shape):
    return math.prod(int(size) for size in shape.partition("[")[2].rstrip("]").split(",") if size)


def test_repeated_heads_are_repeated_in_memory(model):
    """The mistake is really made: keys and values for each of the 4 query heads, where there are 2."""
    sizes = [size_of(one.shape) for one in parse(program(model, "attention=repeated").compiled.as_text()).operations
             if one.shape.startswith("f32[")]  # fmt: skip
    grouped = [size_of(one.shape) for one in parse(program(model, "attention=grouped").compiled.as_text()).operations
               if one.shape.startswith("f32[")]  # fmt: skip
    repeated = 3 * 4 * 16 * 16
    assert repeated in sizes
    assert repeated not in grouped
