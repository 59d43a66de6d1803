"""The sides of a bisection: each commit is exported, given an environment and asked for the case once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from qwenperf.errors import MeasurementError, UnknownNameError, UsageError
from qwenperf.lab.inventory import declared
from qwenperf.lab.revisions import Repository
from qwenperf.lab.side_command import check_package
from qwenperf.lab.sides import Side
from qwenperf.workloads.case import Case


@dataclass(kw_only=True)
class Sides:
    """Makes the side of a commit. ``arguments`` of ``qwenperf run`` choose ``case``; ``say`` is told what is built."""

    repository: Repository
    case: str
    arguments: Sequence[str]
    say: Callable[[str], None] = lambda _text: None
    _made: dict[str, Side | MeasurementError] = field(default_factory=dict)
    _listed: dict[str, dict[str, Case]] = field(default_factory=dict)

    def __call__(self, sha: str) -> Side:
        """Return the side of a commit.

        Raises:
          MeasurementError: it cannot be built, or does not have the case; says so again whenever it is asked for.
        """
        if sha not in self._made:
            self._made[sha] = self._make(sha)
        made = self._made[sha]
        if isinstance(made, MeasurementError):
            raise made
        return made

    def case_of(self, sha: str) -> Case:
        """Return the case as a commit declares it; errors as the call."""
        self(sha)
        return self._listed[sha][self.case]

    def check_end(self, sha: str, option: str) -> None:
        """Refuse an end of the search that has no such case, before anything is measured.

        Raises:
          UsageError: its code does not know the case; offers the nearest.
          MeasurementError: it cannot be built.
        """
        try:
            side = self._built(sha)
        except MeasurementError as error:
            raise MeasurementError(f"{option} {sha[:10]} cannot be built: {error.message}") from error
        try:
            known = declared(side, self.arguments)
        except MeasurementError as error:
            said = error.message.rpartition("qwenperf: error: ")[2]
            raise UsageError(f"{option} {sha[:10]} does not have the case {self.case}: {said}") from error
        if self.case not in known:
            raise UnknownNameError(f"case of {option} {sha[:10]}", self.case, known)
        self._listed[sha], self._made[sha] = known, side

    def _make(self, sha: str) -> Side | MeasurementError:
        try:
            side = self._built(sha)
            known = declared(side, self.arguments)
        except MeasurementError as error:
            return error
        if self.case not in known:
            return MeasurementError(f"it does not have the case {self.case}.")
        self._listed[sha] = known
        return side

    def _built(self, sha: str) -> Side:
        self.say(f"building {sha[:10]}")
        try:
            side = replace(self.repository.side("head", sha), label=sha[:10])
        except UsageError as error:  # git cannot export it
            raise MeasurementError(error.message) from error
        check_package(side)
        return side
