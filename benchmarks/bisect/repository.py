"""A history of this package in which one commit makes decoding really slower, and the others change comments.

All that git hashes is fixed, so that a history that is made again, after an interruption, has the same commits.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

from qwenperf.errors import ConfigError

COMMITS = 16
"""After the first one, which is good: the last one is bad."""

_CODE = "benchmarks/__init__.py", "benchmarks/verdicts/__init__.py", "benchmarks/verdicts/slowed.py"
_OLD = "decode_step=step or steps.decode_step)"
_NEW = "decode_step=slowed_by(step or steps.decode_step))"
_IMPORT = "from qwenperf.decode.process import check_process\n"

_PLANTED = '''"""How many needless products each decode step does."""

from __future__ import annotations

from typing import Any

PRODUCTS = {products!r}


def slowed_by(step: Any) -> Any:
    """Return ``step`` with the products; ``step`` itself where there are none."""
    if not PRODUCTS:
        return step
    from benchmarks.verdicts.slowed import wasting

    return wasting(step, PRODUCTS)
'''


def make_repository(place: Path, root: Path, *, culprit: int, products: float) -> str:
    """Make the history in ``place`` and return the hash of its commit number ``culprit``, the slow one; 1 is the first.

    Raises:
      ConfigError: ``culprit`` is none of its commits, or the package of ``root`` cannot be slowed as this does it.
    """
    if not 1 <= culprit <= COMMITS:
        raise ConfigError(f"commit {culprit} is none of 1 to {COMMITS}.")
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    shutil.copytree(root / "qwenperf", place / "qwenperf", ignore=shutil.ignore_patterns("__pycache__"))
    for name in _CODE:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, place / name)
    _patch(place / "qwenperf" / "decode" / "build.py")
    _git(place, "init", "-q", "-b", "main")
    _plant(place, 0.0)
    _commit(place, 0, "Begin")
    draw = random.Random(culprit)  # noqa: S311  (which files are touched)
    found = ""
    for number in range(1, COMMITS + 1):
        _touch(place, number, draw)
        if number == culprit:
            _plant(place, products)
        _commit(place, number, f"Change {number}")
        if number == culprit:
            found = _git(place, "rev-parse", "HEAD")
    return found


def _patch(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    if text.count(_OLD) != 1 or _IMPORT not in text:
        raise ConfigError(f"{file} is not what it was: nothing can be planted in it.")
    text = text.replace(_OLD, _NEW).replace(_IMPORT, f"from qwenperf.decode.planted import slowed_by\n{_IMPORT}")
    file.write_text(text, encoding="utf-8")


def _plant(place: Path, products: float) -> None:
    text = _PLANTED.format(products=products)
    (place / "qwenperf" / "decode" / "planted.py").write_text(text, encoding="utf-8")


def _touch(place: Path, number: int, draw: random.Random) -> None:
    """Change what costs nothing: a comment at the end of some files."""
    files = sorted(file for file in (place / "qwenperf").rglob("*.py") if file.name != "planted.py")
    for file in draw.sample(files, 3):
        with file.open("a", encoding="utf-8") as open_file:
            open_file.write(f"\n# Change {number} was here.\n")


def _commit(place: Path, number: int, subject: str) -> None:
    _git(place, "add", ".")
    when = f"2026-01-01T00:{number:02d}:00+00:00"
    _git(place, "commit", "-q", "-m", subject, GIT_AUTHOR_DATE=when, GIT_COMMITTER_DATE=when)


def _git(place: Path, *arguments: str, **environ: str) -> str:
    who = ("-c", "user.name=The bench", "-c", "user.email=bench@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", "-C", str(place), *who, *arguments],
        check=True, capture_output=True, text=True, env=os.environ | environ,
    )  # fmt: skip
    return done.stdout.strip()
