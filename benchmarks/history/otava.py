"""Apache Otava's algorithm on the same histories, in an environment of its own: what it needs is nothing of ours.

Fleming et al., "Hunter: Using change point detection to hunt for performance regressions" (2023), a windowed form of
Matteson and James, "A nonparametric approach for multiple change point analysis of multivariate data" (2014).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.history.series import History
from qwenperf.lab.revisions import default_cache

VERSION = "0.8.0"
_NEEDS = ("numpy>=2.2", "scipy>=1.16,<1.17")
"""What its algorithm imports; the rest of what it depends on reads databases."""

_INSTALL_LIMIT_S = 900
_LIMIT_S = 3600

_WORKER = """
import json, sys
from otava.analysis import compute_change_points
found = []
for values in json.load(sys.stdin):
    points, _ = compute_change_points(values)
    found.append([int(point.index) for point in points])
json.dump(found, sys.stdout)
"""


def environment() -> tuple[Path | None, str]:
    """Return the Python of Otava's environment, made where there is none, and in words why there is none."""
    folder = default_cache() / "benchmarks" / f"otava-{VERSION}-py{sys.version_info.major}{sys.version_info.minor}"
    python = folder / "bin" / "python"
    if _works(python):
        return python, ""
    try:
        _run([sys.executable, "-m", "virtualenv", "--quiet", "--clear", str(folder)])
        _run([str(python), "-m", "pip", "install", "--quiet", *_NEEDS])
        _run([str(python), "-m", "pip", "install", "--quiet", "--no-deps", f"apache-otava=={VERSION}"])
    except (OSError, subprocess.SubprocessError) as error:
        return None, f"apache-otava {VERSION} could not be installed: {_last_line(error)}"
    return (python, "") if _works(python) else (None, f"apache-otava {VERSION} does not start")


def _works(python: Path) -> bool:
    try:
        _run([str(python), "-c", "import otava.analysis"])
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def _run(words: Sequence[str]) -> None:
    subprocess.run(words, check=True, capture_output=True, text=True, timeout=_INSTALL_LIMIT_S)


def _last_line(error: Exception) -> str:
    lines = str(getattr(error, "stderr", "") or error).strip().splitlines()
    return lines[-1] if lines else type(error).__name__


def change_points(python: Path, histories: Sequence[History]) -> list[tuple[int, ...]]:
    """Return the places that Otava reports with its defaults: windows of 50 points, p below 0.001."""
    done = subprocess.run(
        [str(python), "-c", _WORKER],
        input=json.dumps([history.values.tolist() for history in histories]),
        check=True,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
    )
    return [tuple(places) for places in json.loads(done.stdout)]
