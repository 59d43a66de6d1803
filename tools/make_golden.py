"""Make tests/golden: what transformers computes, for our forward pass, readers and tokenizer to agree with.

Run once, by hand, in an environment of its own (torch is no dependency of the project):

    python3.11 -m venv golden && golden/bin/pip install torch==2.13.0 transformers accelerate gguf regex
    golden/bin/python tools/make_golden.py SmolLM2-135M-Instruct.Q4_1.gguf [--part families]

The GGUF file is the one that ``qwenperf weights`` names. Nothing of qwenperf is imported: tiny checkpoints, logits
and greedy tokens come from transformers, token ids from the plain byte-pair encoder at the end of this file.
"""

from __future__ import annotations

import argparse
import json
import shutil
import zlib
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import regex
import torch
import transformers
from gguf import GGUFReader
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

GOLDEN = Path(__file__).parent.parent / "tests" / "golden"
LENGTHS = (1, 7, 64)
ROWS = (9, 4, 1)
"""Lengths of the rows of the padded batch."""
TRIES = 24
"""Further random prompts that the bf16 error is the largest of."""
SMOLLM2_COLUMNS = 193
"""Every how manieth logit of SmolLM2's 49152 is kept."""

_SMALL = {"vocab_size": 160, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2}
TINY: dict[str, tuple[Any, Any, torch.dtype, str]] = {
    "qwen2-tied": (
        Qwen2ForCausalLM,
        Qwen2Config(
            **_SMALL,
            num_attention_heads=4,
            num_key_value_heads=2,
            rope_parameters={"rope_type": "default", "rope_theta": 1e6},
            tie_word_embeddings=True,
        ),
        torch.float32,
        "5GB",
    ),
    "qwen2-untied-sharded": (
        Qwen2ForCausalLM,
        Qwen2Config(**_SMALL, num_attention_heads=3, num_key_value_heads=1, head_dim=32, tie_word_embeddings=False),
        torch.float16,
        "40KB",
    ),
    "llama-untied": (
        LlamaForCausalLM,
        LlamaConfig(
            **_SMALL, num_attention_heads=6, num_key_value_heads=2, rms_norm_eps=1e-5, tie_word_embeddings=False
        ),
        torch.bfloat16,
        "5GB",
    ),
    "llama-tied-head-dim": (
        LlamaForCausalLM,
        LlamaConfig(**_SMALL, num_attention_heads=4, num_key_value_heads=4, head_dim=16, tie_word_embeddings=True),
        torch.float32,
        "5GB",
    ),
}

_HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
_TURNED = {"rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32}
FAMILIES: dict[str, tuple[Any, Any, torch.dtype, str]] = {
    "gpt2-tied": (
        GPT2LMHeadModel,
        GPT2Config(vocab_size=160, n_embd=48, n_layer=2, n_head=4, n_positions=64),
        torch.float32,
        "5GB",
    ),
    "gpt2-untied-inner": (
        GPT2LMHeadModel,
        GPT2Config(
            vocab_size=160,
            n_embd=45,
            n_layer=2,
            n_head=3,
            n_inner=70,
            n_positions=80,
            layer_norm_epsilon=1e-3,
            tie_word_embeddings=False,
        ),
        torch.bfloat16,
        "5GB",
    ),
    "qwen3-tied": (Qwen3ForCausalLM, Qwen3Config(**_SMALL, **_HEADS, tie_word_embeddings=True), torch.float32, "5GB"),
    "qwen3-untied-yarn": (
        Qwen3ForCausalLM,
        Qwen3Config(
            **_SMALL,
            **_HEADS,
            rope_parameters=_TURNED
            | {"rope_type": "yarn", "mscale": 1.2, "mscale_all_dim": 0.6, "beta_fast": 8.0, "truncate": False},
            max_position_embeddings=128,
            tie_word_embeddings=False,
        ),
        torch.bfloat16,
        "5GB",
    ),
    "qwen2-yarn": (
        Qwen2ForCausalLM,
        Qwen2Config(
            **_SMALL,
            **_HEADS,
            rope_parameters=_TURNED | {"rope_type": "yarn"},
            max_position_embeddings=128,
            tie_word_embeddings=True,
        ),
        torch.bfloat16,
        "5GB",
    ),
    "llama-llama3": (
        LlamaForCausalLM,
        LlamaConfig(
            **_SMALL,
            **_HEADS,
            rope_parameters=_TURNED | {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0},
            max_position_embeddings=128,
            tie_word_embeddings=True,
        ),
        torch.bfloat16,
        "5GB",
    ),
    "llama-linear": (
        LlamaForCausalLM,
        LlamaConfig(
            **_SMALL,
            **_HEADS,
            rope_parameters={"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0},
            max_position_embeddings=128,
            tie_word_embeddings=True,
        ),
        torch.bfloat16,
        "5GB",
    ),
}
"""Made after ``TINY``, each from a seed of its own, so that none moves when another is added."""

TEXTS = (
    "The capital of France is",
    "Hello, world!  Two spaces, three   spaces,\ttab\n\n  and newlines \n",
    "In 2024, pi was 3.14159 and 1,000,000 > 999; x²=4, ½ and ٣ are digits too.",
    "def f(a_b: int) -> str:\n    return f\"{a_b!r}\" if a_b != 0x1F else '''it's'''\n",
    "naïve café, Größe, Ελληνικά, русский, 日本語のテキスト, 한국어, हिन्दी, العربية",
    "emoji 🙂👩‍👩‍👧 and symbols ∑∫√ \u00a0non-breaking",
    "<|im_start|>user\nWhat's 12x34?<|im_end|>\n<|im_start|>assistant\n",
    "text<|endoftext|>more <|not_special|> <|im_end|>",
    "don't we'll I'VE they're 'quoted'",
    "",
    " ",
)
CHAT = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
NEW_TOKENS = 32


def main() -> None:
    """Write everything under tests/golden, or one part of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gguf", type=Path)
    parser.add_argument("--part", choices=("tiny", "families", "perplexity"), help="all of them by default")
    given = parser.parse_args()
    GOLDEN.mkdir(parents=True, exist_ok=True)
    facts_file = GOLDEN / "golden.json"
    facts: dict[str, Any] = json.loads(facts_file.read_text()) if given.part else {"bf16_error": {}}
    facts["made_with"] = {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "command": "tools/make_golden.py",
    }
    if given.part in {None, "tiny"}:
        _first_models(given.gguf, facts)
    if given.part in {None, "families"}:
        _families(facts)
    if given.part in {None, "perplexity"}:
        facts["perplexity"] = _perplexity(given.gguf)
    facts_file.write_text(json.dumps(facts, indent=1, ensure_ascii=True) + "\n")


def _first_models(gguf: Path, facts: dict[str, Any]) -> None:
    torch.manual_seed(20)
    np.savez_compressed(GOLDEN / "tiny.npz", **_tiny(TINY, facts))
    encode = encoder(gguf)
    facts["tokens"] = [{"text": text, "ids": encode(text)} for text in TEXTS]
    facts["bf16_error"]["smollm2-135m"] = _smollm2(gguf, encode(CHAT))
    facts["chat"] = CHAT


def _families(facts: dict[str, Any]) -> None:
    arrays: dict[str, np.ndarray] = {}
    for name, recipe in FAMILIES.items():
        torch.manual_seed(zlib.crc32(name.encode()))
        arrays |= _tiny({name: recipe}, facts)
    np.savez_compressed(GOLDEN / "families.npz", **arrays)


def _tiny(recipes: dict[str, tuple[Any, Any, torch.dtype, str]], facts: dict[str, Any]) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    for name, (family, config, stored, shard) in recipes.items():
        _save_tiny(family, config, stored, GOLDEN / name, shard)
        model = _load(GOLDEN / name)
        arrays |= {f"{name}/{key}": value for key, value in _inputs_and_logits(model).items()}
        facts["bf16_error"][name] = _bf16_error(model, TRIES)
    return arrays


def _perplexity(gguf: Path) -> dict[str, Any]:
    """Return exp of the mean surprise at each token of the text but the first."""
    ids = encoder(gguf)((GOLDEN / "text.txt").read_text())
    scores = torch.tensor(_logits(_load(gguf.parent, gguf_file=gguf.name), torch.tensor([ids]), None)[0]).double()
    surprise = torch.nn.functional.cross_entropy(scores[:-1], torch.tensor(ids[1:]))
    return {"model": "smollm2-135m", "text": "text.txt", "tokens": len(ids), "value": float(surprise.exp())}


def _save_tiny(family: Any, config: Any, stored: torch.dtype, folder: Path, shard: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    model = family(config)
    with torch.no_grad():
        for name, value in model.named_parameters():
            # Far from the usual initial values, so that no norm, bias or head is close to doing nothing.
            if ("norm" in name or ".ln_" in name) and name.endswith("weight"):
                value.copy_(1 + 0.3 * torch.randn_like(value))
            elif name.endswith("bias"):
                value.copy_(0.5 * torch.randn_like(value))
            else:
                # GPT-2's matrices lie as [in, out].
                fan_in = value.shape[0 if ".c_" in name else -1]
                table = any(part in name for part in ("embed", "wte", "wpe"))
                value.copy_(torch.randn_like(value) * (1.0 if table else 1.2 * fan_in**-0.5))
    model.to(stored).save_pretrained(folder, max_shard_size=shard)
    (folder / "generation_config.json").unlink(missing_ok=True)
    for file in folder.iterdir():
        file.chmod(0o644)


def _load(folder: Path, **kwargs: Any) -> Any:
    return AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", **kwargs
    ).eval()


def _prompts(vocabulary: int) -> dict[str, tuple[torch.Tensor, torch.Tensor | None]]:
    prompts: dict[str, tuple[torch.Tensor, torch.Tensor | None]] = {
        f"length-{length}": (torch.randint(vocabulary, (1, length)), None) for length in LENGTHS
    }
    width = max(ROWS)
    tokens = torch.randint(vocabulary, (len(ROWS), width))
    right = torch.tensor([[1] * row + [0] * (width - row) for row in ROWS])
    return prompts | {"right-padded": (tokens, right), "left-padded": (tokens, right.flip(1))}


@torch.no_grad()
def _logits(model: Any, tokens: torch.Tensor, mask: torch.Tensor | None) -> np.ndarray:
    positions = None if mask is None else (mask.cumsum(-1) - 1).clamp(min=0)
    return model(tokens, attention_mask=mask, position_ids=positions, use_cache=False).logits.float().numpy()


def _inputs_and_logits(model: Any, every: int = 1) -> dict[str, np.ndarray]:
    arrays = {}
    for name, (tokens, mask) in _prompts(model.config.vocab_size).items():
        logits = _logits(model, tokens, mask)
        valid = np.ones(tokens.shape, bool) if mask is None else mask.numpy().astype(bool)
        arrays[f"{name}/tokens"] = tokens.numpy().astype(np.int32)
        arrays[f"{name}/mask"] = valid
        arrays[f"{name}/logits"] = logits[valid][:, ::every]
        arrays[f"{name}/argmax"] = logits[valid].argmax(-1).astype(np.int32)
        arrays[f"{name}/largest"] = np.abs(logits[valid]).max()
    return arrays


def _bf16_error(model: Any, tries: int) -> float:
    """Return the largest max|bf16 - f32| / max|f32| of transformers itself, over all kinds of prompts."""
    prompts = [prompt for _ in range(tries) for prompt in _prompts(model.config.vocab_size).values()]
    truth = [_logits(model, *prompt) for prompt in prompts]
    model.to(torch.bfloat16)
    errors = []
    for (tokens, mask), exact in zip(prompts, truth, strict=True):
        valid = np.ones(tokens.shape, bool) if mask is None else mask.numpy().astype(bool)
        rounded = _logits(model, tokens, mask)
        errors.append(np.abs(rounded - exact)[valid].max() / np.abs(exact[valid]).max())
    return float(np.max(errors))


def _smollm2(gguf: Path, chat: list[int]) -> float:
    model = _load(gguf.parent, gguf_file=gguf.name)
    arrays = _inputs_and_logits(model, SMOLLM2_COLUMNS)
    tokens = torch.tensor([chat])
    generated = model.generate(tokens, max_new_tokens=NEW_TOKENS, min_new_tokens=NEW_TOKENS, do_sample=False)
    arrays["greedy/prompt"] = np.array(chat, np.int32)
    arrays["greedy/tokens"] = _greedy(model, chat)
    assert arrays["greedy/tokens"][:4].tolist() == generated[0, len(chat) : len(chat) + 4].tolist()
    np.savez_compressed(GOLDEN / "smollm2.npz", **arrays)
    return _bf16_error(model, 2)


def _greedy(model: Any, prompt: list[int]) -> np.ndarray:
    """Return the greedy continuation without any rule about ends, and fail on a near tie."""
    tokens = list(prompt)
    for _ in range(NEW_TOKENS):
        last = _logits(model, torch.tensor([tokens]), None)[0, -1]
        second, first = np.sort(last)[-2:]
        if first - second < 1e-3:
            raise SystemExit(f"near tie after {len(tokens)} tokens: choose another prompt")
        tokens.append(int(last.argmax()))
    return np.array(tokens[len(prompt) :], np.int32)


def encoder(gguf: Path) -> Any:
    """Return SmolLM2's tokenizer, written plainly: special tokens, digits one by one, GPT-2's cut, merges by rank.

    The cut is GPT-2's published pattern after single digits, as llama.cpp names it ``smollm``.
    """
    reader = GGUFReader(gguf)
    tokens = reader.get_field("tokenizer.ggml.tokens").contents()
    kinds = reader.get_field("tokenizer.ggml.token_type").contents()
    merges = reader.get_field("tokenizer.ggml.merges").contents()
    ids = {token: index for index, token in enumerate(tokens)}
    rank = {tuple(merge.split(" ")): index for index, merge in enumerate(merges)}
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == 3]
    at_special = regex.compile("(" + "|".join(map(regex.escape, sorted(special, key=len, reverse=True))) + ")")
    cut = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
    printable = _printable_bytes()

    def encode(text: str) -> list[int]:
        found: list[int] = []
        for part in at_special.split(text):
            if part in special:
                found.append(ids[part])
                continue
            for piece in regex.split(r"(\p{N})", part):
                for word in cut.findall(piece):
                    found += [ids[symbol] for symbol in _merge([printable[byte] for byte in word.encode()], rank)]
        return found

    return encode


def _merge(symbols: list[str], rank: dict[tuple[str, ...], int]) -> list[str]:
    while True:
        pairs = [(rank.get(pair, len(rank)), index) for index, pair in enumerate(pairwise(symbols))]
        best, index = min(pairs, default=(len(rank), 0))
        if best == len(rank):
            return symbols
        symbols = [*symbols[:index], symbols[index] + symbols[index + 1], *symbols[index + 2 :]]


def _printable_bytes() -> dict[int, str]:
    """Return GPT-2's letters for bytes: printable ones stand for themselves, the others follow from U+0100."""
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {byte: chr(0x100 + index) for index, byte in enumerate(others)}


if __name__ == "__main__":
    main()
