"""Which commit is measured: asked of git, and empty where there is none."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_HEADS = "refs/heads/"
_TAGS = "refs/tags/"
_MAIN = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
_TIMEOUT_S = 10


def describe_commit(folder: Path) -> dict[str, Any]:
    """Return ``sha``, ``branch``, ``committed_at`` and ``dirty`` (tracked files differ) of ``folder``'s checkout."""
    head = _git(folder, "show", "--no-patch", "--no-show-signature", "--format=%H%n%cI", "HEAD")
    if not head:
        return {}
    sha, committed_at = head.splitlines()[:2]
    return {
        "sha": sha,
        "branch": _branch(folder, sha, os.environ),
        "committed_at": committed_at,
        "dirty": bool(_git(folder, "status", "--porcelain", "--untracked-files=no")),
    }


def _branch(folder: Path, sha: str, environ: Mapping[str, str]) -> str:
    """Return the branch of the checkout, or the one that a CI job built of this commit: its checkout is of none."""
    found = _git(folder, "rev-parse", "--abbrev-ref", "HEAD") or ""
    if found not in {"", "HEAD"}:
        return found
    if sha == environ.get("CI_COMMIT_SHA") and environ.get("CI_COMMIT_BRANCH"):
        return environ["CI_COMMIT_BRANCH"]
    ref = environ.get("GITHUB_REF", "")
    if sha == environ.get("GITHUB_SHA") and ref.startswith(_HEADS):
        return ref.removeprefix(_HEADS)
    return _tag(folder) or found


def _tag(folder: Path) -> str:
    """Return the tag of a detached checkout, as a name that no branch has; empty where the main branch has its commit.

    A commit of no branch counts as one of the main branch, and a tag is as often that of a line of old releases.
    """
    tags = (_git(folder, "tag", "--points-at", "HEAD") or "").splitlines()
    if not tags or any(_git(folder, "merge-base", "--is-ancestor", "HEAD", main) is not None for main in _MAIN):
        return ""
    return f"{_TAGS}{tags[0]}"


def _git(folder: Path, *arguments: str) -> str | None:
    """Return what git prints, ``None`` when it is absent, fails or hangs."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, encoding="utf-8", errors="replace",
            check=True, timeout=_TIMEOUT_S,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
