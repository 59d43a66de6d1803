"""What one pytest session measured, and how a verdict becomes pytest's."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from qwenperf.schema.records import CaseRecord, Outcome, RunRecord, Verdict

_INDENT = "\n    "


class InconclusiveWarning(UserWarning):
    """A timed gate saw too much noise to say yes or no."""


@dataclass(kw_only=True)
class Recorded:
    """The cases of one session; ``out`` is where ``--qwenperf-out`` wants them.

    ``unjudged`` has a line for each case that passed though a gate had nothing to judge it by.
    """

    out: Path | None
    cases: list[CaseRecord] = field(default_factory=list)
    unjudged: list[str] = field(default_factory=list)
    written: Path | None = None

    def add(self, case: CaseRecord) -> None:
        """Keep a case; a second one of the same id gets a number."""
        taken = {known.id for known in self.cases}
        number, name = 1, case.id
        while name in taken:
            number += 1
            name = f"{case.id}#{number}"
        self.cases.append(replace(case, id=name))

    def write(self, root: Path) -> None:
        """Write a new run folder with everything measured; nothing measured, nothing written.

        Raises:
          OutputError: the folder cannot be written to.
        """
        if self.out is None or not self.cases:
            return
        from qwenperf.lab.commit import describe_commit
        from qwenperf.lab.run_folder import create_run_folder, write_text
        from qwenperf.measure import environment
        from qwenperf.schema.codec import dumps

        now = datetime.now(UTC)
        folder = create_run_folder(self.out, now)
        run = RunRecord(
            id=folder.id,
            created_at=now.isoformat(timespec="seconds"),
            suite="pytest",
            environment=environment.describe(),
            commit=describe_commit(root),
            declared=tuple(case.id for case in self.cases),
            cases=tuple(self.cases),
        )
        write_text(folder.record, dumps(run))
        self.written = folder.record


def tell(verdicts: Iterable[Verdict], *, subject: str, inconclusive: str, required: Iterable[str]) -> None:
    """Fail the test, or warn, or say nothing. A skipped verdict fails where its gate is in ``required``."""
    __tracebackhide__ = True
    bad, unsure = [], []
    for verdict in verdicts:
        if verdict.outcome is Outcome.FAIL:
            bad.append(_text(verdict, f"failed for {subject}"))
        elif verdict.outcome is Outcome.SKIPPED and verdict.gate in required:
            bad.append(_text(verdict, f"could not judge {subject}"))
        elif verdict.outcome is Outcome.INCONCLUSIVE:
            unsure.append(_text(verdict, f"is inconclusive for {subject}"))
    if bad or (unsure and inconclusive == "fail"):
        pytest.fail("\n".join([*bad, *unsure]))
    for text in unsure:
        warnings.warn(text, InconclusiveWarning, stacklevel=4)


def _text(verdict: Verdict, what: str) -> str:
    lines = (f"qwenperf {verdict.gate} {what}: {verdict.summary}", *verdict.detail, verdict.advice)
    return _INDENT.join(line for line in lines if line)
