"""Folders of safetensors: every way in which one can be wrong is named."""

import json
import shutil

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from qwenperf.errors import CheckpointError, ConfigError, EnvironmentUnfitError, UnknownNameError
from qwenperf.models.parameters import flatten
from qwenperf.models.registry import load_model

SHARDED = "qwen2-untied-sharded"


@pytest.fixture
def single(golden, tmp_path):
    return shutil.copytree(golden.folder / "qwen2-tied", tmp_path / "model")


@pytest.fixture
def sharded(golden, tmp_path):
    return shutil.copytree(golden.folder / SHARDED, tmp_path / "model")


def rewrite(folder, change):
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def refused(folder, *named, error=CheckpointError):
    with pytest.raises(error) as caught:
        load_model(str(folder))
    for text in named:
        assert text in str(caught.value)


@pytest.mark.parametrize(("name", "stored"), [("qwen2-tied", "F32"), (SHARDED, "F16"), ("llama-untied", "BF16")])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_values_arrive_unchanged(golden, name, stored, dtype):
    """Every stored dtype, one file or sharded, gives exactly the stored values, rounded once to the asked dtype."""
    model = load_model(str(golden.folder / name), dtype)
    shards = [load_file(file) for file in (golden.folder / name).glob("*.safetensors")]
    expected = {key.removeprefix("model."): value for shard in shards for key, value in shard.items()}
    found = flatten(model.params)
    assert found.keys() == expected.keys()
    for key, value in found.items():
        np.testing.assert_array_equal(np.asarray(value), expected[key].astype(value.dtype), err_msg=f"{key} {stored}")
    assert model.source == f"path:{golden.folder / name}"
    assert [finding.code for finding in model.findings] == ["tokenizer-missing"]


def test_missing_tensor(single):
    """A missing tensor is named."""
    rewrite(single, lambda tensors: tensors.pop("model.layers.1.mlp.up_proj.weight"))
    refused(single, "layers.1.mlp.up_proj.weight", "missing")


def test_more_layers_than_tensors(single):
    """A number that lies is told before names are made of it."""
    data = json.loads((single / "config.json").read_text())
    (single / "config.json").write_text(json.dumps({**data, "num_hidden_layers": 10**9}))
    refused(single, "1000000000 layers", "tensors")


def test_extra_tensor(single):
    """A tensor that the config has no place for is named with its file."""
    rewrite(single, lambda tensors: tensors.update({"model.layers.2.extra": np.ones(3, np.float32)}))
    refused(single, "model.safetensors", "model.layers.2.extra")


def test_wrong_shape(single):
    """A wrong shape is named with both shapes."""
    rewrite(single, lambda tensors: tensors.update({"model.norm.weight": np.ones(47, np.float32)}))
    refused(single, "model.norm.weight", "[47]", "[48]")


def test_stored_dtype(single):
    """A quantised tensor is refused, not converted."""
    rewrite(single, lambda tensors: tensors.update({"model.norm.weight": np.ones(48, np.int8)}))
    refused(single, "model.norm.weight", "I8")


def test_tied_head(single):
    """A stored head of a tied model must be the embedding."""
    rewrite(single, lambda tensors: tensors.update({"lm_head.weight": tensors["model.embed_tokens.weight"].copy()}))
    assert "lm_head" not in load_model(str(single)).params
    rewrite(single, lambda tensors: tensors.update({"lm_head.weight": tensors["lm_head.weight"] + 1}))
    refused(single, "lm_head.weight", "tie_word_embeddings")


@pytest.mark.parametrize("kept", [0, 4, 40, 5000, -1])
def test_cut_short(single, kept):
    """A file that is cut anywhere is refused by name."""
    path = single / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    refused(single, "model.safetensors", "cut short")


def lie(folder, change):
    """Rewrite the file's header, and leave its data as they are."""
    path = folder / "model.safetensors"
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size :])


@pytest.mark.parametrize("what", ["shape", "end", "start", "length"])
def test_sizes_that_do_not_fit_each_other_are_refused(single, what):
    """A shape of more values than its bytes, bytes behind the file's end, a header longer than the file."""
    if what == "length":
        path = single / "model.safetensors"
        path.write_bytes((1 << 60).to_bytes(8, "little") + path.read_bytes()[8:])
    else:

        def change(header):
            entry = header["model.norm.weight"]
            if what == "shape":
                entry["shape"] = [1 << 40]
            else:
                entry["data_offsets"][what == "end"] += 1 << 50

        lie(single, change)
    refused(single, "model.safetensors", "cut short or damaged")


def test_missing_shard(sharded):
    """A missing shard is named."""
    (sharded / "model-00002-of-00004.safetensors").unlink()
    refused(sharded, "model-00002-of-00004.safetensors", "missing")


def test_index_disagrees(sharded):
    """A tensor that is in another shard than the index says, or in none, is named."""
    path = sharded / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    index["weight_map"]["model.norm.weight"] = "model-00001-of-00004.safetensors"
    path.write_text(json.dumps(index))
    refused(sharded, "model.norm.weight")
    index["weight_map"]["model.norm.weight"] = "../model-00001-of-00004.safetensors"
    path.write_text(json.dumps(index))
    refused(sharded, "../model-00001-of-00004.safetensors")


def test_no_weights_and_no_config(single):
    """A folder without weights says which other files it has; one without a config names it; damage is named."""
    (single / "model.safetensors").rename(single / "pytorch_model.bin")
    refused(single, "pytorch_model.bin", "safetensors")
    for text in ("{", "[" * 100_000, "1" * 5000):
        (single / "config.json").write_text(text)
        refused(single, "config.json", "cannot be read as JSON")
    (single / "config.json").unlink()
    refused(single, "config.json", "missing")


def test_unsupported_config(single):
    """What the config asks for and the code does not do is refused before any tensor is read."""
    data = json.loads((single / "config.json").read_text())
    (single / "config.json").write_text(json.dumps({**data, "use_sliding_window": True}))
    (single / "model.safetensors").unlink()
    refused(single, "use_sliding_window", error=ConfigError)


def test_unread_key_is_a_finding(single):
    """A key that nobody knows is reported with the model."""
    data = json.loads((single / "config.json").read_text())
    (single / "config.json").write_text(json.dumps({**data, "logit_multiplier": 2}))
    assert "config-keys-unread" in [finding.code for finding in load_model(str(single)).findings]


def test_gpt2_matrices_are_turned_and_masks_left_out(golden, tmp_path):
    """Stored [in, out] becomes [out, in]; older files have no prefix and store the causal mask, of any dtype."""
    folder = shutil.copytree(golden.folder / "gpt2-tied", tmp_path / "model")
    stored = load_file(folder / "model.safetensors")
    model = load_model(str(folder))
    turned = stored["transformer.h.1.mlp.c_fc.weight"].T
    np.testing.assert_array_equal(model.params["layers"][1]["mlp"]["up_proj"]["weight"], turned)
    old = {name.removeprefix("transformer."): value for name, value in stored.items()}
    old["h.0.attn.bias"] = np.tril(np.ones((1, 1, 64, 64), np.uint8))
    old["h.1.attn.bias"] = np.tril(np.ones((1, 1, 64, 64), np.bool_))
    old["h.0.attn.masked_bias"] = np.asarray(-1e4, np.float32)
    save_file(old, folder / "model.safetensors")
    jax.tree.map(np.testing.assert_array_equal, load_model(str(folder)).params, model.params)


def test_one_parameter_twice(single):
    """With and without the prefix: nobody can say which is meant."""
    rewrite(single, lambda tensors: tensors.update({"norm.weight": np.ones(48, np.float32)}))
    refused(single, "'model.norm.weight'", "'norm.weight'", "the same")


def test_names_that_are_nothing(tmp_path, monkeypatch):
    """An unknown preset offers the nearest; a path that is not there and a hub out of reach say so."""
    with pytest.raises(UnknownNameError, match=r"qwen2\.5-0\.5b"):
        load_model("qwen2.5-05b")
    with pytest.raises(UnknownNameError, match="bf16"):
        load_model("tiny", "bf61")
    refused(tmp_path / "nowhere", "no such folder")
    refused("~nobody-has-this-name/model", "~nobody-has-this-name/model")
    refused(tmp_path / ("long" * 100), "long")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(EnvironmentUnfitError, match="nobody/nothing"):
        load_model("nobody/nothing")


def test_seeded_weights_repeat():
    """One seed gives the same weights again, another seed others, and bf16 the rounded f32 ones."""
    first, again, other = (load_model("tiny", seed=seed).params for seed in (0, 0, 1))
    rounded = load_model("tiny", "bf16").params
    jax.tree.map(np.testing.assert_array_equal, first, again)
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a.astype(b.dtype), b), first, rounded)
    assert not np.array_equal(first["embed_tokens"]["weight"], other["embed_tokens"]["weight"])
    assert np.asarray(first["embed_tokens"]["weight"]).ravel()[:2].tolist() == pytest.approx(
        [-0.030202427878975868, -0.012097521685063839], abs=1e-9
    )
