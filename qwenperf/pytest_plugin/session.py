"""What one pytest session measured, and how a verdict becomes pytest's."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import pytest

from qwenperf.schema.analysis import AotCase, AotRecord
from qwenperf.schema.records import CaseRecord, Outcome, RunRecord, Status, Verdict

if TYPE_CHECKING:
    from qwenperf.lab.run_folder import RunFolder

_INDENT = "\n    "

_NO_PROGRAM = (
    "its program is read where decode_step itself is the jitted function, or a functools.partial or method of it"
)
_NOT_JITTED = "it is not jitted, so nothing is compiled but what it calls: hand over the jitted function itself"
_OF_STEPS = "carry-alias"
_OF_PROGRAMS = ("rotary", "cache-alias")

P = ParamSpec("P")
R = TypeVar("R")


class InconclusiveWarning(UserWarning):
    """A timed gate saw too much noise to say yes or no."""


@dataclass(kw_only=True)
class Recorded:
    """The cases of one session; ``out`` is where ``--qwenperf-out`` wants them.

    ``programs`` are those that were compiled for a chip. ``unjudged`` has a line for each case that passed though a
    gate had nothing to judge it by, ``elsewhere`` one for each record that a worker of pytest-xdist wrote.
    """

    out: Path | None
    cases: list[CaseRecord] = field(default_factory=list)
    programs: list[AotCase] = field(default_factory=list)
    unjudged: list[str] = field(default_factory=list)
    written: Path | None = None
    elsewhere: list[str] = field(default_factory=list)

    def add(self, case: CaseRecord) -> None:
        """Keep a case; a second one of the same id gets a number."""
        self.cases.append(replace(case, id=_free(case.id, self.cases)))

    def add_program(self, program: AotCase) -> None:
        """Keep a compiled program; a second one of the same id gets a number."""
        self.programs.append(replace(program, id=_free(program.id, self.programs)))

    def crashed(self, test: str, question: str, error: Exception) -> None:
        """Keep that ``test`` asked ``question`` and got an error: what was asked for and not measured is not green.

        A common mistake that the error means is told with it, here and in the traceback.
        """
        from qwenperf.lab.jax_errors import explain

        text = f"{type(error).__name__}: {error}"
        spec, mistake = {"test": test, "question": question}, explain(error)
        findings = () if mistake is None else (mistake,)
        self.add(CaseRecord(id=f"{test}/{question}", spec=spec, status=Status.FAILED, error=text, findings=findings))

    def skipped(self, test: str, verdicts: Iterable[Verdict], *, wrapped: bool = False, plain: bool = False) -> None:
        """Keep what had nothing to judge.

        ``wrapped`` says that there are an engine's steps and no program of them, ``plain`` that a step is not jitted.
        """
        for verdict in verdicts:
            why = f"; {_NO_PROGRAM}" if wrapped and verdict.gate in _OF_PROGRAMS else ""
            why += f"; {_NOT_JITTED}" if plain and verdict.gate == _OF_STEPS else ""
            self.unjudged.append(f"{test}: {verdict.gate} had nothing to judge: {verdict.summary}{why}")

    @property
    def told(self) -> str:
        """Say in a line or more where the records are."""
        if self.written:
            counts = ((len(self.cases), "case"), (len(self.programs), "program"))
            told = " and ".join(f"{count} {noun}{'s' * (count != 1)}" for count, noun in counts if count)
            return f"{told} in {self.written}"
        return "\nqwenperf: ".join(self.elsewhere) or "nothing was measured, so no record is written"

    def write(self, root: Path) -> None:
        """Write a new run folder with all that was measured or compiled; nothing of that, nothing written.

        Raises:
          OutputError: the folder cannot be written to.
        """
        if self.out is None or not (self.cases or self.programs):
            return
        from qwenperf.lab.commit import describe_commit
        from qwenperf.lab.run_folder import create_run_folder, write_text
        from qwenperf.measure import environment
        from qwenperf.schema.codec import dumps

        now = datetime.now(UTC)
        folder = create_run_folder(self.out, now)
        told = {
            "id": folder.id,
            "created_at": now.isoformat(timespec="seconds"),
            "environment": environment.describe(),
            "commit": describe_commit(root),
        }
        for file, record in self._records(folder, told):
            write_text(file, dumps(record))
            self.written = self.written or file

    def _records(self, folder: RunFolder, told: Mapping[str, Any]) -> Iterator[tuple[Path, RunRecord | AotRecord]]:
        """Yield what there is to write, and where to."""
        if self.cases:
            declared = tuple(case.id for case in self.cases)
            yield folder.record, RunRecord(**told, suite="pytest", declared=declared, cases=tuple(self.cases))
        if self.programs:
            declared = tuple(program.id for program in self.programs)
            yield folder.path / "aot.json", AotRecord(**told, declared=declared, cases=tuple(self.programs))


def _free(name: str, taken: Iterable[CaseRecord | AotCase]) -> str:
    """Return ``name``, or the first of ``name#2``, ``name#3`` and so on that none of ``taken`` has."""
    known = {one.id for one in taken}
    numbered = (f"{name}#{number}" for number in count(2))
    return next(one for one in chain((name,), numbered) if one not in known)


def kept(question: Callable[P, R]) -> Callable[P, R]:
    """Return a question of ``Checks`` that leaves a failed case in the record where it ends in an error."""

    @functools.wraps(question)
    def asked(*args: P.args, **kwargs: P.kwargs) -> R:
        __tracebackhide__ = True
        try:
            return question(*args, **kwargs)
        except Exception as error:
            checks: Any = args[0]
            checks.recorded.crashed(checks.test, question.__name__, error)
            raise

    return asked


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
