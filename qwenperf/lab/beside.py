"""Engines measured beside each other: a trial of each in turn, so that the machine's drift meets all of them alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qwenperf.decode.engine import EngineFacts, SizedEngine
from qwenperf.lab import metrics as formulas
from qwenperf.lab.prompts import other_prompts
from qwenperf.lab.request import Request, measure_request
from qwenperf.measure.measuring_lock import one_measurement
from qwenperf.schema.records import CaseRecord, Metric, StreamEvidence

_OF_DECODING = ("tpot_s", "decode_tokens_per_s", "mbu", "mfu")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request, and what its record is called."""

    request: Request
    case_id: str
    spec: Mapping[str, Any]


@one_measurement()
def measure_in_turn(asked: Sequence[Asked], *, trials: int) -> list[CaseRecord]:
    """Measure all of ``asked`` once, then all again, ``trials`` times; return one record for each, tokens unchecked.

    Each turn times prompts that no turn before has asked for: who keeps answers is measured at work.
    """
    prompts = [other_prompts(one.request.prompt_BT) for one in asked]
    rounds = [[_measure(*each) for each in zip(asked, prompts, strict=True)] for _ in range(trials)]
    return [_merged(one.request, records) for one, records in zip(asked, zip(*rounds, strict=True), strict=True)]


def _measure(one: Asked, prompts: Iterator[np.ndarray]) -> CaseRecord:
    return measure_request(one.request, trials=1, case_id=one.case_id, spec=one.spec, check=False, prompts=prompts)


def _merged(request: Request, rounds: Sequence[CaseRecord]) -> CaseRecord:
    """Return the first round's record with the readings of all rounds; a void trial leaves its round out."""
    first = rounds[0]
    timed = [case.metrics for case in rounds if {"request_s", "ttft_s"} <= case.metrics.keys()]
    stream = _stream([case.evidence.stream for case in rounds if case.evidence.stream is not None])
    evidence = replace(
        first.evidence,
        compiles=tuple(event for case in rounds for event in case.evidence.compiles),
        voids=tuple(void for case in rounds for void in case.evidence.voids),
        stream=stream,
    )
    # What one round says of decoding alone is replaced, or taken back where all rounds have nothing to say.
    kept = {name: value for name, value in first.metrics.items() if name not in _OF_DECODING}
    metrics = {**kept, **_metrics(request, first, timed)}
    if stream is not None:
        metrics |= dict(formulas.stream_metrics(stream))
    return replace(first, metrics=metrics, evidence=evidence)


def _metrics(request: Request, first: CaseRecord, timed: Sequence[Mapping[str, Metric]]) -> dict[str, Metric]:
    if not timed:
        return {}
    work, engine, facts = request.workload, request.engine, EngineFacts()
    if isinstance(engine, SizedEngine):
        facts = engine.facts(work.batch, work.prompt_length, work.new_tokens)
    request_s, ttft_s = ([value for one in timed for value in one[name].samples] for name in ("request_s", "ttft_s"))
    return {
        **dict(formulas.request_metrics(work, request_s)),
        **dict(formulas.first_token_metrics(work, ttft_s)),
        **dict(formulas.decode_metrics(work, request_s, ttft_s, facts, first.evidence.roofline)),
    }


def _stream(streams: Sequence[StreamEvidence]) -> StreamEvidence | None:
    if not streams:
        return None
    return replace(streams[0], step_s=tuple(trial for stream in streams for trial in stream.step_s))
