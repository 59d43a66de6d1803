"""What a comparison compares: a side is a tree of code, an interpreter to run it with, and perhaps another engine."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from qwenperf.lab import process
from qwenperf.lab.own_tree import VARIABLE, OwnTree
from qwenperf.measure.measuring_lock import FOLDER, WAIT
from qwenperf.schema.comparison import SideRecord
from qwenperf.settings import SERVICE_VARIABLES
from qwenperf.workloads.approximate import approximations
from qwenperf.workloads.case import Case
from qwenperf.workloads.engine import parse_engine
from qwenperf.workloads.factory import is_factory

_OURS = ("PYTHONHOME", "VIRTUAL_ENV", FOLDER, WAIT, *SERVICE_VARIABLES)
"""Variables of our own interpreter, which another one must not follow; of our lock and of services, which older code
refuses, secrets among them that a side has no use for."""

_SHARED = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
"""Both sides are alive at once: neither may take most of an accelerator's memory when it starts."""

_WITH_CACHE = {
    "JAX_ENABLE_COMPILATION_CACHE": "true",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES": "none",
}
"""A persistent cache that keeps the smallest program too. XLA's own caches would put its folder into every key."""


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
      tree: where somebody's own engines come from, if not from what is installed.
      instead: what this side calls otherwise, by the id of the case.
      paths: folders below ``root`` with engines that lie beside the package, before all that is installed.
      beside: the code in ``root`` where ``paths`` are of it, of which nothing may be the checkout's.
    """

    name: str
    label: str
    kind: str
    root: Path
    python: str
    engine: str | None = None
    commit: Mapping[str, Any] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)
    tree: OwnTree | None = None
    paths: tuple[Path, ...] = ()
    beside: OwnTree | None = None
    instead: Mapping[str, Case] = field(default_factory=dict)

    def cases(self, cases: Sequence[Case]) -> list[dict[str, Any]]:
        """Return the cases as this side's process gets them: the id stays, the engine may be another."""
        return [{"id": case.id, "case": self.own(case).to_json()} for case in cases]

    def own(self, case: Case) -> Case:
        """Return what this side measures as ``case``: by another name of its own, or with its own engine."""
        case = self.instead.get(case.id, case)
        return case if self.engine is None else replace(case, engine=self.engine)

    def approximate(self, case: Case) -> dict[str, float]:
        """Return the approximate settings of the engine that this side measures for ``case``: its tokens may differ."""
        engine = self.own(case).engine
        return {} if is_factory(engine) else approximations(parse_engine(engine))

    def command(self, cases: Sequence[Case], cores: int | None = None, known: Sequence[str] = ()) -> list[str]:
        """Return the command of this side's process; of ``known`` cases it need not say again what never changes."""
        spec: dict[str, Any] = {
            "root": str(self.root),
            "cases": self.cases(cases),
            "cores": cores,
            "known": list(known),
        }
        trees = {"tree": self.tree, "beside": self.beside}
        spec |= {name: tree.to_json() for name, tree in trees.items() if tree is not None}
        return [self.python, "-P", "-m", "qwenperf.lab.pair_worker", json.dumps(spec)]

    def child_environ(self, environ: Mapping[str, str], cache: Path | None = None) -> dict[str, str]:
        """Return the environment of this side's process: its own tree first, then the caller's.

        Compiled programs are kept in ``cache`` and found there again; without one the persistent cache is off.
        """
        kept = {name: value for name, value in process.measuring_environ(environ).items() if name not in _OURS}
        if cache is not None:
            # JAX's keys hold program, flags and versions; interpreters are kept apart all the same.
            interpreter = hashlib.sha256(self.python.encode()).hexdigest()[:8]
            kept |= _WITH_CACHE | {"JAX_COMPILATION_CACHE_DIR": str(cache / interpreter)}
        kept |= {} if self.tree is None else {VARIABLE: json.dumps(self.tree.to_json())}
        own = dict.fromkeys((self.root, *self.paths))
        paths = [*map(str, own), *filter(None, [environ.get("PYTHONPATH")])]
        return _SHARED | kept | {"PYTHONPATH": os.pathsep.join(paths)} | dict(self.environ)

    def record(self) -> SideRecord:
        """Return what the comparison keeps of the side before it has run."""
        extra = {"engine": self.engine} if self.engine else {}
        extra |= {"tree": str(self.tree.root)} if self.tree else {}
        return SideRecord(label=self.label, kind=self.kind, commit=self.commit, extra=extra)
