"""A case's programs as shapes: what is compiled for a target is what the engine runs."""

import jax
import pytest

from qwenperf.aot.models import abstract_model, case_program
from qwenperf.aot.topology import resolve
from qwenperf.decode.build import build_engine
from qwenperf.errors import ConfigError, EnvironmentUnfitError, UsageError
from qwenperf.models.registry import load_model

AHEAD = ("cached", "cached+layers=scanned+gate_up=fused", "cached+weights=int8+activations=int8+rows=2", "padded",
         "cached+prefill_chunk=64+cache_layout=position-major")  # fmt: skip
MORE = ("cached+qkv=fused", "cached+contraction=in-out", "cached+weights=int4-g32", "cached+cache_layout=stacked",
        "cached+cache_dtype=int8", "cached+mask=table+window=64", "cached+rotary=recomputed+donate=false",
        "cached+fusion=barriers", "cached+hooks=capture", "cached+bucket=32")  # fmt: skip
ENGINES = (*AHEAD, *(pytest.param(engine, marks=pytest.mark.slow) for engine in MORE))


@pytest.mark.parametrize("engine", ENGINES)
def test_the_lowered_program_is_the_engine_s_own(engine, tiny, cpu):
    """Whatever its settings, an engine of shapes has the same text as one with weights, and allocates none."""
    case = tiny(engine)
    real = build_engine(load_model("tiny", "bf16"), engine, capacity=16)
    planned = {one.name: one for one in reversed(real.plan(1, 8, 8))}
    for name in ("prefill", "decode_step"):
        asked = case_program(case, name, cpu)
        assert {type(leaf) for leaf in jax.tree.leaves(asked.arguments)} == {jax.ShapeDtypeStruct}
        own = planned[name].call.jitted.lower(*asked.arguments)
        assert asked.jitted.lower(*asked.arguments).as_text() == own.as_text()
        assert [leaf.shape for leaf in jax.tree.leaves(asked.arguments)] == [
            leaf.shape for leaf in jax.tree.leaves(planned[name].arguments)
        ]


@pytest.mark.parametrize("engine", ["naive", "cached-concat"])
def test_a_rung_that_compiles_when_it_is_called_has_its_first_programs(engine, tiny, cpu):
    """A growing cache has as many positions as the prompt, and one more after a step."""
    for name, length in (("prefill", 8), ("decode_step", 9)):
        asked = case_program(tiny(engine), name, cpu)
        result = jax.eval_shape(asked.jitted, *asked.arguments)
        assert result.logits.shape == (1, 256)
        assert any(length in leaf.shape for leaf in jax.tree.leaves(result.state))


def test_settings_that_the_model_cannot_have_are_refused(tiny, cpu):
    """As when the engine is built with weights."""
    with pytest.raises(ConfigError, match="has no gate"):
        case_program(tiny("cached+gate_up=fused", model="gpt2"), "decode_step", cpu)


@pytest.mark.parametrize("name", ["no-such-model", "./no-such-folder", "no-such.gguf"])
def test_a_model_that_is_not_there_is_one_clear_error(name):
    """A preset, a folder, a file."""
    with pytest.raises(UsageError, match="no-such"):
        abstract_model(name, "f32")


def test_a_folder_needs_its_configuration_alone(repository):
    """Weights are never read: a folder with nothing but config.json will do."""
    model = abstract_model(str(repository / "tests" / "golden" / "qwen2-tied"), "bf16")
    assert model.config.model_type == "qwen2"
    assert all(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree.leaves(model.params))


def test_sizes_are_those_of_one_device(tiny):
    """Half of the heads, and half of the feed-forward and the vocabulary."""
    one, two = (case_program(tiny(), "decode_step", resolve(name)) for name in ("v5e-1", "v7x-1"))
    assert two.cache_bytes - 4 == (one.cache_bytes - 4) // 2  # the length is on both
    assert one.weight_bytes // 2 < two.weight_bytes < one.weight_bytes * 0.51


def test_an_unknown_layout_says_so(tiny):
    """The compiler's refusal reaches whoever asked."""
    with pytest.raises(EnvironmentUnfitError, match="no layout"):
        case_program(tiny(), "decode_step", resolve("v5e:3x5"))
