"""Somebody's own code of one revision: imported from that revision's tree by the process that measures it.

Of two revisions of a repository that does not hold this package, the engine is theirs and the package is the installed
one, the same on both sides. A finder before all others takes the engine's package, and what lies beside it, from the
tree: an installed copy, an editable one too, would be the same code on both sides. Nothing else is looked for there.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from qwenperf.errors import EnvironmentUnfitError
from qwenperf.workloads.factory import factory_parts

VARIABLE = "_QWENPERF_TREE"
"""Tells a side's commands its tree, as JSON. No setting has such a name."""

_OURS = Path(__file__).resolve().parents[1]
_BEFORE = "Something imported it when Python started: uninstall that copy."
_ELSEWHERE = (
    "Start the command in the folder of the repository that holds the package, or in the one that holds its src."
)
_BESIDE = "Let it lie beside the engine's package, where each revision has its own."
_UNHELD = (
    "Git does not hold it in that revision, as a submodule's file or what a build has left: install a copy that is no "
    "editable one, which is the same on both sides on purpose."
)
_PACKAGES = frozenset({"site-packages", "dist-packages"})


@dataclass(frozen=True, kw_only=True)
class OwnTree:
    """The code of one side.

    Attributes:
      root: the folder with the revision's files.
      folders: where packages are looked for, below ``root``; the first that has one counts.
      packages: first names of the modules of the engines, which are taken from here and from nowhere else.
      checkout: the repository that the revision is of, whose files may not take the place of the revision's.
    """

    root: Path
    folders: tuple[Path, ...]
    packages: tuple[str, ...]
    checkout: Path

    def to_json(self) -> dict[str, Any]:
        """Return what ``from_json`` reads."""
        folders = [str(folder) for folder in self.folders]
        return {
            "root": str(self.root),
            "folders": folders,
            "packages": [*self.packages],
            "checkout": str(self.checkout),
        }

    def is_whole(self) -> bool:
        """Say whether each of the packages lies here."""
        places = [folder / name for folder in self.folders for name in self.packages]
        found = {place.name for place in places if place.is_dir() or place.with_suffix(".py").is_file()}
        return found == set(self.packages)

    def place(self) -> Path:
        """Return the folder that the command was started in, of this revision; its root where it has none such."""
        return next((folder for folder in self.folders if folder.is_dir()), self.root)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> OwnTree:
        """Return the tree that ``to_json`` was asked of."""
        folders = tuple(map(Path, data["folders"]))
        return cls(
            root=Path(data["root"]), folders=folders, packages=tuple(data["packages"]), checkout=Path(data["checkout"])
        )


def own_tree(root: Path, checkout: Path, here: Path, engines: Sequence[str]) -> OwnTree:
    """Return the code in ``root``, a copy of ``checkout``; ``here`` is the folder in ``checkout`` of the command.

    Packages are looked for in the root and in ``src``, and before that in the same two of the command's folder.
    """
    below = here.resolve().relative_to(checkout.resolve())
    folders = dict.fromkeys(folder / inner for folder in (root / below, root) for inner in ("", "src"))
    packages = dict.fromkeys(factory_parts(engine)[0].partition(".")[0] for engine in engines)
    return OwnTree(root=root, folders=tuple(folders), packages=tuple(packages), checkout=checkout)


def told_tree(environ: Mapping[str, str]) -> OwnTree | None:
    """Return the tree that a side's command was told; ``None`` where engines come from what is installed."""
    text = environ.get(VARIABLE)
    return None if text is None else OwnTree.from_json(json.loads(text))


@dataclass(frozen=True, kw_only=True)
class TreeFinder:
    """Finds the modules of a tree, for ``sys.meta_path``.

    A folder without ``__init__.py`` is a package only where an engine's name says so: any other may have its name by
    chance. The standard library, and this package, are never taken from a tree.
    """

    tree: OwnTree

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return where a module of first level lies in the tree; ``None`` where it is none of the tree's."""
        del target
        if path is not None or name in sys.stdlib_module_names or name == _OURS.name:
            return None
        spec = PathFinder.find_spec(name, [str(folder) for folder in self.tree.folders])
        if spec is None or spec.origin is not None:
            return spec
        if name not in self.tree.packages:
            return None
        # The folders of one that Python makes itself are looked for again in sys.path whenever that changes.
        fixed = ModuleSpec(name, None, is_package=True)
        fixed.submodule_search_locations = list(spec.submodule_search_locations or ())
        return fixed


def import_from(tree: OwnTree) -> None:
    """Have this process import what lies in ``tree`` from there, before anything that is installed."""
    sys.meta_path.insert(0, TreeFinder(tree=tree))


def check_engine_file(engine: str, tree: OwnTree) -> str:
    """Return the file of an engine's module, which has been imported.

    Raises:
      EnvironmentUnfitError: it is not the tree's, or another of the revision's files was imported from elsewhere.
    """
    module = factory_parts(engine)[0]
    file = _file_of(sys.modules[module])
    if file is None or not file.is_relative_to(tree.root.resolve()):
        raise EnvironmentUnfitError(
            f"engine {engine}: {module} was imported from {file or 'no file'}, an installed copy, and not from the "
            f"revision's tree {tree.root}.",
            advice=_BEFORE if tree.is_whole() else _ELSEWHERE,
        )
    refuse_shared(engine, tree)
    return str(file)


def refuse_shared(engine: str, tree: OwnTree) -> None:
    """Refuse files of the checkout that this process has imported: the other revision's would import them too.

    Raises:
      EnvironmentUnfitError: there is one; names it.
    """
    for name, other in sorted(sys.modules.items()):
        place = _file_of(other)
        if place is not None and name.partition(".")[0] != _OURS.name and is_of_checkout(place, tree):
            raise EnvironmentUnfitError(
                f"engine {engine}: {name} was imported from {place}, the checkout, and not from the revision's tree: "
                "both sides would share it.",
                advice=_shared_advice(place, tree),
            )


def is_of_checkout(file: Path, tree: OwnTree) -> bool:
    """Say whether a file lies in the checkout and not in an environment there: no revision would have its own.

    One that git does not hold too, such as a submodule's or what a build has left: it is of no revision.
    """
    environments = (tree.checkout / ".venv", *map(Path, (sys.prefix, sys.base_prefix)))
    elsewhere = (tree.root, _OURS, *environments)
    if not file.is_relative_to(tree.checkout.resolve()) or _PACKAGES & set(file.parts):
        return False
    return not any(file.is_relative_to(place.resolve()) for place in elsewhere)


def _shared_advice(file: Path, tree: OwnTree) -> str:
    return _BESIDE if (tree.root / file.relative_to(tree.checkout.resolve())).is_file() else _UNHELD


def _file_of(module: ModuleType | None) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file).resolve() if isinstance(file, str) else None
