"""One code under several versions of JAX and of the TPU's compiler: an environment for each, made once."""

from __future__ import annotations

import hashlib
import re
import tomllib
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from qwenperf.errors import UsageError
from qwenperf.lab.interpreters import Choice, Interpreter, choose
from qwenperf.lab.revisions import default_cache, holds_package, install, own_code, package_alone
from qwenperf.lab.sides import Side

_VERSION = re.compile(r"\d+(\.\w+)+")


@dataclass(frozen=True, kw_only=True)
class Version:
    """A version of JAX, one of the TPU's compiler, or both. ``None``: what runs here, or what JAX asks for."""

    jax: str | None = None
    libtpu: str | None = None

    def __post_init__(self) -> None:
        """Refuse what no version looks like.

        Raises:
          UsageError: names it.
        """
        for package, version in (("jax", self.jax), ("libtpu", self.libtpu)):
            if version is not None and not _VERSION.fullmatch(version):
                known = "JAX" if package == "jax" else package
                raise UsageError(f"{version!r} is no version of {known}.", advice="Write it as 0.10.2.")

    @property
    def label(self) -> str:
        """What people call it."""
        given = {"jax": self.jax, "libtpu": self.libtpu}
        return ", ".join(f"{package} {version}" for package, version in given.items() if version)


def version_side(
    name: str, root: Path, version: Version, *, tpu: bool = True, python: str | None = None, cache: Path | None = None
) -> Side:
    """Return the side ``name``: the code in ``root`` under ``version``.

    Args:
      name: ``base`` or ``head``.
      root: the folder that holds the package and its ``pyproject.toml``, from which the other packages come; of an
        installed one its own list is asked.
      version: of JAX, where none is given the one that runs here, and of the TPU's compiler.
      tpu: whether the TPU's compiler is wanted: the one that this JAX asks for, unless ``version`` names another.
      python: the interpreter to make it with; by default one of this machine that this JAX takes.
      cache: where environments are kept.

    Raises:
      UsageError: ``root`` has no ``pyproject.toml``, or ``python`` is none.
      MeasurementError: there is no such version, or the environment cannot be made; says what the installer said.
      EnvironmentUnfitError: it needs a Python that is not here.
    """
    return find(root, version, tpu=tpu, python=python, cache=cache).side(name, root)


@dataclass(frozen=True, kw_only=True)
class Found:
    """The environment of a version, whose packages exist: made already, or still to be made."""

    label: str
    wanted: tuple[str, ...]
    choice: Choice

    def side(self, name: str, root: Path) -> Side:
        """Return the side ``name`` with the code in ``root``, its environment made unless it is there.

        Raises:
          MeasurementError: it cannot be made; says what the installer said.
        """
        place = self.choice.folder
        if not self.choice.made:
            install(place, self.wanted, self.choice.interpreter.path)
        return Side(name=name, label=self.label, kind="versions", root=root, python=str(place / "bin" / "python"))


def find(
    root: Path, version: Version, *, tpu: bool = True, python: str | None = None, cache: Path | None = None
) -> Found:
    """Return what ``version_side`` makes, before it is made: of two versions both can be looked for first.

    Arguments and errors as there.
    """
    needed = _needed(root)
    own = version.jax or metadata.version("jax")
    pinned = [f"jax=={own}", f"jaxlib=={own}", *([f"libtpu=={version.libtpu}"] if version.libtpu else [])]
    wanted = list(pinned)
    if tpu and not version.libtpu:
        wanted[0] = f"jax[tpu]=={own}"
    wanted += needed
    kind = f"{own}-{version.libtpu or ('own' if tpu else 'none')}"

    def folder(interpreter: Interpreter) -> Path:
        key = hashlib.sha256("\n".join((interpreter.path, interpreter.version, *wanted)).encode()).hexdigest()[:20]
        return (cache or default_cache()) / "environments" / f"jax-{kind}-{key}"

    choice = choose(pinned, folder, python)
    return Found(label=version.label or f"jax {own}", wanted=tuple(wanted), choice=choice)


def _needed(root: Path) -> list[str]:
    """Return the packages that the code in ``root`` needs: as its project says, or as it was installed.

    Raises:
      UsageError: nothing says it.
    """
    project = root / "pyproject.toml"
    if project.is_file():
        dependencies: list[str] = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["dependencies"]
        return dependencies
    try:
        installed = metadata.requires("qwenperf") if holds_package(root) else None
    except metadata.PackageNotFoundError:
        installed = None
    if installed is None:
        raise UsageError(f"{root} has no pyproject.toml to take the other packages from, and is not installed.")
    return [one for one in installed if "extra" not in one.partition(";")[2]]


def code_alone(root: Path, cache: Path | None = None) -> Path:
    """Return the code in ``root`` without what is installed beside it: that would come before another environment's."""
    if (root / ".git").exists() or (root / "pyproject.toml").is_file():
        return own_code(root, cache)
    return package_alone(root, cache or default_cache())
