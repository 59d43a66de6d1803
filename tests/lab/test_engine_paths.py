"""An engine beside this package in one repository is each revision's own, however the caller's Python finds one."""

import sys

import pytest

from qwenperf.errors import EnvironmentUnfitError
from qwenperf.lab.engine_paths import with_engine_paths
from qwenperf.lab.sides import Side

ENGINE = "theirs.decode:make"


def write(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Return the checkout, whose `src` the caller's Python looks in, and the side of one of its revisions."""
    checkout, root = tmp_path / "checkout", tmp_path / "tree"
    for folder in (checkout, root):
        write(folder, "qwenperf/__init__.py", "src/theirs/__init__.py", "src/theirs/decode.py")
    monkeypatch.setenv("PYTHONPATH", str(checkout / "src"))
    return checkout, Side(name="base", label="main", kind="revision", root=root, python=sys.executable)


def test_the_revision_s_copy_comes_before_the_caller_s_path(places):
    """Otherwise both sides measure the checkout, and a change that is three times slower passes."""
    checkout, side = places
    made, files = with_engine_paths(side, ["cached", ENGINE], checkout, checkout)
    assert files == {ENGINE: str(side.root / "src" / "theirs" / "decode.py")}
    assert made.child_environ({"PYTHONPATH": "theirs"})["PYTHONPATH"].split(":") == [
        str(side.root), str(side.root / "src"), "theirs",
    ]  # fmt: skip
    assert with_engine_paths(side, ["cached"], checkout, checkout) == (side, {})


@pytest.mark.parametrize("where", ["libs/theirs/decode.py", "libs/theirhelper.py"])
def test_a_file_of_the_checkout_is_refused(places, monkeypatch, where):
    """It lies where no folder of the revision is looked in, or the revision does not have it."""
    checkout, side = places
    (side.root / "src" / "theirs" / "decode.py").write_text("import theirhelper\n")
    if "theirs" in where:
        (side.root / "src").rename(side.root / "libs")
    write(checkout, where)
    monkeypatch.setenv("PYTHONPATH", str(checkout / "libs"))
    with pytest.raises(EnvironmentUnfitError, match=rf"base \(main\): .* from {checkout / where}, the checkout"):
        with_engine_paths(side, [ENGINE], checkout, checkout)


def test_an_installed_engine_is_the_same_on_both_sides(places, tmp_path, monkeypatch):
    """Of two revisions of the package that is what is asked; one that does not import is told by who measures it."""
    checkout, side = places
    write(tmp_path, "elsewhere/installed.py", "checkout/.venv/lib/site-packages/inside.py")
    for folder, name in (("elsewhere", "installed"), ("checkout/.venv/lib/site-packages", "inside")):
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / folder))
        made, files = with_engine_paths(side, [f"{name}:make"], checkout, checkout)
        assert (made.paths, files) == ((), {f"{name}:make": str(tmp_path / folder / f"{name}.py")})
    assert with_engine_paths(side, ["nothing:make"], checkout, checkout)[1] == {}
