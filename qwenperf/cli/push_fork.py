"""Where the branch of a run left the main one: as git knows it, or else the CI that merged the two; nothing is guessed.

A service compares the run with the main branch's runs up to there, and not with what came to that branch later.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_MAIN = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
_SHA = re.compile("[0-9a-f]{40}(?:[0-9a-f]{24})?")
_TIMEOUT_S = 10
_MOST_BYTES = 20_000_000
_BASES = {"pull_request": ("pull_request", "base", "sha"), "merge_group": ("merge_group", "base_sha")}
"""Events whose commit is a merge of a branch into its base, and where they name that base."""


def fork_query(commit: Mapping[str, Any], folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return what a service is told of the fork point of ``commit``, a record's: ``fork_point`` and ``forked_at``.

    Empty on the main branch, and where neither git in ``folder`` nor the CI of ``environ`` knows it. A changed tree
    left its branch at the commit that it was made of.
    """
    sha = commit.get("sha")
    if not isinstance(sha, str) or not _SHA.fullmatch(sha):
        return {}
    base = _merge_base(folder, sha) or _told_by_ci(sha, environ)
    if not _SHA.fullmatch(base) or (base == sha and commit.get("dirty") is not True):
        return {}
    at = _git(folder, "show", "--no-patch", "--no-show-signature", "--format=%cI", base)
    return {"fork_point": base, **({"forked_at": at} if at else {})}


def _merge_base(folder: Path, sha: str) -> str:
    """Return the newest commit that ``sha`` shares with the first main branch that git knows; empty: it knows none."""
    for branch in _MAIN:
        main = _git(folder, "rev-parse", "--verify", "--quiet", f"{branch}^{{commit}}")
        if main:
            return _git(folder, "merge-base", main, sha)
    return ""


def _told_by_ci(sha: str, environ: Mapping[str, str]) -> str:
    """Return the base that GitHub or GitLab names for the commit of a job, whose checkout may have no history."""
    if sha == environ.get("CI_COMMIT_SHA"):
        return environ.get("CI_MERGE_REQUEST_DIFF_BASE_SHA", "")
    keys = _BASES.get(environ.get("GITHUB_EVENT_NAME", ""), ())
    if not keys or sha != environ.get("GITHUB_SHA"):
        return ""
    found = _event(environ.get("GITHUB_EVENT_PATH", ""))
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, str) else ""


def _event(path: str) -> Any:
    try:
        if not path or Path(path).stat().st_size > _MOST_BYTES:
            return None
        return json.loads(Path(path).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def _git(folder: Path, *words: str) -> str:
    """Return what git prints; nothing where it is absent, fails or hangs, or does not know these commits."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, check=True, timeout=_TIMEOUT_S
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
