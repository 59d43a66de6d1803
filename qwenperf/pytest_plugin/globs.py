"""Globs of tests in the project's budgets that matched nothing in a session: a typing error would never be noticed.

Only a session that ran everything a glob may mean can tell that it means nothing. A glob that is surely wrong fails the
session; one that may be of tests elsewhere is told; one of tests that somebody left out is not spoken of.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from qwenperf.pytest_plugin.limits import budgeted
from qwenperf.pytest_plugin.project import project_budgets
from qwenperf.schema.records import CaseRecord


@dataclass(kw_only=True)
class Ran:
    """What a session ran: ids of the cases that its questions made, and test files that did not pass as a whole.

    ``chosen`` says that somebody named tests, or left some out.
    """

    cases: list[str] = field(default_factory=list)
    partial: set[str] = field(default_factory=set)
    chosen: bool = False

    def left_out(self, names: Collection[str]) -> None:
        """Keep that the tests ``names`` were not run."""
        self.partial |= {_file(name) for name in names}
        self.chosen = self.chosen or bool(names)

    def join(self, other: Ran) -> None:
        """Add what a worker of pytest-xdist ran."""
        self.cases += other.cases
        self.partial |= other.partial
        self.chosen = self.chosen or other.chosen

    def failed(self, name: str) -> None:
        """Keep that the test ``name`` failed, or was skipped: it may not have come to its questions."""
        self.partial.add(_file(name))


def names_tests(config: pytest.Config) -> bool:
    """Say whether the command line names files or tests, or was given below the project's root."""
    return config.args_source is pytest.Config.ArgsSource.ARGS or config.invocation_params.dir != config.rootpath


def unmatched(root: Path, ran: Ran) -> Iterator[tuple[str, bool]]:
    """Yield a line for each glob of tests that matched no case, and whether that is a failure.

    Raises:
      ConfigError: the project's budgets cannot be read.
    """
    if not ran.cases:
        return
    for finding in project_budgets(root).unmatched_of_tests(ran.cases):
        files = _files(str(finding.data["pattern"]), ran.cases)
        is_whole = bool(files) and ran.partial.isdisjoint(files)
        if is_whole or not ran.chosen:
            yield f"{finding.message} {finding.advice}", is_whole and not ran.chosen


def unasked(root: Path, cases: Sequence[CaseRecord]) -> Iterator[str]:
    """Yield a line for each budget of which no question judged a limit, though it matches cases of the session.

    Raises:
      ConfigError: the project's budgets cannot be read.
    """
    if not cases:
        return
    from qwenperf.gate.budget_set import CaseBudget, matches

    for budget in project_budgets(root).budgets:
        found = [case for case in cases if matches(case.id, budget.pattern)]
        judged = {verdict.gate for case in found for verdict in case.verdicts}
        limits = {limit.metric: CaseBudget(limits={limit.metric: limit}) for limit in budget.limits}
        left = [name for name, one in limits.items() if judged.isdisjoint(budgeted(one))]
        if found and left:
            yield f"no question judged the budget {budget.pattern!r} of {', '.join(left)}: passes does"


def _files(pattern: str, cases: Sequence[str]) -> set[str]:
    """Return the files of tests that asked something and that the glob's part before the first ``::`` matches."""
    return {file for file in map(_file, cases) if fnmatchcase(file, _file(pattern))}


def _file(name: str) -> str:
    return name.partition("::")[0]
