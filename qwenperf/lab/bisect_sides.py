"""The sides of a bisection: each commit is exported, given an environment and asked for the case once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from qwenperf.errors import EnvironmentUnfitError, MeasurementError, OutputError, UnknownNameError, UsageError
from qwenperf.lab.engine_files import engine_file
from qwenperf.lab.engine_paths import with_engine_paths
from qwenperf.lab.inventory import declared
from qwenperf.lab.own_sides import OwnSides
from qwenperf.lab.revisions import Repository
from qwenperf.lab.side_command import check_package
from qwenperf.lab.sides import Side
from qwenperf.workloads.case import Case
from qwenperf.workloads.factory import is_factory


@dataclass(frozen=True, kw_only=True)
class Own:
    """A repository of somebody's own: ``sides`` takes the engine of ``case`` from a commit's files."""

    sides: OwnSides
    case: Case


@dataclass(kw_only=True)
class Sides:
    """Makes the side of a commit. ``arguments`` of ``qwenperf run`` choose ``case``; ``say`` is told what is built.

    ``own``: commits hold somebody's engine and not this package, which is the installed one for all of them.
    """

    repository: Repository
    case: str
    arguments: Sequence[str]
    say: Callable[[str], None] = lambda _text: None
    own: Own | None = None
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
          UsageError: its code does not know the case, and offers the nearest, or has no such engine.
          EnvironmentUnfitError: somebody's engine is imported from elsewhere than the commit's files.
          MeasurementError: it cannot be built.
        """
        end = f"{option} {sha[:10]}"
        try:
            side = self._built(sha)
        except MeasurementError as error:
            raise MeasurementError(f"{end} cannot be built: {error.message}") from error
        try:
            known = self._cases(side)
            side = self._with_engine(side, known)
        except MeasurementError as error:
            said = error.message.rpartition("qwenperf: error: ")[2]
            raise UsageError(f"{end} does not have the case {self.case}: {said}") from error
        except EnvironmentUnfitError as error:
            raise EnvironmentUnfitError(f"{end}: {error.message}", advice=error.advice) from error
        except UsageError as error:
            advice = f"Give a commit that has it as {option}. {error.advice}"
            raise UsageError(f"{end}: {error.message}", advice=advice) from error
        if self.case not in known:
            raise UnknownNameError(f"case of {end}", self.case, known)
        self._listed[sha], self._made[sha] = known, side

    def _make(self, sha: str) -> Side | MeasurementError:
        try:
            side = self._built(sha)
        except MeasurementError as error:
            return error
        try:
            known = self._cases(side)
            side = self._with_engine(side, known)
        except (MeasurementError, UsageError, EnvironmentUnfitError) as error:
            return MeasurementError(error.message)
        if self.case not in known:
            return MeasurementError(f"it does not have the case {self.case}.")
        self._listed[sha] = known
        return side

    def _with_engine(self, side: Side, known: Mapping[str, Case]) -> Side:
        """Return ``side`` with its commit's copy of an engine that lies beside the package."""
        engine = known[self.case].engine if self.case in known else ""
        if self.own is not None or not is_factory(engine):
            return side
        made, files = with_engine_paths(side, [engine], self.repository.root, Path.cwd())
        for name, file in files.items():
            self.say(f"{side.label}: {name} from {file}")
        return made

    def _built(self, sha: str) -> Side:
        self.say(f"building {sha[:10]}")
        try:
            side = replace(self.repository.side("head", sha), label=sha[:10])
        except OutputError:  # nor could any other commit be
            raise
        except UsageError as error:  # git cannot export it
            raise MeasurementError(error.message) from error
        if self.own is not None:
            return self.own.sides.side(side)
        check_package(side)
        return side

    def _cases(self, side: Side) -> dict[str, Case]:
        """Return the cases of a side by id: those that it lists, or the one of somebody's engine once it was imported.

        Raises:
          MeasurementError: the side does not list its cases, or its process does not answer.
          UsageError: its files have no such engine, or one that does not import.
          EnvironmentUnfitError: the engine is imported from elsewhere.
        """
        if self.own is None:
            return declared(side, self.arguments)
        engine = self.own.case.engine
        self.say(f"{side.label}: {engine} from {engine_file(side, engine)}")
        return {self.own.case.id: self.own.case}
