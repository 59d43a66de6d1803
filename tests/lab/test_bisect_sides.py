"""The sides of a bisection: a commit is built and asked for its cases once, whatever comes of it."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from qwenperf.errors import EnvironmentUnfitError, MeasurementError, UnknownNameError, UsageError
from qwenperf.lab import bisect_sides
from qwenperf.lab.bisect_sides import Own, Sides
from qwenperf.lab.own_sides import OwnSides
from qwenperf.lab.own_tree import VARIABLE
from qwenperf.lab.side_command import run_side
from qwenperf.lab.sides import Side
from qwenperf.schema.codec import dumps
from qwenperf.schema.records import CaseRecord, RunRecord, metric
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


THEIRS = replace(CASE, engine="theirs:make")


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Return sides of somebody's own repository, and a folder with a folder for each of its commits."""

    def engine_file(side, engine):
        file = side.tree.root / "src" / "theirs.py"
        if not file.is_file():
            raise UsageError(f"engine {engine}: no module.", advice="Commit it.")
        if file.read_text() == "elsewhere":
            raise EnvironmentUnfitError(f"engine {engine}: imported from elsewhere.")
        return str(file)

    class Trees:
        def side(self, name, revision):
            return Side(name=name, label=revision, kind="revision", root=tmp_path / revision, python="other")

    for name, text in {"good": "", "other": "", "lost": None, "elsewhere": "elsewhere"}.items():
        (tmp_path / name / "src").mkdir(parents=True)
        if text is not None:
            (tmp_path / name / "src" / "theirs.py").write_text(text)
    monkeypatch.setattr(bisect_sides, "engine_file", engine_file)
    checkout = tmp_path / "checkout"
    made = OwnSides(checkout=checkout, here=checkout / "part", engines=("theirs:make",), package=tmp_path / "ours")
    return Sides(repository=Trees(), case=THEIRS.id, arguments=(), own=Own(sides=made, case=THEIRS)), tmp_path


def test_a_commit_of_somebody_s_own_is_measured_by_our_package_with_its_engine(own):
    """In our environment, whatever the commit locks."""
    sides, folder = own
    said = []
    sides.say = said.append
    for sha in ("good", "other"):
        side = sides(sha)
        assert (side.root, side.python, side.label) == (folder / "ours", sys.executable, sha)
        assert (side.tree.root, side.tree.packages) == (folder / sha, ("theirs",))
        assert sides.case_of(sha) == THEIRS
    assert said[1] == f"good: theirs:make from {folder}/good/src/theirs.py"


@pytest.mark.parametrize(("sha", "told"), [("lost", "no module"), ("elsewhere", "imported from elsewhere")])
def test_a_commit_without_the_engine_is_skipped_and_as_an_end_refused(own, sha, told):
    """An end with the option that named it, and what to do."""
    sides, _ = own
    with pytest.raises(MeasurementError, match=told):
        sides(sha)
    kind = UsageError if sha == "lost" else EnvironmentUnfitError
    with pytest.raises(kind, match=f"--good {sha}: engine theirs:make: {told}") as caught:
        sides.check_end(sha, "--good")
    assert sha != "lost" or caught.value.advice == "Give a commit that has it as --good. Commit it."


@pytest.mark.parametrize("where", ["own", "installed", "untold"])
def test_a_run_says_which_file_it_measured_and_another_copy_s_is_refused(own, where):
    """It is started in the commit's files, and is told of them."""
    sides, folder = own
    side = sides("good")
    file = {"own": f"{side.tree.root}/src/theirs.py", "installed": "/lib/theirs.py", "untold": None}[where]
    extra, metrics = {"engine_file": file} if file else {}, {"compile_s": metric("compile_s", 1.0)}
    case = CaseRecord(id=THEIRS.id, spec={}, metrics=metrics, extra=extra)
    run = RunRecord(id="r", created_at="2026-01-01T00:00:00+00:00", suite="ad-hoc", environment={}, cases=(case,))
    (folder / "run.json").write_text(dumps(run))
    python = folder / "python"
    python.write_text(f'#!/bin/sh\npwd > {folder}/place\necho "${VARIABLE}" > {folder}/tree\ncat {folder}/run.json\n')
    python.chmod(0o755)
    side = replace(side, python=str(python))
    if where == "own":
        assert run_side(side, ()).cases[0].id == THEIRS.id
        assert (folder / "place").read_text().strip() == str(side.tree.root)
        assert json.loads((folder / "tree").read_text()) == side.tree.to_json()
        return
    with pytest.raises(MeasurementError, match=f"{THEIRS.id} was measured with an engine from {file or 'a file that'}"):
        run_side(side, ())
