"""One greedy request compared with the truth, as a record that gate "tokens" reads. Times nothing."""

from __future__ import annotations

import numpy as np

from qwenperf.adapters import prefix_logits
from qwenperf.decode.engine import Engine, StepEngine
from qwenperf.errors import UsageError
from qwenperf.lab.check import UncachedLogits, check_tokens, find_reference
from qwenperf.lab.divergence import equal_share
from qwenperf.lab.forms import Forms
from qwenperf.lab.logits import first_cell
from qwenperf.schema.records import CaseRecord, Divergence, Evidence, TokenEvidence, metric
from qwenperf.workloads.case import Workload

_NO_TRUTH = (
    "Hand over uncached=, a function from tokens [B, T] to logits [B, T, V] of the whole sequence, or against=, "
    "another engine that you trust."
)


def find_truth(engine: Engine, prompt_length: int) -> UncachedLogits | None:
    """Return uncached logits of ``engine``: its own, or else its prefill on every prefix."""
    found = find_reference(engine)
    if found is None and isinstance(engine, StepEngine):
        return prefix_logits(engine.prefill, start=prompt_length)
    return found


def compare_with_uncached(engine: Engine, workload: Workload, prompt_BT: np.ndarray) -> CaseRecord:
    """Generate once, and compare tokens, and logits of every step where there are steps, with uncached decoding.

    Raises:
      UsageError: nothing to compare with.
    """
    truth = find_truth(engine, workload.prompt_length)
    if truth is None:
        raise UsageError(f"{engine.name} has no uncached logits.", advice=_NO_TRUTH)
    tokens_BN = _generate(engine, workload, prompt_BT)
    divergence = check_tokens(engine, workload, prompt_BT, {"request": tokens_BN}, truth)
    return _record(engine, workload, prompt_BT, tokens_BN, divergence)


def compare_with_engine(engine: Engine, trusted: Engine, workload: Workload, prompt_BT: np.ndarray) -> CaseRecord:
    """Generate once with each and compare the tokens; a trusted engine that gives logits is asked for those."""
    truth = find_truth(trusted, workload.prompt_length)
    tokens_BN = _generate(engine, workload, prompt_BT)
    if truth is not None:
        divergence = check_tokens(engine, workload, prompt_BT, {"request": tokens_BN}, truth)
    else:
        divergence = _first_difference(tokens_BN, _generate(trusted, workload, prompt_BT), trusted.name)
    return _record(engine, workload, prompt_BT, tokens_BN, divergence)


def _generate(engine: Engine, workload: Workload, prompt_BT: np.ndarray) -> np.ndarray:
    forms = Forms(engine=engine, workload=workload, prompt_BT=prompt_BT)
    tokens_BN = forms.request()
    forms.check_tokens(tokens_BN)
    return tokens_BN


def _first_difference(tokens_BN: np.ndarray, trusted_BN: np.ndarray, name: str) -> Divergence:
    """Compare tokens alone: without logits nobody can tell a tie from a bug."""
    different = tokens_BN != trusted_BN
    if not different.any():
        return Divergence(equal=True, reference=name)
    row, position = first_cell(different)
    return Divergence(
        equal=False,
        reference=name,
        row=row,
        position=position,
        expected_token=int(trusted_BN[row, position]),
        actual_token=int(tokens_BN[row, position]),
    )


def _record(
    engine: Engine, workload: Workload, prompt_BT: np.ndarray, tokens_BN: np.ndarray, divergence: Divergence
) -> CaseRecord:
    evidence = TokenEvidence(prompt=_rows(prompt_BT), generated=_rows(tokens_BN))
    return CaseRecord(
        id=f"{engine.name}/{workload.label}",
        spec={"engine": engine.name, "workload": vars(workload)},
        metrics={"tokens_equal": metric("tokens_equal", equal_share(divergence, workload.new_tokens))},
        evidence=Evidence(tokens=evidence, divergence=divergence),
    )


def _rows(tokens: np.ndarray) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(row) for row in tokens.tolist())
