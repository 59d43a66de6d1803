"""Sides of somebody's own repository: engines from a revision's files, measured by the package that is installed."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from qwenperf.lab.own_tree import OwnTree, own_tree
from qwenperf.lab.revisions import Repository, compile_tree, git
from qwenperf.lab.sides import Side


@dataclass(frozen=True, kw_only=True)
class OwnSides:
    """Makes them.

    Attributes:
      checkout: the repository.
      here: the folder in it that the command is started in.
      engines: ``package.module:factory`` each.
      package: the folder that holds this package, the same for all sides.
    """

    checkout: Path
    here: Path
    engines: tuple[str, ...]
    package: Path

    def tree(self, root: Path) -> OwnTree:
        """Return what engines are taken from where ``root`` holds a revision's files."""
        return own_tree(root, self.checkout, self.here, self.engines)

    def side(self, side: Side) -> Side:
        """Return ``side``, whose root holds a revision's files, with engines from there and our package."""
        tree = self.tree(side.root)
        for folder in tree.folders:
            compile_tree(folder, sys.executable, [*tree.packages, *(f"{name}.py" for name in tree.packages)])
        return replace(side, root=self.package, python=sys.executable, tree=tree)


def is_of_ours(repository: Repository, sha: str) -> bool:
    """Say whether a commit holds this package, and so is measured by its own copy."""
    return bool(git(repository.root, "ls-tree", "--name-only", sha, "qwenperf/__init__.py"))
