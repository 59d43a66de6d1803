"""What one pytest session measured, and how a verdict becomes pytest's."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import chain, count
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import pytest

from qwenperf.errors import QwenperfError
from qwenperf.pytest_plugin.globs import Ran
from qwenperf.pytest_plugin.record_files import RecordFiles
from qwenperf.schema.analysis import AotCase
from qwenperf.schema.records import CaseRecord, Outcome, Status, Verdict

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
    """The cases of one session; ``files`` is where ``--qwenperf-out`` wants them.

    ``programs`` are those that were compiled for a chip. ``unjudged`` has a line for each case that passed though a
    gate had nothing to judge it by, and for each budget; ``elsewhere`` one for each record that a worker of
    pytest-xdist wrote; ``failures`` one for each reason why the session fails though its tests pass. ``trouble`` is why
    the last record could not be written; ``broken_off`` says that tests were left that did not come to run.
    """

    files: RecordFiles | None = None
    ran: Ran = field(default_factory=Ran)
    cases: list[CaseRecord] = field(default_factory=list)
    programs: list[AotCase] = field(default_factory=list)
    unjudged: list[str] = field(default_factory=list)
    written: Path | None = None
    elsewhere: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    trouble: str = ""
    broken_off: bool = False

    def add(self, case: CaseRecord) -> None:
        """Keep a case; a second one of the same id gets a number."""
        self.cases.append(replace(case, id=_free(case.id, self.cases)))
        self.ran.cases.append(case.id)
        self.write(interrupted=True)

    def add_programs(self, programs: Iterable[AotCase]) -> None:
        """Keep compiled programs; a second one of the same id gets a number."""
        for program in programs:
            self.programs.append(replace(program, id=_free(program.id, self.programs)))
        self.write(interrupted=True)

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

    def write(self, *, interrupted: bool) -> None:
        """Write all that was measured or compiled so far; nothing of that, nothing written.

        After each case, so that whatever ends the process next takes no other with it. Until the session ends, its
        record says that it was interrupted: what is not whole is not green. What keeps it from being written is trouble
        to be told at the end; a test is not to blame.
        """
        if self.files is None or not (self.cases or self.programs):
            return
        try:
            self.written = self.files.write(self.cases, self.programs, interrupted=interrupted)
        except QwenperfError as error:
            self.trouble = str(error)
        else:
            self.trouble = ""


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
        except InconclusiveWarning:  # an error by -W error; the case is kept, and was measured
            raise
        except Exception as error:
            checks: Any = args[0]
            checks.recorded.crashed(checks.test, question.__name__, error)
            raise

    return asked


def not_judged(verdict: Verdict) -> Verdict:
    """Return a verdict that a test requires, saying so where it was not reached: whoever judges again sees that."""
    from qwenperf.gate.verdict import NOT_JUDGED, with_skip

    return with_skip(verdict, NOT_JUDGED) if verdict.outcome is Outcome.SKIPPED else verdict


def tell(verdicts: Iterable[Verdict], *, subject: str, inconclusive: str, required: Iterable[str]) -> None:
    """Fail the test, or warn, or say nothing. A skipped verdict fails where its gate is in ``required``."""
    __tracebackhide__ = True
    tell_all([(subject, verdicts, required)], inconclusive=inconclusive, level=5)


def tell_all(
    judged: Iterable[tuple[str, Iterable[Verdict], Iterable[str]]], *, inconclusive: str, level: int = 4
) -> None:
    """Tell the verdicts on several subjects, each with the gates that it requires, and fail once for all of them.

    ``level`` says how many calls above this function a warning is to be shown.
    """
    __tracebackhide__ = True
    bad, unsure = [], []
    for subject, verdicts, required in judged:
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
        warnings.warn(text, InconclusiveWarning, stacklevel=level)


def _text(verdict: Verdict, what: str) -> str:
    lines = (f"qwenperf {verdict.gate} {what}: {verdict.summary}", *verdict.detail, verdict.advice)
    return _INDENT.join(line for line in lines if line)
