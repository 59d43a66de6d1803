"""Configurations: what is read, and what is refused by the name of its field."""

import math

import pytest

from qwenperf.errors import ConfigError
from qwenperf.models.config import ModelConfig, unread_keys
from qwenperf.models.parameters import parameter_shapes
from qwenperf.models.rope_scaling import RopeScaling
from qwenperf.workloads.models import PRESETS

QWEN2 = PRESETS["tiny"]
LLAMA = {**QWEN2, "model_type": "llama"}
QWEN3, GPT2 = PRESETS["qwen3-0.6b"], PRESETS["gpt2"]
LLAMA3 = PRESETS["llama-3.2-1b"]["rope_scaling"]


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_readable(name):
    """Every preset is a configuration that the code does."""
    assert ModelConfig.from_hf(PRESETS[name]).head_dim > 0


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("gpt2", 124_439_808),
        ("qwen2.5-0.5b", 494_032_768),
        ("qwen2.5-1.5b", 1_543_714_304),
        ("qwen2.5-3b", 3_085_938_688),
        ("qwen2.5-7b", 7_615_616_512),
        ("qwen3-0.6b", 596_049_920),
        ("llama-3.2-1b", 1_235_814_400),
        ("smollm2-135m", 134_515_008),
    ],
)
def test_true_shapes_have_the_published_number_of_parameters(name, parameters):
    """Each true shape adds up to the number of parameters of the published model."""
    shapes = parameter_shapes(ModelConfig.from_hf(PRESETS[name]))
    assert sum(math.prod(shape) for shape in shapes.values()) == parameters


@pytest.mark.parametrize(
    ("base", "change", "named"),
    [
        (QWEN2, {"model_type": "gemma"}, "model_type 'gemma'"),
        (QWEN2, {"model_type": None}, "model_type None"),
        (QWEN2, {"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}, "rope_scaling of type 'dynamic'"),
        (QWEN2, {"rope_parameters": {"rope_type": "longrope"}}, "rope_parameters of type 'longrope'"),
        (QWEN2, {"rope_scaling": {"type": "linear", "rope_type": "yarn"}}, "type 'linear', 'yarn'"),
        (QWEN2, {"rope_scaling": {"type": "linear"}}, "rope_scaling of type 'linear' has no factor"),
        (QWEN2, {"rope_scaling": {"type": "linear", "factor": 0}}, "factor is 0"),
        (QWEN2, {"rope_scaling": {"type": "linear", "factor": 2.0, "beta_fast": 1}}, "rope_scaling has beta_fast"),
        (QWEN2, {"rope_scaling": {"type": "yarn", "factor": "4"}}, "factor"),
        (QWEN2, {"rope_scaling": {"type": "yarn", "factor": 4.0, "truncate": "no"}}, "truncate is 'no'"),
        (QWEN2, {"rope_scaling": {"type": "yarn", "factor": 4.0}, "rope_theta": 1.0}, "rope_theta 1.0"),
        (QWEN2, {"rope_scaling": LLAMA3 | {"high_freq_factor": 1.0}}, "high_freq_factor 1.0 is not above"),
        (QWEN2, {"rope_scaling": {"factor": 2.0}}, "rope_scaling"),
        (QWEN2, {"rope_scaling": [2.0]}, "not an object"),
        (
            QWEN2,
            {"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": LLAMA3},
            "rope_scaling and rope_parameters differ",
        ),
        (QWEN2, {"rope_parameters": {"rope_type": "llama3", "rope_theta": 1e6}}, "type 'llama3' has no factor"),
        (QWEN2, {"rope_parameters": {"rope_type": "default", "rope_theta": 5.0}}, "rope_theta"),
        (QWEN2, {"rope_parameters": {"rope_type": "default", "factor": 2.0}}, "rope_parameters has factor"),
        (QWEN2, {"original_max_position_embeddings": 4096}, "original_max_position_embeddings"),
        (QWEN3, {"attention_bias": True}, "attention_bias True"),
        (GPT2, {"activation_function": "relu"}, "activation_function 'relu'"),
        (GPT2, {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx"),
        (GPT2, {"n_head": 7}, "n_embd 768 is no multiple of n_head 7"),
        (GPT2, {"n_layer": None}, "n_layer is missing"),
        (GPT2, {"n_embd": "wide"}, "hidden_size is 'wide'"),
        (GPT2, {"n_embd": {}}, "hidden_size is {}"),
        (GPT2, {"n_inner": 0}, "intermediate_size is 0"),
        (GPT2, {"layer_norm_epsilon": 0.0}, "layer_norm_epsilon"),
        (QWEN2, {"use_sliding_window": True}, "use_sliding_window"),
        (QWEN2, {"layer_types": ["full_attention", "sliding_attention"]}, "layer_types"),
        (QWEN2, {"layer_types": 3}, "layer_types is 3, which is not a list of names"),
        (QWEN2, {"layer_types": "full_attention"}, "layer_types is 'full_attention'"),
        (QWEN2, {"layer_types": [["full_attention"]]}, "layer_types is"),
        (QWEN2, {"layer_types": [3, "x"]}, "layer_types is"),
        (QWEN2, {"rope_theta": [1e4]}, "rope_theta is [10000.0], which is not a number"),
        (QWEN2, {"rope_scaling": {"type": "linear", "factor": 2.0, "rope_theta": {}}}, "rope_scaling.rope_theta is {}"),
        (QWEN2, {"rope_scaling": {"type": "linear", "factor": 10**400}}, "rope_scaling.factor is a whole number too"),
        (QWEN2, {"rms_norm_eps": 10**400}, "rms_norm_eps is a whole number too large"),
        (GPT2, {"layer_norm_epsilon": 10**400}, "layer_norm_epsilon is a whole number too large"),
        (LLAMA, {"sliding_window": 4096}, "sliding_window"),
        (QWEN2, {"quantization_config": {"quant_method": "gptq"}}, "quantization_config"),
        (LLAMA, {"attention_bias": True}, "attention_bias True"),
        (QWEN2, {"attention_bias": False}, "attention_bias False"),
        (LLAMA, {"mlp_bias": True}, "mlp_bias"),
        (LLAMA, {"pretraining_tp": 2}, "pretraining_tp"),
        (QWEN2, {"hidden_act": "gelu"}, "hidden_act 'gelu'"),
        (QWEN2, {"torch_dtype": "float8_e4m3fn"}, "torch_dtype"),
        (QWEN2, {"num_key_value_heads": 3}, "num_key_value_heads 3"),
        (QWEN2, {"num_key_value_heads": None}, "num_key_value_heads is missing"),
        (QWEN2, {"hidden_size": 66}, "head_dim"),
        (QWEN2, {"head_dim": 15}, "head_dim is 15"),
        (QWEN2, {"vocab_size": None}, "vocab_size is missing"),
        (QWEN2, {"vocab_size": "many"}, "vocab_size is 'many'"),
        (QWEN2, {"num_hidden_layers": True}, "num_hidden_layers is True"),
        (QWEN2, {"rms_norm_eps": -1.0}, "rms_norm_eps"),
        (QWEN2, {"tie_word_embeddings": "yes"}, "tie_word_embeddings"),
        (QWEN2, {"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
    ],
)
def test_unsupported_fields_are_refused_by_name(base, change, named):
    """What a config asks for and the code does not do is an error that names the file and the field."""
    with pytest.raises(ConfigError) as caught:
        ModelConfig.from_hf({**base, **change}, source="here/config.json")
    assert named in str(caught.value)
    assert "here/config.json" in str(caught.value)


def test_transformers_5_keys_are_read():
    """rope_parameters and a given head_dim are honoured; a window that is not in use changes nothing."""
    data = {key: value for key, value in QWEN2.items() if key != "rope_theta"} | {
        "rope_parameters": {"rope_type": "default", "rope_theta": 7.0},
        "head_dim": 32,
        "sliding_window": 4096,
        "use_sliding_window": False,
    }
    config = ModelConfig.from_hf(data)
    assert (config.rope_theta, config.head_dim) == (7.0, 32)


def test_llama_defaults():
    """A Llama file without kv heads has as many as query heads, and no bias."""
    config = ModelConfig.from_hf({key: value for key, value in LLAMA.items() if key != "num_key_value_heads"})
    assert (config.num_key_value_heads, config.attention_bias) == (4, False)


def test_unread_keys_are_listed():
    """A key that nobody knows is not ignored in silence; each family has keys of its own."""
    assert unread_keys({**QWEN2, "use_cache": True, "logit_multiplier": 2.0}) == ("logit_multiplier",)
    assert unread_keys({**QWEN2, "n_inner": 4}) == ("n_inner",)
    assert unread_keys({**GPT2, "n_inner": 4, "resid_pdrop": 0.1, "rope_theta": 1e6}) == ("rope_theta",)


def test_gpt2_keys():
    """GPT-2's own keys become ours: as many keys as query heads, learned positions, four times the width inside."""
    config = ModelConfig.from_hf({key: value for key, value in GPT2.items() if key != "tie_word_embeddings"})
    assert (config.num_key_value_heads, config.head_dim, config.intermediate_size) == (12, 64, 3072)
    assert (config.rope_theta, config.max_position_embeddings, config.tie_word_embeddings) == (None, 1024, True)


def test_qwen3_heads_are_no_share_of_the_hidden_size():
    """Without head_dim a Qwen3 file means 128."""
    assert ModelConfig.from_hf({key: value for key, value in QWEN3.items() if key != "head_dim"}).head_dim == 128


@pytest.mark.parametrize("spelling", ["rope_scaling", "rope_parameters"])
def test_scaled_positions_are_read_in_both_spellings(spelling):
    """Transformers 4 and 5 name the same numbers; what a file leaves out gets transformers' defaults."""
    yarn = {"rope_type": "yarn", "factor": 4.0, "mscale": 1.0, "mscale_all_dim": 0.5}
    config = ModelConfig.from_hf({**QWEN2, spelling: yarn, "max_position_embeddings": 4096})
    expected = (0.1 * math.log(4) + 1) / (0.05 * math.log(4) + 1)
    assert config.rope_scaling == RopeScaling(
        rope_type="yarn", factor=4.0, original_max_position_embeddings=4096, attention_factor=expected
    )
    llama3 = ModelConfig.from_hf({**LLAMA, spelling: LLAMA3}).rope_scaling
    assert (llama3.factor, llama3.original_max_position_embeddings) == (32.0, 8192)
    both = ModelConfig.from_hf({**LLAMA, "rope_scaling": LLAMA3, "rope_parameters": LLAMA3})
    assert both.rope_scaling == llama3
