"""The sides of a bisection: a commit is built and asked for its cases once, whatever comes of it."""

from pathlib import Path

import pytest

from qwenperf.errors import MeasurementError, UnknownNameError, UsageError
from qwenperf.lab import bisect_sides
from qwenperf.lab.bisect_sides import Sides
from qwenperf.lab.sides import Side
from qwenperf.workloads.case import Case, Workload

CASE = Case(model="tiny", engine="cached", workload=Workload(prompt_length=4, new_tokens=8))


class Builds:
    """A repository that counts what is built of it."""

    def __init__(self):
        self.built = []

    def side(self, name, revision):
        """Return the side of a commit; one is no commit, of one the environment cannot be made."""
        self.built.append(revision)
        if revision == "unexported":
            raise UsageError("git archive: a submodule is missing.")
        if revision == "broken":
            raise MeasurementError("its lock cannot be installed.")
        return Side(name=name, label=revision, kind="revision", root=Path(revision), python="python")


@pytest.fixture
def sides(monkeypatch):
    """Return sides of commits that have the case, but for ``other``, and all import but ``unimported``."""

    def check_package(side):
        if side.label == "unimported":
            raise MeasurementError("unimported does not import: no module named jax.")

    def declared(side, _arguments):
        return {} if side.label == "other" else {CASE.id: CASE}

    monkeypatch.setattr(bisect_sides, "check_package", check_package)
    monkeypatch.setattr(bisect_sides, "declared", declared)
    return Sides(repository=Builds(), case=CASE.id, arguments=())


def test_a_commit_is_built_once_however_often_it_is_asked_about(sides):
    """Its case is known from then on."""
    first = sides("good")
    assert sides("good") is first
    assert sides.case_of("good") == CASE
    assert sides.repository.built == ["good"]


@pytest.mark.parametrize(
    ("sha", "told"),
    [
        ("unexported", "a submodule is missing"),
        ("broken", "its lock cannot be installed"),
        ("unimported", "no module named jax"),
        ("other", f"does not have the case {CASE.id}"),
    ],
)
def test_what_cannot_be_built_says_so_each_time_and_is_tried_once(sides, sha, told):
    """A search skips it."""
    for _ in range(2):
        with pytest.raises(MeasurementError, match=told):
            sides(sha)
    assert sides.repository.built == [sha]


def test_an_end_without_the_case_is_refused_before_anything_is_measured(sides):
    """With the option that named it; one that is fine is not built again."""
    sides.check_end("good", "--good")
    sides("good")
    assert sides.repository.built == ["good"]
    with pytest.raises(UnknownNameError, match="case of --bad other"):
        sides.check_end("other", "--bad")
    with pytest.raises(MeasurementError, match=r"--bad broken cannot be built: its lock"):
        sides.check_end("broken", "--bad")
