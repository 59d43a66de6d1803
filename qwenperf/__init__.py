"""Performance CI for JAX language-model decoding.

This file is the table of contents: the public names and the rooms they live in. Nothing is imported before
it is asked for, so that ``import qwenperf`` needs no JAX, no Flax and no numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_CONTENTS = {
    # words
    "AotRecord": "qwenperf.schema.analysis",
    "CaseRecord": "qwenperf.schema.records",
    "Evidence": "qwenperf.schema.records",
    "Finding": "qwenperf.schema.records",
    "Metric": "qwenperf.schema.records",
    "Outcome": "qwenperf.schema.records",
    "RunRecord": "qwenperf.schema.records",
    "Verdict": "qwenperf.schema.records",
    "REGISTRY": "qwenperf.schema.metrics",
    "QwenperfError": "qwenperf.errors",
    # what is measured
    "Case": "qwenperf.workloads.case",
    "Workload": "qwenperf.workloads.case",
    "SUITES": "qwenperf.workloads.suites",
    "find_suite": "qwenperf.workloads.suites",
    # judging
    "judge_case": "qwenperf.gate.evaluate",
    "judge_run": "qwenperf.gate.evaluate",
    # with JAX
    "load_model": "qwenperf.models.registry",
    "build_engine": "qwenperf.decode.build",
    "build_generator": "qwenperf.decode.generator",
    "Sampling": "qwenperf.decode.sampling",
    "capture": "qwenperf.decode.hooks",
    "replace": "qwenperf.decode.hooks",
    "Engine": "qwenperf.decode.engine",
    "Options": "qwenperf.lab.options",
    "run_case": "qwenperf.lab.runner",
    "measure_engine": "qwenperf.lab.measure_engine",
    "measure_step": "qwenperf.lab.measure_step",
    "compile_for": "qwenperf.aot.functions",
}

__all__ = sorted([*_CONTENTS, "__version__"])  # noqa: PLE0605  (a computed list; the names are above)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name == "__version__":
        return import_module("importlib.metadata").version("qwenperf")
    if name in _CONTENTS:
        return getattr(import_module(_CONTENTS[name]), name)
    raise AttributeError(f"module 'qwenperf' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names."""
    return list(__all__)
