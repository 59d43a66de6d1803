"""Small engines made by hand, each with one thing right or wrong."""

import jax
import jax.numpy as jnp
import numpy as np

VOCAB = 13


@jax.jit
def markov_logits(table, tokens):
    """Return the logits after each token."""
    return table[tokens]


class Markov:
    """The next token depends on the last one only; has steps and knows the truth."""

    name = "markov"

    def __init__(self):
        self.table = jax.random.normal(jax.random.key(1), (VOCAB, VOCAB), jnp.float32)
        self.requests = 0

    def prefill(self, tokens_BT):
        """Return logits after the prompt."""
        return markov_logits(self.table, np.asarray(tokens_BT)[:, -1]), None

    def decode_step(self, tokens_B, state):
        """Return logits after a token."""
        return markov_logits(self.table, tokens_B), state

    def uncached_logits(self, tokens_BT):
        """Return all logits."""
        return self.table[tokens_BT]

    def generate(self, tokens_BT, new_tokens):
        """Return greedy tokens."""
        self.requests += 1
        logits, state = self.prefill(tokens_BT)
        tokens = [np.asarray(logits).argmax(-1).astype(np.int32)]
        while len(tokens) < new_tokens:
            logits, state = self.decode_step(tokens[-1], state)
            tokens.append(np.asarray(logits).argmax(-1).astype(np.int32))
        return jnp.asarray(np.stack(tokens, axis=1))


class Recompiling(Markov):
    """Compiles a new program in each request from the third on."""

    name = "recompiling"

    def generate(self, tokens_BT, new_tokens):
        """Return greedy tokens, after a program of another shape."""
        if self.requests >= 2:
            grow(np.zeros(self.requests, np.float32))
        return super().generate(tokens_BT, new_tokens)


@jax.jit
def grow(cache):
    """Return something of the shape of a growing cache."""
    return cache + 1


class Refused(Markov):
    """Calls an ahead-of-time executable with another shape from the third request on."""

    name = "refused"

    def __init__(self):
        super().__init__()
        self.compiled = jax.jit(lambda cache: cache * 2).lower(jnp.zeros((8, 4))).compile()

    def generate(self, tokens_BT, new_tokens):
        """Return greedy tokens, after a call that may be refused."""
        self.compiled(np.zeros((8 if self.requests < 2 else 9, 4), np.float32))
        return super().generate(tokens_BT, new_tokens)


class OtherStream(Markov):
    """Streams other tokens than it generates."""

    name = "other-stream"

    def stream(self, tokens_BT, new_tokens):
        """Yield the right tokens, but for the fourth."""
        for step, tokens in enumerate(np.asarray(super().generate(tokens_BT, new_tokens)).T):
            yield jnp.asarray((tokens + (step == 3)) % VOCAB)


class OffByOne(Markov):
    """Steps look at a neighbour of the token from the second step on: logits are wrong, and with them tokens."""

    name = "off-by-one"

    def decode_step(self, tokens_B, state):
        """Return logits after another token."""
        return markov_logits(self.table, (tokens_B + int(bool(state))) % VOCAB), (state or 0) + 1


class Bare:
    """Generates, and offers nothing else."""

    name = "bare"

    def generate(self, tokens_BT, new_tokens):
        """Return zeros."""
        return jnp.zeros((len(tokens_BT), new_tokens), jnp.int32)


class WrongShape(Bare):
    """Returns the prompt too."""

    name = "wrong-shape"

    def generate(self, tokens_BT, new_tokens):
        """Return too much."""
        return jnp.zeros((len(tokens_BT), new_tokens + 4), jnp.int32)


class WrongDtype(Bare):
    """Returns floats."""

    name = "wrong-dtype"

    def generate(self, tokens_BT, new_tokens):
        """Return floats."""
        return jnp.zeros((len(tokens_BT), new_tokens))
