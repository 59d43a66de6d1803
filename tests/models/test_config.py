"""Configurations: what is read, and what is refused by the name of its field."""

import pytest

from qwenperf.errors import ConfigError
from qwenperf.models.config import ModelConfig, unread_keys
from qwenperf.workloads.models import PRESETS

QWEN2 = PRESETS["tiny"]
LLAMA = {**QWEN2, "model_type": "llama"}


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_readable(name):
    """Every preset is a configuration that the code does."""
    assert ModelConfig.from_hf(PRESETS[name]).head_dim > 0


def test_true_shapes_have_the_published_number_of_parameters():
    """The shapes of Qwen2.5 add up to the sizes on their model cards."""
    from qwenperf.models.parameters import parameter_shapes

    def billions(name):
        shapes = parameter_shapes(ModelConfig.from_hf(PRESETS[name])).values()
        return sum(shape[0] * (shape[1] if len(shape) > 1 else 1) for shape in shapes) / 1e9

    sizes = {name: round(billions(f"qwen2.5-{name}"), 2) for name in ("0.5b", "1.5b", "3b", "7b")}
    assert sizes == {"0.5b": 0.49, "1.5b": 1.54, "3b": 3.09, "7b": 7.62}


@pytest.mark.parametrize(
    ("base", "change", "named"),
    [
        (QWEN2, {"model_type": "gemma"}, "model_type 'gemma'"),
        (QWEN2, {"model_type": None}, "model_type None"),
        (QWEN2, {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "rope_scaling of type 'yarn'"),
        (QWEN2, {"rope_scaling": {"type": "linear", "factor": 1.0}}, "rope_scaling of type 'linear'"),
        (QWEN2, {"rope_scaling": {"factor": 2.0}}, "rope_scaling"),
        (QWEN2, {"rope_parameters": {"rope_type": "llama3", "rope_theta": 1e6}}, "rope_parameters of type 'llama3'"),
        (QWEN2, {"rope_parameters": {"rope_type": "default", "rope_theta": 5.0}}, "rope_theta"),
        (QWEN2, {"rope_parameters": {"rope_type": "default", "factor": 2.0}}, "rope_parameters has factor"),
        (QWEN2, {"use_sliding_window": True}, "use_sliding_window"),
        (QWEN2, {"layer_types": ["full_attention", "sliding_attention"]}, "layer_types"),
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
    """A key that nobody knows is not ignored in silence."""
    assert unread_keys({**QWEN2, "use_cache": True, "logit_multiplier": 2.0}) == ("logit_multiplier",)
