"""Which device has which part of a model."""

import jax
import pytest

from qwenperf.aot.case import compile_case
from qwenperf.aot.models import case_program
from qwenperf.aot.platforms import missing_compiler
from qwenperf.aot.sharding import layout_of
from qwenperf.aot.topology import devices, resolve
from qwenperf.models.config import ModelConfig
from qwenperf.workloads.engine import EngineSettings, parse_engine
from qwenperf.workloads.models import PRESETS


def specs(tree):
    """The axes that each leaf is divided over, by its path; what is whole at the end is left out."""
    found = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {jax.tree_util.keystr(path, simple=True, separator="."): plain(leaf.sharding.spec) for path, leaf in found}


def plain(spec):
    axes = [axis[0] if isinstance(axis, tuple) and len(axis) == 1 else axis for axis in spec]
    while axes and axes[-1] is None:
        axes.pop()
    return tuple(axes)


def arguments(tiny, engine="cached", *, target="v5e-4", **more):
    asked = case_program(tiny(engine, **more), "decode_step", resolve(target))
    return [specs(argument) for argument in asked.arguments], asked


def test_heads_feed_forward_and_vocabulary_are_divided(tiny):
    """Two of four devices share the two key/value heads; the rest is divided among all, norms are everywhere."""
    (weights, tokens, state, _), asked = arguments(tiny)
    layer = {name.removeprefix("layers.0."): spec for name, spec in weights.items() if name.startswith("layers.0.")}
    heads, wide = "tensor", ("data", "tensor")
    assert layer["self_attn.q_proj.weight"] == (heads,)
    assert layer["self_attn.k_proj.bias"] == (heads,)
    assert layer["self_attn.o_proj.weight"] == (None, heads)
    assert layer["mlp.gate_proj.weight"] == (wide,)
    assert layer["mlp.down_proj.weight"] == (None, wide)
    assert layer["input_layernorm.weight"] == ()
    assert weights["embed_tokens.weight"] == (wide,)
    assert set(tokens.values()) == {()}
    assert state["layers.0.keys"] == (None, None, heads)
    assert asked.layout.mesh == {"data": 2, "tensor": 2}
    assert [finding.code for finding in asked.findings] == ["cache-position-major", "attention-repeated"]


def test_a_batch_that_divides_is_divided(tiny):
    """Each pair of devices has half of the rows; nothing is computed twice."""
    (weights, tokens, state, _), asked = arguments(tiny, batch=2)
    assert weights["layers.0.mlp.gate_proj.weight"] == ("tensor",)
    assert tokens[""] == ("data",)
    assert state["layers.0.values"] == ("data", None, "tensor")
    assert [finding.code for finding in asked.findings] == ["cache-position-major"]


@pytest.mark.parametrize(
    ("engine", "name", "spec"),
    [
        ("cached+layers=scanned", "layers.self_attn.o_proj.weight", (None, None, "tensor")),
        ("cached+contraction=in-out", "layers.0.mlp.up_proj.weight_io", (None, ("data", "tensor"))),
        ("cached+contraction=in-out", "layers.0.mlp.down_proj.weight_io", (("data", "tensor"),)),
        ("cached+weights=int8", "layers.0.mlp.up_proj.weight_q", (("data", "tensor"),)),
        ("cached+weights=int8", "layers.0.mlp.up_proj.scale", (("data", "tensor"),)),
        ("cached+weights=int8-g32", "layers.0.self_attn.o_proj.weight_q", ("tensor",)),
        ("cached+weights=int8-g32", "layers.0.self_attn.o_proj.scale", ("tensor",)),
        ("cached+qkv=fused", "layers.0.self_attn.qkv_proj.weight", ("tensor",)),
    ],
)
def test_every_layout_of_weights_is_divided_by_the_same_axes(engine, name, spec, tiny):
    """Stacked, transposed, quantised, fused."""
    (weights, *_), _ = arguments(tiny, engine)
    assert weights[name] == spec


@pytest.mark.parametrize(
    ("engine", "name", "spec"),
    [
        ("cached+cache_layout=position-major", "layers.0.keys", ("data", None, "tensor")),
        ("cached+cache_layout=stacked", "layers.keys", (None, ("data", "tensor"))),
        ("cached+cache_layout=head-major", "layers.0.keys", (("data", "tensor"),)),
        ("cached+layers=scanned", "layers.keys", (None, "data", None, "tensor")),
        ("cached+cache_dtype=int8", "layers.1.values.scale", ("data", None, "tensor")),
        ("padded", "tokens", ("data",)),
    ],
)
def test_every_layout_of_the_state_is_divided_by_rows_and_heads(engine, name, spec, tiny):
    """Whatever the order of its axes."""
    (_, _, state, _), _ = arguments(tiny, engine, batch=2)
    assert state[name] == spec


def test_rows_and_heads_on_one_axis_are_warned_of(tiny):
    """A cache that several rows and several devices share cannot be divided by heads there."""
    _, asked = arguments(tiny, "cached+cache_layout=head-major", target="v7x-1", batch=3)
    assert [finding.code for finding in asked.findings] == ["cache-rows-and-heads"]
    _, asked = arguments(tiny, "cached+cache_layout=position-major", target="v7x-1", batch=3)
    assert asked.findings == ()


def test_on_several_devices_a_cache_that_nobody_chose_has_positions_before_heads(tiny):
    """One device, an engine without a cache, and who names a layout keep theirs."""
    (_, _, state, _), asked = arguments(tiny, target="v7x-1")
    assert [finding.code for finding in asked.findings] == ["cache-position-major"]
    assert state["layers.0.keys"] == (None, None, "tensor")
    (_, _, state, _), asked = arguments(tiny, "cached+cache_layout=head-major", target="v7x-1")
    assert (state["layers.0.keys"], asked.findings) == (("tensor",), ())
    assert arguments(tiny, "padded", target="v7x-1")[1].findings == ()
    assert arguments_of_one(tiny)[1].findings == ()


@pytest.mark.slow
@pytest.mark.skipif(bool(missing_compiler("tpu")), reason=missing_compiler("tpu") or "there is a compiler")
@pytest.mark.parametrize("target", ["v5e-4", "v7x-1"])
def test_a_prefill_on_several_devices_exchanges_what_its_products_need_and_no_more(tiny, target):
    """Two sums a layer, the embedding and the choice of the token; a cache by rows and heads needs more."""
    engines = ("cached", "cached+cache_layout=head-major")
    default, together = (compile_case(tiny(engine), "prefill", resolve(target)) for engine in engines)
    counts = [sum(one.runs for one in case.program.collectives) for case in (default, together)]
    assert {one.kind for one in default.program.collectives} <= {"all-reduce", "all-gather"}
    assert counts[0] < counts[1]


def test_a_fused_matrix_of_a_checkpoint_is_taken_apart_unless_asked_for(tiny):
    """GPT-2 stores q, k and v as one; divided over devices they would be exchanged."""
    _, apart = arguments(tiny, model="gpt2", target="v5e-4")
    assert "q_proj" in apart.arguments[0]["layers"][0]["self_attn"]
    assert "qkv-separate" in {finding.code for finding in apart.findings}
    _, fused = arguments(tiny, "cached+qkv=fused", model="gpt2", target="v5e-4")
    assert "qkv_proj" in fused.arguments[0]["layers"][0]["self_attn"]
    _, one = arguments_of_one(tiny)
    assert "qkv_proj" in one.arguments[0]["layers"][0]["self_attn"]


def arguments_of_one(tiny):
    asked = case_program(tiny(model="gpt2"), "decode_step", resolve("v5e-1"))
    return asked.arguments, asked


def test_more_devices_than_heads_divide_what_they_can():
    """Two key/value heads on eight devices: four times the same heads, which is told."""
    config = ModelConfig.from_hf(PRESETS["qwen2.5-0.5b"])
    layout = layout_of(config, EngineSettings(), devices(resolve("v7x-4")), batch=1)
    assert layout.mesh == {"data": 4, "tensor": 2}
    (finding,) = layout.findings
    assert "4 devices compute the same heads" in finding.message
    assert layout_of(config, parse_engine("cached"), devices(resolve("v7x-4")), batch=4).rows == ("data",)
