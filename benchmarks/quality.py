"""What approximate settings cost in quality and save in bytes: perplexity of the committed text on the real weights.

    python -m benchmarks.quality
    python -m benchmarks.quality --text FILE --tokens 600 --engine cached+weights=int8

Weights and activations are judged by one pass without a cache, dtypes of the cache by one decode step a token, so
that keys and values are read back from it. 182 tokens are few: changes are of this text, not of the model at large.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from qwenperf.models.registry import Model

TEXT = Path(__file__).parent.parent / "tests" / "golden" / "text.txt"
PLAIN = "cached"
WEIGHTS = (
    "cached+weights=int8",
    "cached+weights=int8-g32",
    "cached+weights=int4-g32",
    "cached+weights=int8+activations=int8",
    "cached+weights=int8-g32+activations=int8",
    "cached+weights=int4-g32+activations=int8",
)
CACHES = ("cached+cache_dtype=bf16", "cached+cache_dtype=int8")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One engine: bytes of its weights, of the cache for this text, and how surprised it is by the text."""

    engine: str
    dtype: str
    weight_bytes: int
    cache_bytes: int
    perplexity: float


def measure(model: Model, tokens_BT: np.ndarray, engine: str) -> Row:
    """Return the row of one engine; step by step where its cache approximates."""
    from qwenperf.decode.build import build_engine
    from qwenperf.decode.perplexity import engine_perplexity
    from qwenperf.models.perplexity import perplexity
    from qwenperf.models.variant import variant_of

    batch, length = tokens_BT.shape
    built = build_engine(model, engine, capacity=length)
    if built.settings.cache_dtype == "native":
        found = perplexity(built.params, model.config, tokens_BT, variant=variant_of(built.settings))
    else:
        found = engine_perplexity(built, tokens_BT)
    facts = built.facts(batch, length - 1, 1)
    return Row(
        engine=engine,
        dtype=model.dtype,
        weight_bytes=facts.weight_bytes,
        cache_bytes=facts.kv_cache_allocated_bytes,
        perplexity=found,
    )


def rows(model: Model, tokens_BT: np.ndarray, engines: Sequence[str], narrow: Model | None = None) -> Iterator[Row]:
    """Yield a row for each engine, the plain f32 one first; ``narrow`` is the same model in bf16."""
    yield measure(model, tokens_BT, PLAIN)
    if narrow is not None:
        yield measure(narrow, tokens_BT, PLAIN)
    for engine in engines:
        yield measure(model, tokens_BT, engine)


def table(measured: Iterable[Row]) -> Iterator[str]:
    """Yield the lines of a Markdown table, each as soon as its row is there; ratios are to the first row."""
    yield "| engine | dtype | weight bytes | f32 / it | cache bytes | perplexity | change |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: |"
    first = None
    for row in measured:
        first = first or row
        change = 100 * (row.perplexity / first.perplexity - 1)
        ratio = first.weight_bytes / row.weight_bytes
        yield (
            f"| `{row.engine}` | {row.dtype} | {row.weight_bytes:,} | {ratio:.2f} | {row.cache_bytes:,} "
            f"| {row.perplexity:.3f} | {change:+.2f}% |"
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Perplexity and bytes of engines, on the real weights.")
    parser.add_argument("--text", type=Path, default=TEXT, metavar="FILE", help="instead of the committed text")
    parser.add_argument("--tokens", type=int, metavar="N", help="only the first so many of the text")
    parser.add_argument("--engine", action="append", metavar="NAME", help="only these beside the plain one; repeatable")
    asked = parser.parse_args(arguments)
    from qwenperf.models.registry import load_model
    from qwenperf.workloads.models import SMOLLM2

    model = load_model(SMOLLM2)
    if model.tokenizer is None:
        raise SystemExit(f"no real weights of {SMOLLM2}: {model.findings[0].message}")
    tokens_BT = np.asarray([model.tokenizer.encode(asked.text.read_text(encoding="utf-8"))[: asked.tokens]])
    narrow = None if asked.engine else load_model(SMOLLM2, "bf16")
    for line in table(rows(model, tokens_BT, asked.engine or WEIGHTS + CACHES, narrow)):
        print(line, flush=True)  # noqa: T201  # a script talks to its user


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    main()
