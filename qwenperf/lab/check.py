"""Tokens and logits of an engine against uncached ones of the same model. Asks the engine; ``divergence`` compares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from qwenperf.adapters.prompt import logits_and_state
from qwenperf.decode.engine import Engine, ReferencedEngine, StepEngine
from qwenperf.errors import MeasurementError
from qwenperf.lab.divergence import NOT_OWN_CHOICE, compare, of_rows, worse
from qwenperf.lab.logits import Logits
from qwenperf.lab.rounding import products_here
from qwenperf.schema.records import Divergence
from qwenperf.workloads.case import Workload

MOST_BYTES = 1 << 30
"""Logits of a batch that take more are asked for and compared row by row: comparing holds several times as many."""

_UNCACHED = "Return logits [B, T, V]: those of every position, for all tokens that are handed over."

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
    """Compare every form's tokens with uncached decoding, and the steps' logits for the same tokens.

    ``generated`` holds tokens [B, N] by form (``request``, ``stream``); logits are compared once for forms that agree.
    Each form is held to the truth; the worst is reported, with its name in ``extra``: a tie in one excuses no other.
    The largest error of a logit and tokens that are not the engine's own choice are told whichever form has them.

    Raises:
      MeasurementError: forms of different shapes, or logits that are none.
    """
    first, *others = generated.items()
    engine_logits = _engine_logits(engine, prompt_BT, first[1]) if logit_check else None
    worst = _compare(first, prompt_BT, reference, engine_logits, workload.dtype)
    for form, tokens_BN in others:
        if tokens_BN.shape != first[1].shape:
            seen = f"the {form} has tokens {list(tokens_BN.shape)} and the {first[0]} {list(first[1].shape)}"
            raise MeasurementError(f"{engine.name}: {seen}.", advice="All forms of one request give as many tokens.")
        if not np.array_equal(tokens_BN, first[1]):
            engine_logits = _engine_logits(engine, prompt_BT, tokens_BN) if logit_check else None
            found = _compare((form, tokens_BN), prompt_BT, reference, engine_logits, workload.dtype)
            worst = worse(worst, found)
    return worst


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
    parts = _parts(fed_BT, engine_BNV)
    ask = partial(_compare_part, reference=reference, engine_BNV=engine_BNV, dtype=dtype)
    found = of_rows([ask(part, fed_BT, tokens_BN) for part in parts])
    stray = found.extra.get(NOT_OWN_CHOICE)
    told = {NOT_OWN_CHOICE: {**stray, "form": name}} if stray else {}
    return replace(found, extra={**found.extra, **told, "form": name})


def _parts(fed_BT: np.ndarray, engine_BNV: np.ndarray | None) -> list[slice]:
    """Return the rows that are compared at a time: all, or one where all at once would take too much memory."""
    size = 0 if engine_BNV is None else fed_BT.size * engine_BNV.shape[-1] * engine_BNV.itemsize
    return [slice(None)] if size <= MOST_BYTES else [slice(row, row + 1) for row in range(len(fed_BT))]


def _compare_part(
    rows: slice,
    fed_BT: np.ndarray,
    tokens_BN: np.ndarray,
    *,
    reference: UncachedLogits,
    engine_BNV: np.ndarray | None,
    dtype: str,
) -> Divergence:
    tokens, engine = tokens_BN[rows], None if engine_BNV is None else engine_BNV[rows]
    uncached = _uncached(reference, fed_BT[rows])[:, fed_BT.shape[1] - tokens.shape[1] :]
    if engine is not None and engine.shape != uncached.shape:
        seen = f"the steps gave logits {list(engine.shape)}, uncached gave {list(uncached.shape)}"
        raise MeasurementError(f"{seen} for the same tokens.", advice="Both are [B, N, V] of one vocabulary.")
    return compare(tokens, Logits(uncached=uncached, engine=engine), products_here(dtype))


def _uncached(reference: UncachedLogits, fed_BT: np.ndarray) -> np.ndarray:
    """Return the truth's logits [B, T, V].

    Raises:
      MeasurementError: anything else; says what was seen.
    """
    result = reference(fed_BT)
    try:
        logits_BTV = np.asarray(result, np.float32)
    except (TypeError, ValueError) as error:
        seen = f"uncached returned a {type(result).__name__}, which is no array of logits"
        raise MeasurementError(f"{seen}.", advice=_UNCACHED) from error
    if logits_BTV.ndim != 3 or logits_BTV.shape[:2] != fed_BT.shape or logits_BTV.shape[2] == 0:
        seen = f"logits of shape {list(logits_BTV.shape)} for tokens {list(fed_BT.shape)}"
        raise MeasurementError(f"uncached returned {seen}.", advice=_UNCACHED)
    return logits_BTV


def _engine_logits(engine: Engine, prompt_BT: np.ndarray, tokens_BN: np.ndarray) -> np.ndarray | None:
    """Drive prefill and decode steps with given tokens; return logits [B, N, V], ``None`` without such steps."""
    if not isinstance(engine, StepEngine):
        return None
    logits_BV, state = logits_and_state(engine.prefill(prompt_BT), f"{engine.name}.prefill")
    first_BV = np.asarray(logits_BV, np.float32)
    if first_BV.ndim != 2:
        seen = f"{engine.name}.prefill returned logits {list(first_BV.shape)}"
        raise MeasurementError(f"{seen}.", advice="Return those of the last position, [B, V].")
    # One array from the start: a list of steps, stacked at the end, would be held twice.
    found_BNV = np.empty((len(first_BV), tokens_BN.shape[1], first_BV.shape[-1]), np.float32)
    found_BNV[:, 0] = first_BV
    for step in range(1, tokens_BN.shape[1]):
        result = engine.decode_step(tokens_BN[:, step - 1].astype(np.int32), state)
        logits_BV, state = logits_and_state(result, f"{engine.name}.decode_step")
        if np.shape(logits_BV) != first_BV.shape:
            seen = f"{engine.name}.decode_step returned logits {list(np.shape(logits_BV))}"
            raise MeasurementError(f"{seen} after {list(first_BV.shape)} of its prefill.", advice="Return [B, V].")
        found_BNV[:, step] = logits_BV
    return found_BNV
