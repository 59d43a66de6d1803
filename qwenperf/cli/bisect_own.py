"""Bisecting somebody's own repository: its commits hold engines, and the installed qwenperf measures all of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from qwenperf.cli.bisect_case import Asked
from qwenperf.cli.compare_own import refuse_ours
from qwenperf.cli.compare_sides import package_root
from qwenperf.errors import UsageError

if TYPE_CHECKING:
    from qwenperf.lab.bisect_sides import Own
    from qwenperf.lab.revisions import Repository

FROM_ITS_TREE = ("--no-engine-here",)
"""Keeps `qwenperf run` from adding its working folder, a commit's, to Python's path, where it would hide Python's own
modules."""


def find_repository() -> Repository:
    """Return the repository that the command is started in.

    Raises:
      UsageError: there is none.
    """
    from qwenperf.lab.revisions import Repository

    try:
        return Repository.find(Path.cwd())
    except UsageError as error:
        advice = "Start the command in the git repository whose commits are searched."
        raise UsageError(f"{Path.cwd()}: {error.message}", advice=advice) from error


def find_own(asked: Asked, repository: Repository, ends: Mapping[str, str], suite: str | None) -> Own | None:
    """Return how commits of somebody's own repository are measured; ``None`` where they hold qwenperf themselves.

    ``ends``: the commits between which is searched, by the option that named them.

    Raises:
      UsageError: an end holds no qwenperf, and the engine is one of ours.
    """
    from qwenperf.lab.bisect_sides import Own
    from qwenperf.lab.own_sides import OwnSides, is_of_ours
    from qwenperf.lab.revisions import own_code

    without = [f"{option} {sha[:10]}" for option, sha in ends.items() if not is_of_ours(repository, sha)]
    if not without:
        return None
    refuse_ours((asked.engine,), suite, holder=without[0], sharing="all commits")
    assert asked.flags is not None
    (case,) = asked.flags.cases()
    package = own_code(package_root())
    sides = OwnSides(checkout=repository.root, here=Path.cwd(), engines=(case.engine,), package=package)
    return Own(sides=sides, case=case)


def place_of(own: Own) -> dict[str, str]:
    """Return what tells a search from one for an engine of the same name in another folder of the repository."""
    return {"engine_from": own.sides.here.resolve().relative_to(own.sides.checkout.resolve()).as_posix()}
