"""Token ids against a plain byte-pair encoder's, and the other ways to a tokenizer."""

import pytest
import tokenizers

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


def test_a_folders_tokenizer_neither_cuts_nor_fills(tmp_path):
    """Files are saved with truncation or padding on, which whoever trained with them needed."""
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "[PAD]": 1}, unk_token="a"))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    backend.enable_truncation(2)
    backend.enable_padding(length=5, pad_id=1)
    backend.save(str(tmp_path / "tokenizer.json"))
    assert tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json")).encode("a a a").ids == [0, 0, 1, 1, 1]
    assert folder_tokenizer(tmp_path).encode("a a a") == [0, 0, 0]


METADATA = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": ["<s>", "a", "b", "ab", "1", "\u0120"],
    "tokenizer.ggml.merges": ["a b"],
    "tokenizer.ggml.token_type": [3, 1, 1, 1, 1, 1],
    "tokenizer.ggml.bos_token_id": 0,
}


@pytest.mark.parametrize(
    ("pre", "ids"),
    [
        ("smollm", [3, 4, 4, 0, 5]),
        ("gpt-2", [3, 4, 4, 0, 5]),
        ("qwen2", [3, 4, 4, 0, 5]),
        ("llama-bpe", [0, 3, 4, 4, 0, 5]),
    ],
)
def test_metadata(pre, ids):
    """Tokens, merges and special tokens come from the metadata; a leading token where the file asks for one."""
    data = METADATA | {"tokenizer.ggml.pre": pre}
    assert metadata_tokenizer(data.get, "x").encode("ab11<s> ") == ids
    assert metadata_tokenizer((data | {"tokenizer.ggml.add_bos_token": True}).get, "x").encode("ab") == [0, 3]


def test_metadata_that_do_not_fit():
    """Merges of unknown tokens and missing lists are errors; an unknown kind is None and says why."""
    wrong = [
        {"merges": ["a c"]},
        {"merges": ["a c"], "tokens": ["<s>", "a", "ac", "1", "\u0120", "b"]},
        {"merges": [1, 2]},
        {"merges": "a b"},
        {"tokens": None},
        {"tokens": [1] * 6},
        {"token_type": 3},
        {"add_bos_token": True, "bos_token_id": 6},
        {"add_bos_token": True, "bos_token_id": "<s>"},
    ]
    for change in wrong:
        data = METADATA | {f"tokenizer.ggml.{name}": value for name, value in change.items()}
        with pytest.raises(CheckpointError, match=r"x: .*tokenizer\.ggml"):
            metadata_tokenizer(data.get, "x")
    for pre in (["smollm"], 1, None):
        assert metadata_tokenizer((METADATA | {"tokenizer.ggml.pre": pre}).get, "x") is None
    other = METADATA | {"tokenizer.ggml.pre": "falcon"}
    assert metadata_tokenizer(other.get, "x") is None
    assert "falcon" in unknown_kind(other.get)


def pieces(pre, text):
    """How a text is cut before merges, with blanks as they were."""
    cut = metadata_tokenizer((METADATA | {"tokenizer.ggml.pre": pre}).get, "x").backend.pre_tokenizer
    return [text[start:end] for _, (start, end) in cut.pre_tokenize_str(text)]


CUTS = [
    ("qwen2", "in 12345 days", ["in", " ", "1", "2", "3", "4", "5", " days"]),
    ("llama-bpe", "in 12345 days", ["in", " ", "123", "45", " days"]),
    ("llama3", "1234567", ["123", "456", "7"]),
    ("smollm", "in 123", ["in", " ", "1", "2", "3"]),
    ("gpt-2", "in 12345 days", ["in", " 12345", " days"]),
    ("llama-bpe", "We'LL see", ["We", "'LL", " see"]),
    ("gpt-2", "We'LL", ["We", "'", "LL"]),
    ("llama-bpe", "a  b\n\n c!?\n", ["a", " ", " b", "\n\n", " c", "!?\n"]),
    ("llama-bpe", "x=(y)", ["x", "=(", "y", ")"]),
    ("llama-bpe", "-word \tz", ["-word", " ", "\tz"]),
    ("llama-bpe", "\u65e5\u672c 2024\u5e74", ["\u65e5\u672c", " ", "202", "4", "\u5e74"]),
]


@pytest.mark.parametrize(("pre", "text", "expected"), CUTS)
def test_text_is_cut_as_each_family_does(pre, text, expected):
    """Digits one by one, three by three or together; contractions in any case or in small letters only."""
    assert pieces(pre, text) == expected


LLAMA3 = METADATA | {
    "tokenizer.ggml.pre": "llama-bpe",
    "tokenizer.ggml.tokens": ["<s>", "a", "b", "c", "ab", "bc", "abc", "\u0120"],
    "tokenizer.ggml.merges": ["b c", "a b"],
    "tokenizer.ggml.token_type": [3] + [1] * 7,
}


def test_a_piece_that_is_a_token_is_not_merged():
    """Llama 3's tokens are more than its merges reach; in a longer piece the merges decide again."""
    encode = metadata_tokenizer((LLAMA3 | {"tokenizer.ggml.add_bos_token": False}).get, "x").encode
    assert encode("abc") == [6]
    assert encode("abcc") == [1, 5, 3]
    qwen = metadata_tokenizer((LLAMA3 | {"tokenizer.ggml.pre": "qwen2"}).get, "x")
    assert qwen.encode("abc") == [1, 5]


def test_the_leading_token_is_the_files_to_refuse():
    """Llama 3 has one unless the file says no, others have none unless it says yes; decoding leaves it out."""
    llama = metadata_tokenizer(LLAMA3.get, "x")
    assert llama.encode("a") == [0, 1]
    assert llama.decode([0, 1, 7, 2]) == "a b"
    assert metadata_tokenizer((LLAMA3 | {"tokenizer.ggml.add_bos_token": False}).get, "x").encode("a") == [1]
    nameless = {name: value for name, value in LLAMA3.items() if name != "tokenizer.ggml.bos_token_id"}
    assert metadata_tokenizer(nameless.get, "x").encode("a") == [1]


def test_any_text_comes_back(smollm2):
    """Over a real vocabulary of bytes, whatever cuts it: what was encoded is decoded to itself."""
    vocab = smollm2.tokenizer.backend.get_vocab()
    tokens = sorted(vocab, key=vocab.get)
    letters = {token for token in tokens if len(token) == 1}
    data = LLAMA3 | {
        "tokenizer.ggml.tokens": ["<s>", *sorted(letters), "th", "the"],
        "tokenizer.ggml.merges": ["t h", "th e"],
        "tokenizer.ggml.token_type": [3] + [1] * (len(letters) + 2),
    }
    text = "the 1234 caf\u00e9s\n\n  it's\t\u65e5\u672c \U0001f600!"
    for pre in ("llama-bpe", "qwen2", "gpt-2", "smollm"):
        tokenizer = metadata_tokenizer((data | {"tokenizer.ggml.pre": pre}).get, "x")
        assert tokenizer.decode(tokenizer.encode(text)) == text, pre
