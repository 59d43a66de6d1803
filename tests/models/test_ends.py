"""Where texts end, by a checkpoint's own word."""

import json
import shutil

import gguf
import pytest

from qwenperf.decode.generator import build_generator
from qwenperf.decode.requests import check
from qwenperf.errors import CheckpointError
from qwenperf.models.ends import metadata_ends
from qwenperf.models.registry import load_model


@pytest.fixture(scope="module")
def copied(golden, tmp_path_factory):
    return shutil.copytree(golden.folder / "llama-untied", tmp_path_factory.mktemp("ends") / "model")


@pytest.fixture
def load(copied):
    """Return the model of a folder whose files say this of the end."""

    def make(config, generation=None):
        path = copied / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"eos_token_id": config}))
        beside = copied / "generation_config.json"
        beside.unlink(missing_ok=True)
        if generation is not None:
            beside.write_text(generation if isinstance(generation, str) else json.dumps(generation))
        return load_model(str(copied))

    return make


@pytest.mark.parametrize(
    ("config", "generation", "tokens"),
    [
        (2, None, (2,)),
        ([9, 2], None, (2, 9)),
        (None, None, ()),
        (2, {"eos_token_id": [5, 3]}, (3, 5)),
        (2, {"eos_token_id": None}, (2,)),
        (2, {"temperature": 0.6}, (2,)),
    ],
)
def test_a_folder_says_where_texts_end(config, generation, tokens, load):
    """As a number or a list; what is for generation comes before what is of the model."""
    model = load(config, generation)
    assert model.end_tokens == tokens
    assert "end-tokens-unusable" not in [finding.code for finding in model.findings]


@pytest.mark.parametrize("given", [-1, 10**6, "2", True, [2, None], {"a": 1}])
def test_what_is_no_token_is_a_finding(given, load):
    """Logits do not depend on it, so that the model is loaded; the message repeats what was seen."""
    model = load(given)
    assert model.end_tokens == ()
    (finding,) = [finding for finding in model.findings if finding.code == "end-tokens-unusable"]
    assert f"eos_token_id is {given!r}" in finding.message


def test_a_generation_config_that_is_none_is_named(load):
    """It might say anything."""
    with pytest.raises(CheckpointError, match=r"generation_config.json: cannot be read as JSON"):
        load(2, "{")


def test_a_gguf_file_says_where_texts_and_turns_end():
    """One token for each, of which either may be missing."""
    eos, eot = gguf.Keys.Tokenizer.EOS_ID, gguf.Keys.Tokenizer.EOT_ID
    for told, tokens in (({eos: 2}, (2,)), ({eos: 7, eot: 3}, (3, 7)), ({}, ()), ({eos: 2, eot: 2}, (2,))):
        assert metadata_ends(told.get, "x.gguf", 8).tokens == tokens
    found = metadata_ends({eos: 8, eot: 3}.get, "x.gguf", 8)
    assert found.tokens == (3,)
    assert "x.gguf: tokenizer.ggml.eos_token_id is 8" in found.findings[0].message


def test_a_generator_stops_there_unless_it_is_told_otherwise(load):
    """What a request says wins, even where it says that nothing ends a row."""
    limits = build_generator(load([9, 2]), "cached-host", capacity=8).limits
    told = {name: check([[1], [3]], 4, limits, **given) for name, given in
            {"nothing": {}, "no stop": {"stop": ()}, "another": {"stop": [4]}}.items()}  # fmt: skip
    ends = {name: [row.nonzero()[0].tolist() for row in request.data.stops] for name, request in told.items()}
    assert ends == {"nothing": [[2, 9]] * 2, "no stop": [[]] * 2, "another": [[4]] * 2}
    assert [request.may_end for request in told.values()] == [True, False, True]
