"""Tokens and logits of an engine against uncached ones of the same model. Asks the engine; ``divergence`` compares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from qwenperf.decode.engine import Engine, ReferencedEngine, StepEngine
from qwenperf.lab.divergence import Logits, compare, worse
from qwenperf.schema.records import Divergence
from qwenperf.workloads.case import Workload

UncachedLogits = Callable[[np.ndarray], Any]


def find_reference(engine: Engine) -> UncachedLogits | None:
    """Return the engine's own uncached logits, ``None`` where it has none."""
    return engine.uncached_logits if isinstance(engine, ReferencedEngine) else None


def check_tokens(
    engine: Engine,
    workload: Workload,
    prompt_BT: np.ndarray,
    generated: dict[str, np.ndarray],
    reference: UncachedLogits,
    *,
    logit_check: bool = True,
) -> Divergence:
    """Compare every form's tokens with uncached decoding, and the steps' logits once.

    ``generated`` holds tokens [B, N] by form (``request``, ``stream``); the first is the one whose logits are compared.
    Each form is held to the truth; the worst is reported, with its name in ``extra``: a tie in one excuses no other.
    """
    first, *others = generated.items()
    engine_logits = _engine_logits(engine, prompt_BT, first[1]) if logit_check else None
    found = worst = _compare(first, prompt_BT, reference, engine_logits, workload.dtype)
    for form, tokens_BN in others:
        if not np.array_equal(tokens_BN, first[1]):
            worst = worse(worst, _compare((form, tokens_BN), prompt_BT, reference, None, workload.dtype))
    teacher = ("max_logit_error", "logit_tolerance", "worst_step")
    return replace(worst, **{name: getattr(found, name) for name in teacher})


def _compare(
    form: tuple[str, np.ndarray],
    prompt_BT: np.ndarray,
    reference: UncachedLogits,
    engine_BNV: np.ndarray | None,
    dtype: str,
) -> Divergence:
    name, tokens_BN = form
    # The last generated token is never fed: nothing is predicted from it.
    fed_BT = np.concatenate([prompt_BT, tokens_BN[:, :-1]], axis=1, dtype=np.int32)
    uncached_BNV = np.asarray(reference(fed_BT), np.float32)[:, prompt_BT.shape[1] - 1 :]
    found = compare(tokens_BN, Logits(uncached=uncached_BNV, engine=engine_BNV), dtype)
    return replace(found, extra={**found.extra, "form": name})


def _engine_logits(engine: Engine, prompt_BT: np.ndarray, tokens_BN: np.ndarray) -> np.ndarray | None:
    """Drive prefill and decode steps with given tokens; return logits [B, N, V], ``None`` without such steps."""
    if not isinstance(engine, StepEngine):
        return None
    logits_BV, state = engine.prefill(prompt_BT)
    found = [np.asarray(logits_BV, np.float32)]
    for step in range(tokens_BN.shape[1] - 1):
        logits_BV, state = engine.decode_step(tokens_BN[:, step].astype(np.int32), state)
        found.append(np.asarray(logits_BV, np.float32))
    return np.stack(found, axis=1)
