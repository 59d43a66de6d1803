"""Draws follow the rules' exact probabilities, and depend on a row's own key alone."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.decode.sampling import GREEDY, Sampling, draw, filtered, rules_of
from qwenperf.errors import ConfigError

DRAWS = 4000
RULES = (
    Sampling(),
    Sampling(temperature=0.5),
    Sampling(temperature=2.0, top_k=5),
    Sampling(top_p=0.7),
    Sampling(min_p=0.2),
    Sampling(temperature=1.5, top_k=9, top_p=0.8, min_p=0.05),
)
run = jax.jit(draw)


def exact(logits, rule):
    """Return the probabilities of one row by numpy in f64, straight from the definitions."""
    scaled = logits.astype(np.float64) / rule.temperature
    weights = np.exp(scaled - scaled.max())
    order = np.argsort(-weights, kind="stable")
    if rule.top_k:
        weights[weights < weights[order[min(rule.top_k, len(order)) - 1]]] = 0
    weights /= weights.sum()
    if rule.top_p < 1:
        fewest = np.searchsorted(np.cumsum(weights[order]), rule.top_p) + 1
        weights[weights < weights[order[fewest - 1]]] = 0
    weights[weights < rule.min_p * weights.max()] = 0
    return weights / weights.sum()


@pytest.fixture(scope="module")
def logits():
    return np.random.default_rng(5).normal(size=12).astype(np.float32) * 2


@pytest.fixture(scope="module")
def counts(logits):
    """How often each token was drawn under each of the rules, from 4000 keys each."""
    rows = len(RULES) * DRAWS
    rules = rules_of([rule for rule in RULES for _ in range(DRAWS)])
    keys = jax.random.split(jax.random.key(11), rows)
    drawn = run(jnp.broadcast_to(jnp.asarray(logits)[None], (rows, 12)), keys, jnp.zeros(rows, jnp.int32), rules)
    return [np.bincount(part, minlength=12) for part in np.asarray(drawn).reshape(len(RULES), DRAWS)]


@pytest.mark.parametrize("index", range(len(RULES)))
def test_frequencies_are_the_exact_probabilities(index, counts, logits):
    """Chi-square stays within four standard deviations of its mean, and what is filtered out is never drawn."""
    expected = exact(logits, RULES[index]) * DRAWS
    possible = expected > 0
    assert (counts[index][~possible] == 0).all()
    squares = (counts[index][possible] - expected[possible]) ** 2 / expected[possible]
    freedom = possible.sum() - 1
    assert squares.sum() < freedom + 4 * np.sqrt(2 * freedom)


def test_the_bound_is_tight_enough_to_tell_the_rules_apart(counts, logits):
    """Frequencies of one rule break the bound of another: the temperature is really there."""
    expected = exact(logits, RULES[1]) * DRAWS
    assert ((counts[0] - expected) ** 2 / expected).sum() > 100


def test_the_tokens_that_filters_keep_are_those_of_numpy():
    """Support and probabilities of 200 random rows under random rules."""
    generator = np.random.default_rng(7)
    rows = generator.normal(size=(200, 40)).astype(np.float32) * 3
    rules = [
        Sampling(
            temperature=float(generator.uniform(0.3, 2)),
            top_k=int(generator.integers(0, 50)),
            top_p=float(generator.choice([1.0, generator.uniform(0.05, 0.99)])),
            min_p=float(generator.choice([0.0, generator.uniform(0.01, 1)])),
        )
        for _ in rows
    ]
    kept = np.asarray(jax.nn.softmax(jax.jit(filtered)(jnp.asarray(rows), rules_of(rules)), axis=-1))
    truth = np.stack([exact(row, rule) for row, rule in zip(rows, rules, strict=True)])
    np.testing.assert_array_equal(kept > 0, truth > 0)
    np.testing.assert_allclose(kept, truth, rtol=0, atol=1e-5)


def test_equals_of_the_last_kept_token_are_kept():
    """No order of equal logits is made up."""
    rows = jnp.asarray([[3.0, 1.0, 1.0, 1.0, 0.0]])
    kept = np.asarray(filtered(rows, rules_of([Sampling(top_k=2)])))
    np.testing.assert_array_equal(np.isfinite(kept[0]), [True, True, True, True, False])


def test_a_draw_depends_on_its_own_key_only():
    """The same key and position give the same token at any place of a batch of any size."""
    keys = jax.random.split(jax.random.key(2), 6)
    rows = jnp.asarray(np.random.default_rng(1).normal(size=(6, 50)).astype(np.float32))
    positions = jnp.arange(6, dtype=jnp.int32)
    whole = np.asarray(run(rows, keys, positions, rules_of([Sampling()] * 6)))
    order = jnp.asarray([4, 1, 5])
    part = run(rows[order], keys[order], positions[order], rules_of([Sampling(), GREEDY, Sampling()]))
    assert part[0] == whole[4]
    assert part[2] == whole[5]
    assert part[1] == np.asarray(rows)[1].argmax()
    later = run(rows, keys, positions + 6, rules_of([Sampling()] * 6))
    assert (np.asarray(later) != whole).any()


@pytest.mark.parametrize("rule", [GREEDY, Sampling(temperature=1e-40), Sampling(top_p=1e-50), Sampling(min_p=1)])
def test_the_limits_take_the_largest_logit(rule):
    """Temperatures and shares that f32 rounds to 0 give no NaN; of equals the first is taken where it is greedy."""
    rows = jnp.asarray([[1.0, 7.0, 6.9, -2.0]] * 2)
    assert run(
        rows, jax.random.split(jax.random.key(0), 2), jnp.zeros(2, jnp.int32), rules_of([rule] * 2)
    ).tolist() == [
        1,
        1,
    ]


@pytest.mark.parametrize("rule", [GREEDY, Sampling(), Sampling(temperature=2.0, top_k=3, top_p=0.9, min_p=0.1)])
def test_an_infinite_logit_forces_its_token(rule):
    """As where it is greedy; and minus infinity is never drawn."""
    rows = jnp.asarray([[1.0, -jnp.inf, jnp.inf, 3.0], [-jnp.inf, 2.0, -jnp.inf, -jnp.inf]])
    keys = jax.random.split(jax.random.key(0), 2)
    assert run(rows, keys, jnp.zeros(2, jnp.int32), rules_of([rule] * 2)).tolist() == [2, 1]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("temperature", float("inf")),
        ("temperature", "hot"),
        ("temperature", 1e300),
        ("temperature", 10**400),
        ("min_p", 10**400),
        ("top_k", -1),
        ("top_k", 2.5),
        ("top_k", True),
        ("top_p", 0),
        ("top_p", 1.01),
        ("top_p", float("nan")),
        ("min_p", -0.1),
        ("min_p", 1.5),
        ("min_p", None),
    ],
)
def test_what_is_no_rule_is_refused(field, value):
    """The message names the field and the value."""
    with pytest.raises(ConfigError, match=rf"sampling: {field} is {re.escape(repr(value))}, which is not"):
        Sampling(**{field: value})
