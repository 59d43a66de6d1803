"""Perplexity of an engine, against that of the forward pass without a cache."""

import numpy as np
import pytest

from qwenperf.decode.perplexity import engine_perplexity
from qwenperf.errors import TokenError
from qwenperf.models.perplexity import perplexity


def test_an_exact_engine_is_as_surprised_as_the_forward_pass(engine, model, prompt):
    """One token at a time through the cache, two rows."""
    tokens = prompt(2, 9)
    expected = perplexity(model.params, model.config, tokens)
    assert engine_perplexity(engine("cached-host"), tokens) == pytest.approx(expected, rel=1e-5)


def test_every_token_but_the_first_counts(engine, prompt):
    """Another last token, which no step is given, is another surprise."""
    tokens = prompt(1, 5)
    other = tokens.copy()
    other[0, -1] = (other[0, -1] + 1) % 256
    assert engine_perplexity(engine("cached-host"), tokens) != engine_perplexity(engine("cached-host"), other)


@pytest.mark.parametrize("last", [256, -1, 2**32 + 5])
def test_a_last_token_outside_the_vocabulary_has_no_probability(engine, last):
    """No step would ever see it."""
    with pytest.raises(TokenError, match="vocabulary"):
        engine_perplexity(engine("cached-host"), np.asarray([[1, 2, last]]))


@pytest.mark.parametrize("tokens", [[[1]], [1, 2]])
def test_one_token_is_no_text(engine, tokens):
    """Nothing comes before it; and a row is a row of a batch."""
    with pytest.raises(TokenError, match="at least 2"):
        engine_perplexity(engine("cached-host"), np.asarray(tokens))
