"""Trees of code at other commits, and environments for them: made once, in the user's cache, not in the checkout.

A tree is an export of the commit (``git archive``), not a registered worktree: nothing of the user's repository
changes, and the folder is whole or absent. An environment is made where a commit's lock differs from the checkout's.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qwenperf.errors import ConfigError, EnvironmentUnfitError, MeasurementError, OutputError, UsageError
from qwenperf.lab.commit import describe_commit
from qwenperf.lab.interpreters import find_uv
from qwenperf.lab.sides import Side
from qwenperf.settings import cache_folder

WORKING_TREE = "."
"""The revision that is the checkout as it lies there, changes and all."""

LOCK = "requirements/lock.txt"
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
_GIT_LIMIT_S = 120
_INSTALL_LIMIT_S = 1800


@dataclass(frozen=True, kw_only=True)
class Repository:
    """A git checkout, and where its exports and environments are kept."""

    root: Path
    cache: Path

    @classmethod
    def find(cls, folder: Path, cache: Path | None = None) -> Repository:
        """Return the repository that ``folder`` is in.

        Raises:
          UsageError: it is in none, or git is not there.
        """
        root = git(folder, "rev-parse", "--show-toplevel")
        return cls(root=Path(root), cache=cache or default_cache())

    def resolve(self, revision: str) -> str:
        """Return the commit that ``revision`` names.

        Raises:
          UsageError: it names none.
        """
        try:
            return git(self.root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        except UsageError:
            raise UsageError(
                f"{revision!r} is no commit of {self.root}.", advice="In a shallow clone, fetch it first."
            ) from None

    def merge_base(self, head: str = "HEAD") -> str:
        """Return the commit that ``head`` was forked at from the main branch.

        Raises:
          UsageError: no main branch is known, or nothing is shared with it.
        """
        for branch in ("origin/HEAD", "origin/main", "origin/master", "main", "master"):
            try:
                main = self.resolve(branch)
            except UsageError:
                continue
            base = git(self.root, "merge-base", main, self.resolve(head))
            # On the main branch itself there is no fork: the commit before is what it is compared with.
            dirty = bool(git(self.root, "status", "--porcelain", "--untracked-files=no"))
            return base if base != self.resolve(head) or dirty else self.resolve(f"{head}~1")
        raise UsageError("no main branch to compare with was found.", advice="Name the base: qwenperf compare BASE.")

    def side(self, name: str, revision: str) -> Side:
        """Return the side ``name`` of ``revision``; ``.`` is the checkout as it lies there.

        Raises:
          UsageError: no such commit.
          MeasurementError: its environment cannot be made.
        """
        if revision == WORKING_TREE:
            tree = self.snapshot()
            compile_tree(tree, sys.executable)
            return Side(
                name=name, label="working tree", kind="revision", root=tree, python=sys.executable,
                commit=self.working_commit(),
            )  # fmt: skip
        sha = self.resolve(revision)
        tree = self.export(sha)
        label = revision if sha.startswith(revision) else f"{revision} ({sha[:10]})"
        python = self.python_for(tree)
        compile_tree(tree, python)
        return Side(name=name, label=label, kind="revision", root=tree, python=python, commit={"sha": sha})

    def trailers(self, base: str, key: str, head: str = WORKING_TREE) -> tuple[str, ...]:
        """Return the values of the trailer ``key`` in the messages of the commits from ``base`` to ``head``."""
        form = f"--format=%(trailers:key={key},valueonly,unfold)"
        last = self.resolve("HEAD" if head == WORKING_TREE else head)
        told = _printable(git(self.root, "log", form, f"{self.resolve(base)}..{last}", "--"))
        return tuple(line.strip() for line in told.splitlines() if line.strip())

    def export(self, sha: str) -> Path:
        """Return a folder with the files of commit ``sha``.

        Raises:
          MeasurementError: it has none, or one that cannot lie on this machine.
          OutputError: the cache cannot be written.
        """
        tree = self.cache / "trees" / sha
        if not tree.is_dir():
            with _scratch(tree.parent) as folder:
                _export(self.root, sha, folder)
                with _caching(tree):
                    _move_into_place(folder / "tree", tree)
        return tree

    def snapshot(self) -> Path:
        """Return a copy of the checkout as it lies there: what is edited during a comparison must not get into it.

        Raises:
          MeasurementError: a file cannot be read, or went while it was copied.
          OutputError: the cache cannot be written.
        """
        listed = git(self.root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        return self.copied([name for name in sorted(set(listed.split("\0"))) if name and _is_held(self.root / name)])

    def working_commit(self) -> dict[str, Any]:
        """Return the commit of the checkout; it is ``dirty``, too, where the copy holds a file that no commit has."""
        told = describe_commit(self.root)
        more = bool(told) and bool(git(self.root, "ls-files", "--others", "--exclude-standard"))
        return {**told, "dirty": True} if more else told

    def copied(self, names: Sequence[str]) -> Path:
        """Return a folder with these files alone; errors as ``snapshot``."""
        try:
            tree = self._working(_digest(self.root, names))
            return tree if tree.is_dir() else self._copied(names)
        except OSError as error:
            if error.errno in _FULL:
                raise _unwritable(self.cache, error) from error
            raise MeasurementError(
                f"the working tree cannot be copied: {error}.", advice="Measure while nothing else writes to it."
            ) from error

    def _working(self, digest: str) -> Path:
        return self.cache / "trees" / f"working-{digest[:20]}"

    def _copied(self, names: Sequence[str]) -> Path:
        """Return a copy under the name of what it holds: a file may have been saved since the checkout was read."""
        with _scratch(self.cache / "trees") as folder:
            made = folder / "tree"
            for name in names:
                (made / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(self.root / name, made / name, follow_symlinks=False)
            tree = self._working(_digest(made, names))
            _move_into_place(made, tree)
        return tree

    def python_for(self, tree: Path) -> str:
        """Return the interpreter for ``tree``: ours where the lock is the checkout's, or one of its own.

        A tree without the package is measured by the installed one, in the environment that it is installed in.
        """
        theirs, ours = tree / LOCK, self.root / LOCK
        if (
            not holds_package(tree)
            or not theirs.is_file()
            or (ours.is_file() and theirs.read_bytes() == ours.read_bytes())
        ):
            return sys.executable
        key = hashlib.sha256(theirs.read_bytes() + sys.version.encode()).hexdigest()[:20]
        folder = self.cache / "environments" / key
        install(folder, ["--require-hashes", "--requirement", str(theirs)])
        return str(folder / "bin" / "python")


def same_files(one: Path, other: Path) -> bool:
    """Say whether two trees hold the same: a commit and a clean checkout of it are two folders."""
    names = [_held(tree) for tree in (one, other)]
    try:
        return names[0] == names[1] and all(_content(one / name) == _content(other / name) for name in names[0])
    except OSError:  # nobody says that they are
        return False


def _held(tree: Path) -> dict[str, int]:
    """Return the bytes of each file and link of a tree, byte code aside."""
    found: dict[str, int] = {}
    for folder, folders, files in os.walk(tree):
        folders[:] = [name for name in folders if name != "__pycache__"]
        links = [name for name in folders if (Path(folder) / name).is_symlink()]
        places = (Path(folder) / name for name in (*files, *links))
        found |= {str(place.relative_to(tree)): place.lstat().st_size for place in places}
    return found


def own_code(root: Path, cache: Path | None = None) -> Path:
    """Return a copy of the code in ``root`` where it is a git checkout; an installed package stays as it is."""
    if not (root / ".git").exists():
        return root
    tree = Repository(root=root, cache=cache or default_cache()).snapshot()
    compile_tree(tree, sys.executable)
    return tree


def package_alone(root: Path, cache: Path) -> Path:
    """Return a folder with a copy of the package in ``root`` and nothing else."""
    found = sorted(
        path for path in (root / "qwenperf").rglob("*") if path.is_file() and "__pycache__" not in path.parts
    )
    names = [str(path.relative_to(root)) for path in found]
    tree = Repository(root=root, cache=cache).copied(names)
    compile_tree(tree, sys.executable)
    return tree


def holds_package(tree: Path) -> bool:
    """Say whether ``tree`` is one of this package: any other is somebody's own repository."""
    return (tree / "qwenperf" / "__init__.py").is_file()


def compile_tree(tree: Path, python: str, names: Sequence[str] = ("qwenperf",)) -> None:
    """Leave the byte code of packages in ``tree``: every process of a comparison would make it anew otherwise.

    Where the environment forbids writing it, none does it by itself. What does not compile is told by its process.
    """
    command = [python, "-m", "compileall", "-q", *(str(tree / name) for name in names if (tree / name).exists())]
    if command[-1] == "-q":  # then it would compile all that Python has
        return
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        subprocess.run(command, capture_output=True, timeout=_GIT_LIMIT_S, check=False)


def install(folder: Path, requirements: Sequence[str], python: str = sys.executable) -> None:
    """Make a virtual environment in ``folder`` and install into it, unless it is there; ``complete`` marks a whole one.

    A second process that wants the same one waits for the first.

    Raises:
      MeasurementError: it cannot be made; says what the installer said.
      OutputError: the cache cannot be written.
    """
    with _caching(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        opened = (folder.parent / f".{folder.name}.lock").open("w")
    with opened as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").is_file():
            _install(folder, requirements, python)


def _install(folder: Path, requirements: Sequence[str], python: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    uv = find_uv()
    # Debian's Python has no venv of its own.
    venv = [uv, "venv", "--quiet", "--python", python] if uv else [python, "-m", "venv"]
    _run([*venv, str(folder)], f"the environment {folder}")
    target = str(folder / "bin" / "python")
    # Byte code at once: else the first processes of this side make it, or each does where the environment forbids it,
    # and the other side, whose packages have theirs, starts faster.
    compiling = ("--quiet", "--compile-bytecode") if uv else ("--quiet", "--compile")
    pip = [uv, "pip", "install", "--python", target] if uv else [target, "-m", "pip", "install"]
    _run([*pip, *compiling, *requirements], f"the packages of {folder}")
    (folder / "complete").touch()


def _run(command: Sequence[str], what: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_LIMIT_S, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise MeasurementError(f"{what} cannot be made: {error}.") from error
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())[-400:]
        raise MeasurementError(f"{what} cannot be made: {said}")


def _export(root: Path, sha: str, folder: Path) -> None:
    """Write the files of a commit as a checkout would: an archive leaves out and rewrites what attributes say."""
    index = {"GIT_INDEX_FILE": str(folder / "index")}
    git(root, "read-tree", sha, environ=index)
    git(root, "checkout-index", "--all", "--quiet", f"--prefix={folder / 'tree'}/", environ=index)
    if not (folder / "tree").is_dir():
        raise MeasurementError(f"commit {sha[:10]} cannot be exported: it has no file.")


@contextlib.contextmanager
def _scratch(parent: Path) -> Iterator[Path]:
    """Make a folder beside those of the cache in which a tree is made; it is removed with what is left in it."""
    with _caching(parent):
        parent.mkdir(parents=True, exist_ok=True)
        made = tempfile.TemporaryDirectory(dir=parent, prefix=".tree-")
    with made as folder:
        yield Path(folder)


@contextlib.contextmanager
def _caching(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _unwritable(place, error) from error


def _unwritable(place: Path, error: OSError) -> OutputError:
    advice = "Trees and environments go into QWENPERF_CACHE: name a folder that can be written and has room."
    return OutputError(f"cannot write {place}: {error.strerror or error}.", advice=advice)


def _digest(root: Path, names: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for name in names:
        digest.update(os.fsencode(name) + b"\0" + hashlib.sha256(_content(root / name)).digest())
    return digest.hexdigest()


def _is_held(place: Path) -> bool:
    """Say whether git holds what lies there: a file or a link, and no folder of another repository."""
    return place.is_symlink() or place.is_file()


def _content(place: Path) -> bytes:
    """Return what git holds of a file or link: of a link where it leads."""
    return b"link " + os.fsencode(place.readlink()) if place.is_symlink() else place.read_bytes()


def _move_into_place(made: Path, place: Path) -> None:
    """Rename; whoever was faster has made the same."""
    try:
        made.rename(place)
    except OSError:
        if not place.is_dir():
            raise


def git(folder: Path, *arguments: str, environ: Mapping[str, str] | None = None) -> str:
    """Return what git says in ``folder``, told more by ``environ``; bytes that are no UTF-8 as in names of files.

    Raises:
      UsageError: it refuses; in its words.
      EnvironmentUnfitError: it does not run.
    """
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, timeout=_GIT_LIMIT_S, check=False,
            encoding="utf-8", errors="surrogateescape",
            env=None if environ is None else {**os.environ, **environ},
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise EnvironmentUnfitError(f"git does not run: {error}.") from error
    if done.returncode:
        said = _printable(done.stderr).strip().splitlines()
        raise UsageError(f"git {arguments[0]}: {said[-1] if said else f'exit code {done.returncode}'}.")
    return done.stdout.strip()


def _printable(text: str) -> str:
    """Return a text in which bytes that are no UTF-8 are told as such: no record could hold them."""
    return text.encode(errors="surrogateescape").decode(errors="replace")


def default_cache(environ: Mapping[str, Any] = os.environ) -> Path:
    """Return the folder for trees and environments: ``QWENPERF_CACHE``, else as the XDG base directory says.

    Raises:
      ConfigError: nothing says it, and this user has no home.
    """
    try:
        return cache_folder(environ)
    except RuntimeError as error:
        raise ConfigError(f"no folder for trees and environments: {error}", advice="Set QWENPERF_CACHE.") from error
