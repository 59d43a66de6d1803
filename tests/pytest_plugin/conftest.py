"""Engines of a few lines for the sessions inside these tests, and the records that such sessions write."""

import flax.linen  # noqa: F401 -- see below
import pytest
import pytest_benchmark.plugin  # noqa: F401
import pytest_postgresql.plugin  # noqa: F401

# Sessions inside this one forget what they import, and JAX cannot be imported twice: so it is here already. Other
# people's plugins, which such a session loads and this one does not, would take seconds in each.
import schemathesis.pytest.plugin  # noqa: F401

import qwenperf.lab.calls
import qwenperf.lab.measure_step
import qwenperf.lab.request  # noqa: F401
from qwenperf.schema.codec import loads

ENGINE = """
    import jax, jax.numpy as jnp, numpy as np

    PROMPT = [3, 1, 2]

    def logits_of(last):
        return jax.nn.one_hot((last + 1) % 5, 5)

    @jax.jit
    def prefill(tokens):
        return logits_of(tokens[:, -1]), tokens

    @jax.jit
    def step(token, seen):
        return logits_of(token), seen

    @jax.jit
    def growing(token, seen):
        return logits_of(token), jnp.concatenate([seen, token[:, None]], axis=1)

    @jax.jit
    def wrong(token, seen):
        return logits_of(token + 1), seen

    def generate(tokens, new_tokens):
        rows = [(np.asarray(tokens)[:, -1] + 1 + i) % 5 for i in range(new_tokens)]
        return np.stack(rows, axis=1)

    def lying(tokens, new_tokens):
        return np.zeros((len(tokens), new_tokens), np.int32)
"""


@pytest.fixture
def engine(pytester):
    pytester.makepyfile(engine=ENGINE)
    pytester.syspathinsert()
    return pytester


@pytest.fixture
def record_of():
    """Return the one record below a folder."""

    def read(out):
        (path,) = out.glob("*/run.json")
        return loads(path.read_text())

    return read
