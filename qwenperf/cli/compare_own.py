"""Sides of a repository of somebody's own: its revisions hold engines, and the installed qwenperf measures both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qwenperf.cli.compare_sides import package_root
from qwenperf.cli.streams import say
from qwenperf.errors import UsageError
from qwenperf.workloads.factory import is_factory

if TYPE_CHECKING:
    from qwenperf.lab.sides import Side

_NAME_IT = "Name one of yours that lies in this repository: --engine mypackage.module:make."


def with_own_engines(sides: tuple[Side, Side], engines: Sequence[str], flags: Mapping[str, Any]) -> tuple[Side, Side]:
    """Return the sides that are measured: those whose trees hold qwenperf as they are, others with ours for both.

    ``flags``: those of the command; two engines or two versions of JAX are compared in one code.

    Raises:
      UsageError: trees without qwenperf, and an engine that is not theirs, or that base does not have.
      EnvironmentUnfitError: an engine would be imported from elsewhere than its revision's tree.
    """
    from qwenperf.lab.engine_files import engine_files
    from qwenperf.lab.revisions import holds_package

    if flags["engines"] or flags["jax"]:
        return sides
    if flags["aa"]:
        made = _this_code(sides, engines) if flags["engine_here"] else sides
    else:
        made = sides if all(holds_package(side.root) for side in sides) else _revisions(sides, engines, flags["suite"])
    for side in made if made[0].tree != made[1].tree else made[:1]:
        for engine, file in engine_files(side, engines).items() if side.tree else ():
            say(f"{side.name} ({side.label}): {engine} from {file}")
    return made


def with_engines_beside(sides: tuple[Side, Side], engines: Sequence[str]) -> tuple[Side, Side]:
    """Return the sides whose trees hold qwenperf, with each revision's copy of ``engines`` that lie beside it.

    Raises:
      EnvironmentUnfitError: one would be imported from the checkout.
    """
    from qwenperf.lab.engine_paths import with_engine_paths
    from qwenperf.lab.revisions import Repository

    if not any(side.kind == "revision" and side.tree is None for side in sides) or not any(map(is_factory, engines)):
        return sides
    checkout, made = Repository.find(Path.cwd()).root, []
    for side in sides:
        found, files = with_engine_paths(side, engines, checkout, Path.cwd())
        for engine, file in files.items():
            say(f"{side.name} ({side.label}): {engine} from {file}")
        made.append(found)
    return made[0], made[1]


def refuse_ours(engines: Sequence[str], suite: str | None, *, holder: str, sharing: str) -> None:
    """Refuse engines that are ours where ``holder`` is somebody's revision: all those ``sharing`` would have the same.

    Raises:
      UsageError: one is ours, or none is named; says what to name.
    """
    from qwenperf.cli.select import check_engine

    for engine in engines:
        check_engine(engine)
    ours = [f"--suite {suite}"] if suite else [engine for engine in engines if not is_factory(engine)]
    if ours or not engines:
        raise UsageError(
            f"{holder} holds no package qwenperf: {sharing} would have the same {ours[0] if ours else 'engine'}, the "
            "installed one.",
            advice=_NAME_IT,
        )


def _revisions(sides: tuple[Side, Side], engines: Sequence[str], suite: str | None) -> tuple[Side, Side]:
    """Return two revisions of somebody's, or refuse engines that both of them would have in common."""
    from qwenperf.lab.own_sides import OwnSides
    from qwenperf.lab.revisions import Repository, holds_package, own_code

    without = next(side for side in sides if not holds_package(side.root))
    refuse_ours(engines, suite, holder=f"{without.name} ({without.label})", sharing="both revisions")
    own = OwnSides(
        checkout=Repository.find(Path.cwd()).root, here=Path.cwd(), engines=tuple(engines),
        package=own_code(package_root()),
    )  # fmt: skip
    return own.side(sides[0]), own.side(sides[1])


def _this_code(sides: tuple[Side, Side], engines: Sequence[str]) -> tuple[Side, Side]:
    """Return both sides with a copy of this checkout where it holds the engines, as `compare` of revisions does."""
    from qwenperf.lab.own_sides import OwnSides
    from qwenperf.lab.revisions import Repository, holds_package

    if not engines or not all(map(is_factory, engines)):
        return sides
    try:
        repository = Repository.find(Path.cwd())
    except UsageError:  # no repository: found as the other commands find them
        return sides
    own = OwnSides(checkout=repository.root, here=Path.cwd(), engines=tuple(engines), package=sides[0].root)
    if holds_package(repository.root) or not own.tree(repository.root).is_whole():
        return sides
    snapshot, commit = repository.snapshot(), repository.working_commit()
    first, second = (own.side(replace(side, root=snapshot, commit=commit)) for side in sides)
    return first, second
