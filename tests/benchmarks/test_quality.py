"""The table of quality: what it says, and the bounds that the real weights keep."""

import sys

import numpy as np
import pytest

from qwenperf.models.registry import load_model


@pytest.fixture(scope="module")
def quality(repository):
    sys.path.insert(0, str(repository))
    from benchmarks import quality

    return quality


def test_a_row_says_bytes_and_perplexity(quality):
    """Of the engine's own weights, in one pass, or through its cache."""
    model = load_model("tiny")
    tokens = np.random.default_rng(0).integers(0, 256, (1, 12))
    plain, small, cache = (
        quality.measure(model, tokens, name) for name in ("cached", "cached+weights=int8", "cached+cache_dtype=int8")
    )
    assert plain.weight_bytes > 3 * small.weight_bytes
    assert plain.cache_bytes > 3 * cache.cache_bytes
    for row in (small, cache):
        assert row.perplexity != plain.perplexity
        assert row.perplexity == pytest.approx(plain.perplexity, rel=0.02)


def test_the_table_compares_with_its_first_row(quality):
    """Ratio of bytes and change of perplexity."""
    known = {"dtype": "f32", "cache_bytes": 5}
    lines = list(
        quality.table(
            [
                quality.Row(engine="a", weight_bytes=4000, perplexity=20.0, **known),
                quality.Row(engine="b", weight_bytes=1000, perplexity=21.0, **known),
            ]
        )
    )
    assert lines[-1] == "| `b` | f32 | 1,000 | 4.00 | 5 | 21.000 | +5.00% |"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "least_ratio", "most_change"),
    [
        ("cached+weights=int8", 3.6, 0.01),
        ("cached+weights=int8-g32", 3.6, 0.01),
        ("cached+weights=int4-g32", 5.0, 0.06),
        ("cached+cache_dtype=int8", 1.0, 0.005),
        ("cached+cache_dtype=bf16", 1.0, 0.005),
    ],
)
def test_quality_is_kept_on_real_weights(engine, least_ratio, most_change, quality, weights_absent):
    """Perplexity of the committed text may rise so much, and weights must be so many times smaller than in f32."""
    model = load_model("smollm2-135m")
    if model.source == "seeded":
        weights_absent(model.findings[0].message)
    tokens = np.asarray([model.tokenizer.encode(quality.TEXT.read_text(encoding="utf-8"))])
    plain, row = (quality.measure(model, tokens, name) for name in ("cached", engine))
    assert plain.weight_bytes / row.weight_bytes >= least_ratio
    assert row.perplexity / plain.perplexity - 1 <= most_change
