"""Somebody's own code comes from the tree of its revision, and nothing else of this process does."""

import importlib
import sys
from dataclasses import replace

import pytest

from qwenperf.errors import EnvironmentUnfitError
from qwenperf.lab.own_tree import VARIABLE, OwnTree, TreeFinder, check_engine_file, import_from, own_tree, told_tree
from qwenperf.lab.sides import Side

ENGINE = "theirpackage.decode:make"


def write(folder, *names, text="WHERE = __file__\n"):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch):
    """Leave the importing of this process as it was."""
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Return folders of a tree and of its checkout, and one where Python looks."""
    made = [tmp_path / name for name in ("tree", "checkout", "site-packages")]
    for folder in made:
        folder.mkdir()
    monkeypatch.syspath_prepend(str(made[2]))
    return made


@pytest.mark.parametrize(("inner", "here"), [("", ""), ("src", ""), ("parts/a", "parts/a"), ("parts/a/src", "parts/a")])
def test_the_tree_s_package_comes_before_an_installed_copy(places, inner, here):
    """In the root, in src, and in the same of the folder that the command is started in; helpers beside it too."""
    root, checkout, installed = places
    names = ("theirpackage/__init__.py", "theirpackage/decode.py", "theirhelper.py")
    for folder in (root / inner, checkout / inner, installed):
        write(folder, *names)
    tree = own_tree(root, checkout, checkout / here, [ENGINE])
    assert OwnTree.from_json(tree.to_json()) == tree
    import_from(tree)
    for name in ("theirpackage.decode", "theirhelper"):
        assert importlib.import_module(name).WHERE.startswith(str(root / inner)), name
    assert check_engine_file(ENGINE, tree) == str(root / inner / "theirpackage" / "decode.py")


def test_a_side_s_processes_are_told_its_tree(places):
    """They start in the folder of the command, as the revision has it; a side without a tree tells none."""
    root, checkout, _ = places
    tree = own_tree(root, checkout, checkout / "part", [ENGINE])
    side = Side(name="head", label="x", kind="revision", root=root, python=sys.executable, tree=tree)
    assert told_tree(side.child_environ({})) == tree
    assert VARIABLE not in replace(side, tree=None).child_environ({})
    assert told_tree({}) is None
    assert tree.place() == root
    (root / "part").mkdir()
    assert tree.place() == root / "part"


def test_only_a_package_that_was_named_may_lack_its_init(places):
    """A folder of data may have the name of anything; and no file in a tree replaces what Python or we bring."""
    root, checkout, installed = places
    write(root, "theirpackage/decode.py", "theirdata/x.py", "token.py", "qwenperf.py")
    write(installed, "theirdata/__init__.py")
    tree = own_tree(root, checkout, checkout, [ENGINE])
    import_from(tree)
    assert importlib.import_module("theirpackage.decode").WHERE.startswith(str(root))
    assert importlib.import_module("theirdata").WHERE.startswith(str(installed))
    assert [TreeFinder(tree=tree).find_spec(name) for name in ("token", "qwenperf", "nothing")] == [None] * 3


def test_an_installed_copy_in_the_place_of_the_revision_s_is_refused(places):
    """Both sides would measure it. How to mend that depends on where the tree has the package."""
    root, checkout, installed = places
    write(installed, "theirpackage/__init__.py", "theirpackage/decode.py")
    write(root, "python/theirpackage/decode.py")
    tree = own_tree(root, checkout, checkout, [ENGINE])
    import_from(tree)
    importlib.import_module("theirpackage.decode")
    told = (
        rf"decode was imported from {installed}.* an installed copy, and not .* tree {root}\. Start the command in the"
    )
    with pytest.raises(EnvironmentUnfitError, match=told):
        check_engine_file(ENGINE, tree)
    write(root, "theirpackage/decode.py")
    with pytest.raises(EnvironmentUnfitError, match="imported it when Python started"):
        check_engine_file(ENGINE, tree)


def test_a_helper_of_the_checkout_is_refused_and_an_environment_in_it_is_not(places, monkeypatch):
    """Installed with -e from another folder of the repository, it would be the working tree's on both sides."""
    root, checkout, _ = places
    write(root, "theirpackage/decode.py", "libs/theirhelper.py")
    write(checkout, "libs/theirhelper.py", ".venv/theirlibrary.py")
    for folder in ("libs", ".venv"):
        monkeypatch.syspath_prepend(str(checkout / folder))
    tree = own_tree(root, checkout, checkout, [ENGINE])
    import_from(tree)
    for name in ("theirpackage.decode", "theirlibrary"):
        importlib.import_module(name)
    assert check_engine_file(ENGINE, tree)
    importlib.import_module("theirhelper")
    with pytest.raises(
        EnvironmentUnfitError, match=r"theirhelper was imported from .*checkout.* both sides would share"
    ):
        check_engine_file(ENGINE, tree)


@pytest.mark.parametrize("name", ["lib/theirhelper.py", "theirhelper.py"])
def test_a_file_that_no_revision_has_is_not_shared_either(places, monkeypatch, name):
    """A submodule is in no export, nor is what a build has left: a change of the submodule alone would be none."""
    root, checkout, _ = places
    write(root, "theirpackage/decode.py")
    write(checkout, name)
    monkeypatch.syspath_prepend(str((checkout / name).parent))
    tree = own_tree(root, checkout, checkout, [ENGINE])
    import_from(tree)
    for module in ("theirpackage.decode", "theirhelper"):
        importlib.import_module(module)
    with pytest.raises(EnvironmentUnfitError, match=r"theirhelper was imported from .*a submodule's file or what a"):
        check_engine_file(ENGINE, tree)
