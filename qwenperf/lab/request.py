"""One request to somebody's engine: made of what people have at hand, and measured in this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qwenperf.adapters import as_engine
from qwenperf.adapters.prompt import as_tokens
from qwenperf.decode.engine import Engine
from qwenperf.lab.agreement import find_truth
from qwenperf.lab.check import UncachedLogits
from qwenperf.lab.growth import find_growth
from qwenperf.lab.measure_engine import measure_engine
from qwenperf.lab.options import Options
from qwenperf.measure import environment
from qwenperf.measure.clock import Clock
from qwenperf.measure.compiles import CompileLog
from qwenperf.measure.roofline import measure_roofline
from qwenperf.schema.records import CaseRecord
from qwenperf.workloads.case import Workload


@dataclass(frozen=True, kw_only=True)
class Request:
    """An engine, a prompt, and how much is asked."""

    engine: Engine
    prompt_BT: np.ndarray  # noqa: N815 -- the house's notation for shapes
    workload: Workload


def make_request(
    subject: Any, prompt: Any, new_tokens: int, *, uncached: UncachedLogits | None = None, dtype: str = "f32"
) -> Request:
    """Return a request to whatever ``adapters.as_engine`` takes.

    Raises:
      UsageError: ``subject`` is no engine.
      TokenError: ``prompt`` is none.
      ConfigError: fewer than 2 new tokens.
    """
    prompt_BT = as_tokens(prompt)
    batch, length = prompt_BT.shape
    workload = Workload(prompt_length=length, new_tokens=new_tokens, batch=batch, dtype=dtype)
    return Request(engine=as_engine(subject, uncached=uncached), prompt_BT=prompt_BT, workload=workload)


def measure_request(
    request: Request,
    *,
    trials: int,
    case_id: str,
    spec: Mapping[str, Any],
    check: bool,
    prompts: Iterator[np.ndarray] | None = None,
) -> CaseRecord:
    """Measure a request in phases, against the roofline of this machine; ``check`` compares its tokens too.

    ``prompts`` are those of the timed trials, see ``measure_engine``. The record has no cold times: they belong to a
    process that has run nothing yet.

    Raises:
      EnvironmentUnfitError: JAX is set to debug.
      MeasurementError: the engine returned something that is no answer.
    """
    seen = environment.describe()
    environment.check_fit(seen)
    truth = find_truth(request.engine, request.workload.prompt_length) if check else None
    fingerprint = environment.fingerprint(seen)
    with CompileLog() as log:
        case = measure_engine(
            request.engine,
            request.workload,
            request.prompt_BT,
            log=log,
            clock=Clock(log),
            options=Options(trials=trials),
            case_id=case_id,
            spec=spec,
            reference=truth,
            roofline=lambda: measure_roofline(fingerprint),
            prompts=prompts,
        )
    # Cold is the first request of a fresh process, and this one has run whatever its caller wanted.
    case = replace(case, metrics={name: value for name, value in case.metrics.items() if not name.startswith("cold_")})
    if not check:
        return case
    growth = find_growth(request.engine, request.prompt_BT, request.workload.new_tokens)
    return replace(case, findings=case.findings + growth)
