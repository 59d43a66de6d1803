"""Which Python an environment is made with."""

import sys
from pathlib import Path

import pytest

from qwenperf.errors import EnvironmentUnfitError, MeasurementError, UsageError
from qwenperf.lab import interpreters
from qwenperf.lab.interpreters import Interpreter, ask, choose
from qwenperf.lab.version_sides import Version, code_alone, find, version_side

OURS = Interpreter(path=sys.executable, version=sys.version, number=sys.version_info[:2])
NEWER = Interpreter(path="/somewhere/python3.99", version="3.99.1 (main)", number=(3, 99))


@pytest.fixture
def two(monkeypatch):
    """Let this machine have two Pythons."""
    monkeypatch.setattr(interpreters, "interpreters", lambda: (OURS, NEWER))

    def refuse(said):
        monkeypatch.setattr(interpreters, "_trouble", lambda python, _: said.get(python.short))

    return refuse


@pytest.fixture
def folder(tmp_path):
    """Return the place of an interpreter's environment."""
    return lambda one: tmp_path / one.short


NEEDS = (
    "Because the current Python version (3.11.7) does not satisfy Python>=3.12,<4.0 and jax==0.12.0 depends on "
    "Python>=3.12,<4.0, we can conclude that jax==0.12.0 cannot be used."
)


def test_ours_is_taken_where_the_packages_take_it(two, folder):
    """And another one where they do not."""
    two({})
    assert choose(["jax==0.12.0"], folder).interpreter is OURS
    two({OURS.short: NEEDS})
    assert choose(["jax==0.12.0"], folder).interpreter is NEWER


def test_an_environment_that_is_there_needs_no_index(two, folder):
    """Whichever Python it was made with."""
    two({OURS.short: "no network", NEWER.short: "no network"})
    folder(NEWER).mkdir()
    (folder(NEWER) / "complete").touch()
    choice = choose(["jax==0.12.0"], folder)
    assert (choice.interpreter, choice.made) == (NEWER, True)


def test_without_a_python_that_fits_it_says_which_is_needed(two, folder):
    """And which there are."""
    two({OURS.short: NEEDS, NEWER.short: NEEDS})
    with pytest.raises(EnvironmentUnfitError, match=r"jax==0.12.0 needs Python >=3.12,<4.0, and here are 3") as error:
        choose(["jax==0.12.0"], folder)
    assert "name one with --python" in str(error.value)


def test_a_version_that_does_not_exist_is_told_in_the_installer_s_words(two, folder):
    """It is nobody's Python that is wrong."""
    said = "Because there is no version of jax==9.9.9 and you require jax==9.9.9, your requirements are unsatisfiable."
    two({OURS.short: said, NEWER.short: said})
    with pytest.raises(MeasurementError, match=r"there is no version of jax==9\.9\.9"):
        choose(["jax==9.9.9"], folder)


def test_a_python_tells_its_version():
    """What does not run, or is no Python, tells none."""
    assert ask(sys.executable) == OURS
    assert ask("/nowhere/python") is None
    assert ask("/bin/true") is None
    with pytest.raises(UsageError, match="is no Python that runs"):
        choose(["jax==0.12.0"], lambda _: Path("none"), python="/bin/true")


def test_this_machine_s_pythons_are_found_ours_first():
    """One a version, none that is too old."""
    found = interpreters.interpreters()
    assert found[0] == OURS
    assert len({one.number for one in found}) == len(found)
    assert min(one.number for one in found) >= interpreters.LEAST


@pytest.mark.parametrize(("jax", "libtpu"), [("new", None), ("0.10.2", "latest"), ("0", None)])
def test_what_is_no_version_is_refused(jax, libtpu):
    """Before anything is asked of an index."""
    with pytest.raises(UsageError, match="is no version of"):
        Version(jax=jax, libtpu=libtpu)


def test_code_without_a_project_has_no_packages(tmp_path):
    """It says so."""
    with pytest.raises(UsageError, match=r"has no pyproject\.toml"):
        version_side("base", tmp_path, Version(jax="0.10.2"))


def test_an_installed_package_is_measured_under_other_versions(two, tmp_path):
    """With the packages that it was installed with, and without those beside it: they would come before the others."""
    two({})
    installed = tmp_path / "site-packages"
    for name in ("qwenperf/__init__.py", "qwenperf/data.json", "jax/__init__.py", "qwenperf/__pycache__/x.pyc"):
        (installed / name).parent.mkdir(parents=True, exist_ok=True)
        (installed / name).touch()
    code = code_alone(installed, tmp_path / "cache")
    found = [path for path in code.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert sorted(str(path.relative_to(code)) for path in found) == ["qwenperf/__init__.py", "qwenperf/data.json"]
    wanted = find(code, Version(jax="0.10.2"), tpu=False, cache=tmp_path / "cache").wanted
    assert {"jax==0.10.2", "jaxlib==0.10.2"} < set(wanted)
    assert any(one.startswith("flax") for one in wanted)
    assert not any("extra" in one for one in wanted)
