"""Somebody's own engine beside this package in one repository: each revision's copy of both is measured.

A side that holds the package runs its own copy of it. Its engine's folder comes before what the caller's ``PYTHONPATH``
and the environment bring, and a process of the side says what it would import: any revision can, an older one too.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from qwenperf.errors import EnvironmentUnfitError, MeasurementError
from qwenperf.lab.own_tree import OwnTree, is_of_checkout, own_tree
from qwenperf.lab.revisions import compile_tree, holds_package
from qwenperf.lab.side_command import run_command
from qwenperf.lab.sides import Side
from qwenperf.workloads.factory import factory_parts, is_factory

_LIMIT_S = 120.0
_SEEN = """
import importlib, json, os, sys
importlib.import_module(sys.argv[1])
files = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}
files = {name: os.path.realpath(file) for name, file in files.items() if isinstance(file, str)}
print("\\n" + json.dumps(files), flush=True)
os._exit(0)
"""


def with_engine_paths(side: Side, engines: Sequence[str], checkout: Path, here: Path) -> tuple[Side, dict[str, str]]:
    """Return ``side`` with its revision's folders of ``engines``, and the file of each one that imports.

    An engine that lies outside of the repository is installed, and the same on both sides: that is no mistake where
    the package is what differs. One that does not import is left to whoever measures it.

    Raises:
      EnvironmentUnfitError: a file of the checkout would be measured in the place of the revision's.
      MeasurementError: the side's process does not answer.
    """
    factories = tuple(dict.fromkeys(filter(is_factory, engines)))
    if side.kind != "revision" or side.tree is not None or not factories or not holds_package(side.root):
        return side, {}
    tree = own_tree(side.root, checkout, here, factories)
    folders = tuple(folder for folder in tree.folders if any(_has(folder, name) for name in tree.packages))
    for folder in folders:
        compile_tree(folder, side.python, [part for name in tree.packages for part in (name, f"{name}.py")])
    made = replace(side, paths=folders, beside=tree)
    seen = {engine: _file(made, engine, tree) for engine in factories}
    return made, {engine: file for engine, file in seen.items() if file is not None}


def _has(folder: Path, name: str) -> bool:
    return (folder / name).is_dir() or (folder / f"{name}.py").is_file()


def _file(side: Side, engine: str, tree: OwnTree) -> str | None:
    """Return the file of an engine's module on ``side``; ``None`` where it does not import."""
    module = factory_parts(engine)[0]
    command = [side.python, "-P", "-c", _SEEN, module]
    try:
        done = run_command(command, side, _LIMIT_S)
    except (OSError, subprocess.SubprocessError) as error:
        raise MeasurementError(f"{side.name} ({side.label}) does not start: {error}.") from error
    if done.returncode or not done.stdout.strip():
        return None
    files: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    for name, file in sorted(files.items(), key=lambda one: one[0] != module):
        if is_of_checkout(Path(file), tree):
            raise EnvironmentUnfitError(
                f"{side.name} ({side.label}): engine {engine}: {name} was imported from {file}, the checkout, and not "
                f"from the revision's tree {tree.root}: both sides would share it.",
                advice="Start the command in the folder of the repository that holds the package, or its src.",
            )
    return files.get(module)
