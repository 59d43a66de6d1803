"""Layouts of weights and ways to write products: other programs, the same tokens."""

import re
from functools import cache

import jax
import numpy as np
import pytest

from qwenperf.decode.build import build_engine
from qwenperf.errors import ConfigError
from qwenperf.models.config import ModelConfig
from qwenperf.models.registry import Model
from qwenperf.models.seeded import seeded_params
from qwenperf.program.fingerprint import fingerprint
from qwenperf.workloads.approximate import logit_bound
from qwenperf.workloads.engine import parse_engine
from qwenperf.workloads.models import PRESETS

_SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 64, "vocab_size": 64}
SHAPES = {
    "gpt2": PRESETS["gpt2"] | {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 64, "n_positions": 12},
    "llama": PRESETS["tiny"] | _SMALL | {"model_type": "llama", "tie_word_embeddings": False},
    "qwen2": PRESETS["tiny"] | _SMALL,
    "qwen3": PRESETS["tiny"] | _SMALL | {"model_type": "qwen3", "head_dim": 16},
}
ALONE = (
    "qkv=separate", "qkv=fused", "gate_up=fused", "layers=scanned", "contraction=einsum", "contraction=in-out",
    "contraction=batched", "rows=2", "fusion=barriers", "precision=highest",
)  # fmt: skip
TOGETHER = "qkv=fused+gate_up=fused+layers=scanned+contraction=in-out+rows=2+fusion=barriers+precision=high"
WITH_OTHERS = "qkv=fused+gate_up=fused+layers=scanned+rows=3+fusion=barriers+cache_dtype=int8+weights=int8"
CAPACITY = 12


@cache
def build(family):
    """Return a model of the family."""
    config = ModelConfig.from_hf(SHAPES[family])
    return Model(name=family, config=config, params=seeded_params(config, seed=2), dtype="f32")


@cache
def answers(family, name):
    """Return the logits after a prompt and 5 new tokens, of 2 rows."""
    engine = build_engine(build(family), name, capacity=CAPACITY)
    prompt = np.random.default_rng(3).integers(0, 64, (2, 7))
    return np.asarray(engine.prefill(prompt)[0]), np.asarray(engine.generate(prompt, 5))


def having(family, changes):
    """Leave out what the family has no matrices for."""
    return changes.replace("gate_up=fused+", "") if family == "gpt2" else changes


@pytest.fixture(scope="module")
def program(program_of):
    """Return the compiled decode step of some forms; the same one each time."""

    @cache
    def compiled(name, batch=1):
        engine = build_engine(build("qwen2"), f"cached-host+{name}", capacity=CAPACITY)
        return program_of(engine, "decode_step", batch, 7, 5)

    return compiled


# LLaMA is Qwen2 without a bias, Qwen3 the same with two norms: they differ from it in nothing that is laid out anew.
# GPT-2 has other matrices, and the same products with them.
QUICK = [("qwen2", changes) for changes in (*ALONE, TOGETHER)]
QUICK += [("gpt2", changes) for changes in ("qkv=separate", "qkv=fused", "layers=scanned", TOGETHER)]
ASKED = [(family, changes) for family in SHAPES for changes in (*ALONE, TOGETHER)]


@pytest.mark.parametrize(
    ("family", "changes"), [one if one in QUICK else pytest.param(*one, marks=pytest.mark.slow) for one in ASKED]
)
def test_tokens_are_those_of_the_plain_engine(family, changes):
    """Alone and all together; logits differ by no more than the order of sums makes them."""
    if family == "gpt2" and changes == "gate_up=fused":
        pytest.skip("no gate: refused, see below")
    plain_logits, plain = answers(family, "cached")
    logits, tokens = answers(family, f"cached+{having(family, changes)}")
    np.testing.assert_array_equal(tokens, plain)
    assert np.abs(logits - plain_logits).max() <= 1e-5 * np.abs(plain_logits).max()
    # A model whose greedy tokens were all the same would hide faults.
    assert len(np.unique(plain)) > 3


@pytest.mark.parametrize("family", ["gpt2", "qwen3"])
def test_together_with_quantised_weights_and_cache_the_error_stays_within_the_sum_of_bounds(family):
    """Of the logits after the prompt, against the plain engine's; more than nothing, or nothing was quantised."""
    plain, _ = answers(family, "cached")
    name = f"cached+{having(family, WITH_OTHERS)}"
    error = np.abs(answers(family, name)[0] - plain).max(-1) / np.abs(plain).max(-1)
    assert 1e-4 < error.max() <= logit_bound(parse_engine(name))


@pytest.mark.parametrize("rung", ["naive", "padded"])
def test_rungs_without_a_cache_scan_their_layers_too(rung):
    """Nothing is kept, so nothing is carried but the hidden state."""
    tokens = np.random.default_rng(3).integers(0, 64, (2, 7))
    new = build_engine(build("qwen2"), f"{rung}+{TOGETHER}", capacity=CAPACITY).generate(tokens, 2)
    np.testing.assert_array_equal(new, answers("qwen2", "cached")[1][:, :2])


def test_a_model_without_a_gate_cannot_have_it_fused():
    """Refused when the engine is built, not ignored."""
    with pytest.raises(ConfigError, match="gate_up='fused': a gpt2 model has no gate"):
        build_engine(build("gpt2"), "cached+gate_up=fused")


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("layout", ["head-major", "position-major"])
def test_a_scanned_step_updates_the_stacked_cache_where_it_lies(program, layout, batch):
    """All of it is aliased, and neither copied nor transposed; a scan over the cache itself would do both."""
    found = program(f"layers=scanned+cache_layout={layout}", batch=batch)
    (stack,) = found.cache_shapes
    assert stack.startswith("f32[2,")
    assert found.compiled.memory_analysis().alias_size_in_bytes == found.donated_bytes
    text = found.compiled.as_text()
    assert " while(" in text
    assert re.findall(rf"= {re.escape(stack)}\S* (?:copy|transpose)\(.*", text) == []


@pytest.mark.parametrize(
    ("name", "other", "same"),
    [
        ("contraction=einsum", "contraction=dot_general", True),
        ("contraction=batched", "contraction=dot_general", True),
        ("qkv=separate", "qkv=stored", True),
        ("layers=scanned", "layers=scanned+cache_layout=stacked", True),
        ("contraction=in-out", "contraction=dot_general", False),
        ("qkv=fused", "qkv=stored", False),
        ("fusion=barriers", "fusion=xla", False),
    ],
)
def test_forms_that_compile_to_one_program_have_one_fingerprint(program, name, other, same):
    """At batch 1 on CPU; what differs to the reader only is found to be one and the same."""
    prints = [fingerprint(program(changes).compiled.as_text()) for changes in (name, other)]
    assert (prints[0] == prints[1]) is same


def test_barriers_reach_the_compiled_program(program):
    """Embedding, two residual additions a layer with what is added, scores, masked scores and softmax."""
    text = program("fusion=barriers").compiled.as_text()
    assert text.count(" opt-barrier(") == 1 + 2 * (4 + 3)


def test_facts_are_those_of_the_model_however_its_weights_lie():
    """Bytes and work of fused, transposed and stacked weights; padded rows add to a request's work, not to a need."""
    plain, other = (
        build_engine(build("llama"), name, capacity=CAPACITY).facts(1, 7, 5)
        for name in ("cached", f"cached+{TOGETHER}")
    )
    for name in ("weight_bytes", "bytes_per_step", "flops_per_step", "kv_cache_bytes", "kv_cache_allocated_bytes"):
        assert getattr(other, name) == getattr(plain, name), name
    matrices = 2 * (2 * 32 * 32 + 2 * 16 * 32 + 3 * 32 * 64)
    # Four steps and the head of the prefill have one row each, and are given another.
    assert other.flops_per_request - plain.flops_per_request == 2 * (4 * matrices + 5 * 64 * 32)


def test_the_truth_is_computed_from_the_models_own_weights():
    """The tree that was given is as it was, and is what uncached logits read."""
    model = build("qwen2")
    before = jax.tree.leaves_with_path(model.params)
    engine = build_engine(model, f"cached+{TOGETHER}", capacity=CAPACITY)
    assert jax.tree.structure(engine.params) != jax.tree.structure(model.params)
    after = jax.tree.leaves_with_path(model.params)
    assert all(old[0] == new[0] and old[1] is new[1] for old, new in zip(before, after, strict=True))
    assert engine.uncached_logits(np.zeros((1, 3), np.int32)).shape == (1, 3, 64)
