"""Whether the state that steps hand on grows: seen in the states themselves, whatever is compiled already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from qwenperf.decode.engine import Engine, StepEngine
from qwenperf.gate.growth import STATE_GROWS
from qwenperf.measure.signature import short_dtype
from qwenperf.schema.records import Finding, Severity

STEPS = 3
"""Two comparisons: one change may be the end of a bucket."""


@dataclass(frozen=True, kw_only=True)
class States:
    """The shapes of the arrays in the state after each watched step, by key path."""

    seen: list[dict[str, str]] = field(default_factory=list)

    def watch(self, step: Callable[[Any, Any], tuple[Any, Any]]) -> Callable[[Any, Any], tuple[Any, Any]]:
        """Return ``step`` with a look at the state that it returns. Keeps no array."""

        def watched(tokens_B: Any, state: Any) -> tuple[Any, Any]:
            logits, state = step(tokens_B, state)
            self.seen.append(_shapes(state))
            return logits, state

        return watched

    def findings(self) -> tuple[Finding, ...]:
        """Return a finding where the state changed its shapes in every step."""
        changes = [_changes(before, after) for before, after in pairwise(self.seen)]
        if len(changes) < STEPS - 1 or not all(changes):
            return ()
        argument, before, after = changes[-1][0]
        return (
            Finding(
                code=STATE_GROWS,
                severity=Severity.WARNING,
                message=f"the state of the decode step changes its shape in each step: {argument} {before} -> {after}.",
                data={"steps": len(changes), "argument": argument, "before": before, "after": after},
            ),
        )


def find_growth(engine: Engine, prompt_BT: np.ndarray, new_tokens: int) -> tuple[Finding, ...]:
    """Take the first decode steps of a request, and compare the states after them."""
    states = States()
    if isinstance(engine, StepEngine):
        logits_BV, state = engine.prefill(prompt_BT)
        step = states.watch(engine.decode_step)
        for _ in range(min(STEPS, new_tokens - 1)):
            logits_BV, state = step(jnp.argmax(logits_BV, axis=-1).astype(jnp.int32), state)
    return states.findings()


def _shapes(state: Any) -> dict[str, str]:
    """Arrays of JAX only: nothing is compiled for the others."""
    leaves = jax.tree_util.tree_flatten_with_path(state)[0]
    return {f"state{jax.tree_util.keystr(path)}": _shape(leaf) for path, leaf in leaves if isinstance(leaf, jax.Array)}


def _shape(array: jax.Array) -> str:
    return f"{short_dtype(array.dtype)}[{','.join(map(str, array.shape))}]"


def _changes(before: dict[str, str], after: dict[str, str]) -> list[tuple[str, str, str]]:
    return [(path, before.get(path, ""), shape) for path, shape in after.items() if before.get(path, "") != shape]
