"""Is the package that is imported really the commit's? Compared file by file with git, before anything is timed.

ASV measures whatever ``import`` finds: another version that shadows the installed one, or a working tree with changes,
would become a commit's numbers without anybody noticing.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from qwenperf.errors import EnvironmentUnfitError

COMMIT = "ASV_COMMIT"
"""The variable by which ASV tells its environments their commit. It tells an existing environment nothing."""

_SHOWN = 5


def check_commit(package: str, repository: str | Path, *, tree: str = "", generated: tuple[str, ...] = ()) -> str:
    """Return the commit whose ``package`` is imported, after comparing every file of it.

    The commit is what ASV says (``ASV_COMMIT``); an existing environment, which it tells nothing, has to be HEAD.

    Args:
      package: the name that is imported.
      repository: a folder or file in the repository that has the commit, such as ``__file__`` of the suite.
      tree: the package's folder in the repository, such as ``src/mine``; the package's own name by default.
      generated: files in the package that a build makes and git does not have, such as ``_version.py``.

    Raises:
      EnvironmentUnfitError: the imported package is not the commit's; names the files. Or there is no package, no
        commit or no git.
    """
    folder = Path(repository).resolve()
    folder = folder if folder.is_dir() else folder.parent
    root = Path(_git(folder, "rev-parse", "--show-toplevel"))
    commit = _git(root, "rev-parse", "--verify", f"{os.environ.get(COMMIT) or 'HEAD'}^{{commit}}")
    place = imported_from(package)
    wanted = dict(_files(root, commit, tree or package.replace(".", "/")))
    if not wanted:
        raise EnvironmentUnfitError(f"commit {commit[:10]} has no folder {tree or package}.", advice="Say tree=.")
    differing = sorted(differences(place, wanted, generated))
    if differing:
        more = f" and {len(differing) - _SHOWN} more" if differing[_SHOWN:] else ""
        raise EnvironmentUnfitError(
            f"{package} is imported from {place} and is not commit {commit[:10]}'s: "
            f"{', '.join(differing[:_SHOWN])}{more}.",
            advice="Commit your changes, or let ASV build an environment for the commit.",
        )
    return commit


def imported_from(package: str) -> Path:
    """Return the folder that ``import package`` takes it from.

    Raises:
      EnvironmentUnfitError: there is none.
    """
    spec = find_spec(package)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    if not places:
        raise EnvironmentUnfitError(f"there is no package {package} to import here.", advice="Is it installed?")
    return Path(places[0])


def differences(place: Path, wanted: Mapping[str, str], generated: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield what differs between a package's folder and a commit's ``{file: git's hash}``, in words.

    A file that is no Python may be missing: a wheel need not have all.
    """
    for name, digest in wanted.items():
        file = place / name
        if not file.is_file():
            if name.endswith(".py"):
                yield f"{name} is missing"
        elif blob_hash(file.read_bytes(), len(digest)) != digest:
            yield f"{name} differs"
    for file in place.rglob("*.py"):
        name = file.relative_to(place).as_posix()
        if name not in wanted and name not in generated:
            yield f"{name} is not in the commit"


def blob_hash(data: bytes, length: int = 40) -> str:
    """Return git's hash of a file: SHA-1, or SHA-256 in a repository whose hashes are that long."""
    kind = hashlib.sha256 if length == 64 else hashlib.sha1
    return kind(b"blob %d\0" % len(data) + data).hexdigest()


def _files(root: Path, commit: str, tree: str) -> Iterator[tuple[str, str]]:
    """Yield path below ``tree`` and hash of each file of a commit."""
    prefix = f"{tree.strip('/')}/"
    for line in _git(root, "ls-tree", "-r", "-z", commit, "--", prefix).split("\0"):
        if line:
            about, name = line.split("\t", 1)
            mode, _, digest = about.split()
            if mode.startswith("100"):  # files; links and submodules are nothing that is imported
                yield name.removeprefix(prefix), digest


def _git(folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ("git", "-C", str(folder), *arguments), capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = " ".join(str(getattr(error, "stderr", "") or error).split())
        raise EnvironmentUnfitError(f"git does not say what is measured: {said}.") from error
    return done.stdout.strip()
