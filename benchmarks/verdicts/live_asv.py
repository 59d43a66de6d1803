"""`asv continuous`, really run on the changes that the live run compares: a repository of two commits, one a side.

A commit holds the case, and the needless products of a step, of its side. asv checks both out, installs each,
times the request in processes of its own as it does by default, and says whether performance decreased (factor 1.1).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.verdicts.live_kinds import Kind
from benchmarks.verdicts.live_peers import ASV_FACTOR
from benchmarks.verdicts.live_try import Bench
from benchmarks.verdicts.slowed import PRODUCTS
from qwenperf.errors import MeasurementError
from qwenperf.lab.sides import Side

_LIMIT_S = 900
_WORSE, _SAME, _BETTER = "PERFORMANCE DECREASED", "NOT SIGNIFICANTLY CHANGED", "PERFORMANCE INCREASED"
_INSTALL = "import shutil, sys; shutil.copy('side.json', sys.argv[1])\n"
_AUTHOR = {f"GIT_{who}_{what}": "live" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def asv_continuous(bench: Bench, kind: Kind) -> dict[str, Any]:
    """Run asv on base and head of ``kind``; return whether it raised the alarm, and the seconds that it took.

    Raises:
      MeasurementError: it timed nothing, or ended otherwise than with one of its answers.
    """
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="qwenperf-asv-") as name:
        folder = Path(name)
        base, head = (commit(folder, side, bench) for side in bench.sides(kind))
        said = _run(folder, bench, base, head)
    return {"alarm": alarm(said), "seconds": round(time.monotonic() - begun, 2)}


def commit(folder: Path, side: Side, bench: Bench) -> str:
    """Commit what a side is, and return the commit's hash; the first call makes the repository."""
    if not (folder / ".git").exists():
        _make(folder, bench.root)
    told = side.cases([bench.case])[0]["case"]
    # Named after the side, so that unchanged code has two commits too.
    environ = {PRODUCTS: side.environ[PRODUCTS]} if PRODUCTS in side.environ else {}
    entry = {"name": side.name, "root": str(bench.root), "environ": environ, "case": told}
    (folder / "side.json").write_text(json.dumps(entry), encoding="utf-8")
    _git(folder, "add", "--all")
    _git(folder, "commit", "--quiet", "--message", side.name)
    return _git(folder, "rev-parse", "HEAD").strip()


def alarm(said: str) -> bool:
    """Return whether asv said that performance decreased.

    Raises:
      MeasurementError: it said nothing of that kind, or a benchmark failed.
    """
    failed = any(f"time_request {word}" in " ".join(said.split()) for word in ("failed", "n/a"))
    if failed or not any(answer in said for answer in (_WORSE, _SAME, _BETTER)):
        raise MeasurementError(f"asv continuous measured nothing: {said.strip()[-400:]}")
    return _WORSE in said


def _make(folder: Path, root: Path) -> None:
    # By another name than ours, where asv's plugin is: the working folder comes first.
    (folder / "timed").mkdir()
    (folder / "timed" / "__init__.py").touch()
    shutil.copy(root / "benchmarks" / "verdicts" / "bench_asv.py", folder / "timed" / "request.py")
    (folder / "install.py").write_text(_INSTALL, encoding="utf-8")
    config = {
        "version": 1, "project": "side", "repo": ".", "branches": ["HEAD"], "benchmark_dir": "timed",
        "environment_type": "here",
        "pythons": [f"{sys.version_info.major}.{sys.version_info.minor}"], "plugins": [".benchmarks.verdicts.asv_here"],
        "build_command": [], "install_command": ["in-dir={build_dir} python install.py {env_dir}"],
        "uninstall_command": [], "env_dir": ".asv/env", "results_dir": ".asv/results", "html_dir": ".asv/html",
    }  # fmt: skip
    (folder / "asv.conf.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / ".gitignore").write_text(".asv\n.asv-machine.json\n", encoding="utf-8")
    _git(folder, "init", "--quiet")


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-c", "commit.gpgsign=false", *arguments], cwd=folder, env={**os.environ, **_AUTHOR},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise MeasurementError(f"git {arguments[0]} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return done.stdout


def _run(folder: Path, bench: Bench, base: str, head: str) -> str:
    environ = asv_environ(folder, bench, os.environ)
    said = ""
    for arguments in (
        ("machine", "--yes"),
        ("continuous", base, head, "--factor", str(ASV_FACTOR), "--launch-method", "spawn", "--show-stderr"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "asv", *arguments], cwd=folder, env=environ, capture_output=True, text=True,
            timeout=_LIMIT_S, check=False,
        )  # fmt: skip
        said = done.stdout + done.stderr
    return said


def asv_environ(folder: Path, bench: Bench, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of asv: it finds its plugin, and keeps what it knows of the machine in ``folder``."""
    side = bench.sides(Kind(name="plain", title="", count=0))[0]
    return {**side.child_environ(environ), "HOME": str(folder), "PYTHONPATH": str(bench.root)}
