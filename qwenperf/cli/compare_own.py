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
    from qwenperf.lab.own_tree import OwnTree
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


def _revisions(sides: tuple[Side, Side], engines: Sequence[str], suite: str | None) -> tuple[Side, Side]:
    """Return two revisions of somebody's, or refuse engines that both of them would have in common."""
    from qwenperf.cli.select import check_engine
    from qwenperf.lab.own_tree import own_tree
    from qwenperf.lab.revisions import Repository, holds_package, own_code

    for engine in engines:
        check_engine(engine)
    ours = [f"--suite {suite}"] if suite else [engine for engine in engines if not is_factory(engine)]
    if ours or not engines:
        without = next(side for side in sides if not holds_package(side.root))
        raise UsageError(
            f"{without.name} ({without.label}) holds no package qwenperf: both revisions would have the same "
            f"{ours[0] if ours else 'engine'}, the installed one.",
            advice=_NAME_IT,
        )
    checkout, package = Repository.find(Path.cwd()).root, own_code(package_root())
    trees = [own_tree(side.root, checkout, Path.cwd(), engines) for side in sides]
    first, second = (replace(_with_tree(side, tree), root=package) for side, tree in zip(sides, trees, strict=True))
    return first, second


def _this_code(sides: tuple[Side, Side], engines: Sequence[str]) -> tuple[Side, Side]:
    """Return both sides with a copy of this checkout where it holds the engines, as `compare` of revisions does."""
    from qwenperf.lab.commit import describe_commit
    from qwenperf.lab.own_tree import own_tree
    from qwenperf.lab.revisions import Repository, holds_package

    if not engines or not all(map(is_factory, engines)):
        return sides
    try:
        repository = Repository.find(Path.cwd())
    except UsageError:  # no repository: found as the other commands find them
        return sides
    if holds_package(repository.root) or not own_tree(repository.root, repository.root, Path.cwd(), engines).is_whole():
        return sides
    tree = own_tree(repository.snapshot(), repository.root, Path.cwd(), engines)
    commit = describe_commit(repository.root)
    first, second = (replace(_with_tree(side, tree), commit=commit) for side in sides)
    return first, second


def _with_tree(side: Side, tree: OwnTree) -> Side:
    from qwenperf.lab.revisions import compile_tree

    for folder in tree.folders:
        compile_tree(folder, side.python, [*tree.packages, *(f"{name}.py" for name in tree.packages)])
    return replace(side, tree=tree)
