"""Token ids against a plain byte-pair encoder's, and the other ways to a tokenizer."""

import pytest

from qwenperf.errors import CheckpointError
from qwenperf.models.tokenizer import folder_tokenizer, metadata_tokenizer, unknown_kind

SPECIAL = "<|"


def test_golden_ids(golden, smollm2):
    """Unicode, digits, code, blanks and special tokens are cut as in the golden file, and decoded back."""
    for entry in golden.facts["tokens"]:
        assert smollm2.tokenizer.encode(entry["text"]) == entry["ids"], entry["text"]
        if SPECIAL not in entry["text"]:
            assert smollm2.tokenizer.decode(entry["ids"]) == entry["text"]
    assert smollm2.tokenizer.vocab_size == smollm2.config.vocab_size


def test_folder(smollm2, tmp_path):
    """A tokenizer.json gives the same ids; none gives None; a damaged one is named."""
    assert folder_tokenizer(tmp_path) is None
    smollm2.tokenizer.backend.save(str(tmp_path / "tokenizer.json"))
    text = "It's 2024: <|im_end|> 日本"
    assert folder_tokenizer(tmp_path).encode(text) == smollm2.tokenizer.encode(text)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
        folder_tokenizer(tmp_path)


METADATA = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": ["<s>", "a", "b", "ab", "1", "\u0120"],
    "tokenizer.ggml.merges": ["a b"],
    "tokenizer.ggml.token_type": [3, 1, 1, 1, 1, 1],
    "tokenizer.ggml.bos_token_id": 0,
}


@pytest.mark.parametrize(
    ("pre", "ids"), [("smollm", [3, 4, 4, 0, 5]), ("gpt-2", [3, 4, 4, 0, 5]), ("qwen2", [3, 4, 4, 0, 5])]
)
def test_metadata(pre, ids):
    """Tokens, merges and special tokens come from the metadata; a leading token where the file asks for one."""
    data = METADATA | {"tokenizer.ggml.pre": pre}
    assert metadata_tokenizer(data.get, "x").encode("ab11<s> ") == ids
    assert metadata_tokenizer((data | {"tokenizer.ggml.add_bos_token": True}).get, "x").encode("ab") == [0, 3]


def test_metadata_that_do_not_fit():
    """Merges of unknown tokens and missing lists are errors; an unknown kind is None and says why."""
    for change in ({"tokenizer.ggml.merges": ["a c"]}, {"tokenizer.ggml.tokens": None}):
        with pytest.raises(CheckpointError, match=r"tokenizer\.ggml"):
            metadata_tokenizer((METADATA | change).get, "x")
    other = METADATA | {"tokenizer.ggml.pre": "falcon"}
    assert metadata_tokenizer(other.get, "x") is None
    assert "falcon" in unknown_kind(other.get)
