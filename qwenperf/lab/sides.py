"""What a comparison compares: a side is a tree of code, an interpreter to run it with, and perhaps another engine."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from qwenperf.schema.comparison import SideRecord
from qwenperf.workloads.case import Case
from qwenperf.workloads.engine import engine_name, parse_engine


@dataclass(frozen=True, kw_only=True)
class Side:
    """One side.

    Attributes:
      name: ``base`` or ``head``.
      label: what people call it: a revision, an engine, a version of JAX.
      root: the folder that holds the package.
      python: the interpreter whose environment it runs in.
      engine: measured instead of each case's own engine; cases keep their ids, so that both sides have the same.
      commit: where ``root`` comes from, as data.
      environ: variables that this side alone gets.
    """

    name: str
    label: str
    kind: str
    root: Path
    python: str
    engine: str | None = None
    commit: Mapping[str, Any] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)

    def cases(self, cases: Sequence[Case]) -> list[dict[str, Any]]:
        """Return the cases as this side's process gets them: the id stays, the engine may be another."""
        return [{"id": case.id, "case": self._own(case).to_json()} for case in cases]

    def _own(self, case: Case) -> Case:
        return case if self.engine is None else replace(case, engine=engine_name(parse_engine(self.engine)))

    def command(self, cases: Sequence[Case], threads: int | None = None) -> list[str]:
        """Return the command of this side's process."""
        spec = {"root": str(self.root), "cases": self.cases(cases), "cores": threads}
        return [self.python, "-P", "-m", "qwenperf.lab.pair_worker", json.dumps(spec)]

    def child_environ(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of this side's process: its own tree first, no persistent cache."""
        dropped = {"JAX_COMPILATION_CACHE_DIR", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
        kept = {name: value for name, value in environ.items() if name not in dropped}
        ours = {"JAX_ENABLE_COMPILATION_CACHE": "false", "PYTHONPATH": str(self.root)}
        return kept | ours | dict(self.environ)

    def record(self) -> SideRecord:
        """Return what the comparison keeps of the side before it has run."""
        extra = {"engine": self.engine} if self.engine else {}
        return SideRecord(label=self.label, kind=self.kind, commit=self.commit, extra=extra)
