"""The question ``compiles_for``: a function compiled for chips, judged by the limits of a test and of its project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from qwenperf.aot.functions import compile_for
from qwenperf.gate.aot import judge
from qwenperf.gate.aot_budget import KEYS
from qwenperf.gate.aot_facts import FACTS
from qwenperf.gate.verdict import NOT_JUDGED, skip_reason
from qwenperf.measure import environment
from qwenperf.pytest_plugin.project import program_budgets
from qwenperf.schema.analysis import AotCase, AotRecord
from qwenperf.schema.metrics import Direction


def judged(
    targets: str | Sequence[str],
    step: Any,
    *args: Any,
    test: str,
    root: Path,
    limits: Mapping[str, Any],
    told: Mapping[str, Any],
) -> AotRecord:
    """Return the judged record of ``step``; its programs are named after the test, for the project's budgets.

    Raises:
      ConfigError: a limit that is no fact of programs; offers the nearest.
      EnvironmentUnfitError: JAX is set to debug, and donates nothing then.
    """
    environment.check_fit()
    own = {name: _limit(name, value) for name, value in limits.items()}
    program_budgets(root, (), own)  # a limit that is mistyped is found before anything is compiled
    record = compile_for(step, *args, targets=targets, **told)
    cases = tuple(replace(case, id=f"{test}/{case.id}") for case in record.cases)
    named = replace(record, cases=cases, declared=tuple(case.id for case in cases))
    return judge(named, program_budgets(root, named.declared, own))


def must_judge(case: AotCase) -> tuple[str, ...]:
    """Return the gates that may not be skipped: of a program that nobody compiled all, else those of a limit."""
    return tuple(
        verdict.gate for verdict in case.verdicts if case.program is None or skip_reason(verdict) == NOT_JUDGED
    )


def _limit(name: str, value: Any) -> Any:
    """Return a limit as budgets write it; what is no fact is left to them to refuse."""
    if name in KEYS or isinstance(value, Mapping) or name not in FACTS:
        return value
    return {"min" if FACTS[name].direction is Direction.HIGHER else "max": value}
