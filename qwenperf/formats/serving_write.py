"""Runs as results of vLLM's and SGLang's serving benchmarks: one object, or a line each.

A run that came from there is written as it was. Of our own cases those numbers are written that these tools have too,
with what a batch of requests at once means to them; they are an engine's, without a server and a network.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from qwenperf.errors import FormatError
from qwenperf.formats.foreign import source_of
from qwenperf.formats.place import Document, to_text
from qwenperf.formats.serving import SGLANG, VLLM, Tool
from qwenperf.schema.records import CaseRecord, Metric, RunRecord, Status

OURS: Mapping[str, tuple[str, float]] = {
    "median_ttft_ms": ("ttft_s", 1e3),
    "median_tpot_ms": ("tpot_s", 1e3),
    "median_itl_ms": ("itl_p50_s", 1e3),
    "p99_itl_ms": ("itl_p99_s", 1e3),
    "output_throughput": ("request_tokens_per_s", 1.0),
}
"""By key of these tools, our metric and what to multiply it by."""

_COUNTED = {"requests", "tokens"}


def _write(runs: Sequence[RunRecord], tool: Tool) -> tuple[Document, ...]:
    """Return one document: an object, or a line each where there are several.

    Raises:
      FormatError: a case has none of these tools' numbers.
    """
    results = [
        _as_it_was(case) if source_of(run, tool.name) else _ours(run, case, tool)
        for run in runs
        for case in run.cases
        if case.status is Status.MEASURED
    ]
    if not results:
        raise FormatError("there is no measured case to write.", advice="Nothing would be in the file.")
    if len(results) == 1:
        return (Document(name="", text=to_text(results[0])),)
    lines = [json.dumps(result, allow_nan=False) + "\n" for result in results]
    return (Document(name="", text="".join(lines)),)


write_vllm: Callable[[Sequence[RunRecord]], tuple[Document, ...]] = partial(_write, tool=VLLM)
write_sglang: Callable[[Sequence[RunRecord]], tuple[Document, ...]] = partial(_write, tool=SGLANG)


def _as_it_was(case: CaseRecord) -> dict[str, Any]:
    metrics = {name: _number(one) for name, one in case.metrics.items()}
    return {**case.spec, **metrics, **case.extra.get("detail", {})}


def _number(one: Metric) -> float:
    return int(one.value) if one.unit in _COUNTED and one.value == int(one.value) else one.value


def _ours(run: RunRecord, case: CaseRecord, tool: Tool) -> dict[str, Any]:
    workload, request = case.spec.get("workload"), case.metrics.get("request_s")
    numbers = {key: case.metrics[name].value * scale for key, (name, scale) in OURS.items() if name in case.metrics}
    if not isinstance(workload, Mapping) or request is None or not numbers:
        raise FormatError(
            f"{case.id} has no requests of known size and time, which {tool.name}'s results are about.",
            advice="Choose cases of `qwenperf run`, or another format.",
        )
    batch = int(workload["batch"])
    sizes = {
        "total_input_tokens": batch * workload["prompt_length"],
        "total_output_tokens": batch * workload["new_tokens"],
    }
    asked = {"backend": "qwenperf", "request_rate": "inf", "max_concurrency": batch, "num_prompts": batch}
    named = {"model_id": case.spec.get("model"), "label": case.id, "endpoint_type": "qwenperf"}
    named |= {"tokenizer_id": None, "burstiness": 1.0}
    theirs = named if tool is VLLM else {"tag": case.id, "dataset_name": "random"}
    measured = {"duration": request.value, "completed": batch, **sizes, "request_throughput": batch / request.value}
    return {**asked, **theirs, **measured, **numbers, "measured_by": f"qwenperf run {run.id}"}
