"""Where the branch of a run left the main one: as git knows it, or else the CI that merged the two; nothing is guessed.

A service compares the run with the main branch's runs up to there, and not with what came to that branch later.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from qwenperf.cli.ci_event import SHA, read_event

_MAIN = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
_TIMEOUT_S = 10
_BASES = {"pull_request": ("pull_request", "base", "sha"), "merge_group": ("merge_group", "base_sha")}
"""Events whose commit is a merge of a branch into its base, and where they name that base."""


def fork_query(commit: Mapping[str, Any], folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return what a service is told of the fork point of ``commit``, a record's: ``fork_point`` and ``forked_at``.

    Empty on the main branch, and where neither git in ``folder`` nor the CI of ``environ`` knows it. A changed tree
    left its branch at the commit that it was made of.
    """
    sha = commit.get("sha")
    if not isinstance(sha, str) or not SHA.fullmatch(sha):
        return {}
    merged = environ.get("GITHUB_EVENT_NAME") in _BASES or "CI_MERGE_REQUEST_DIFF_BASE_SHA" in environ
    if not merged and commit.get("dirty") is not True and _is_main(folder, commit.get("branch")):
        return {}  # what git knows of the remote may be older: commits that are not pushed yet left nothing
    base = _merge_base(folder, sha) or _told_by_ci(sha, environ)
    if not SHA.fullmatch(base) or (base == sha and commit.get("dirty") is not True):
        return {}
    at = _git(folder, "show", "--no-patch", "--no-show-signature", "--format=%cI", base)
    return {"fork_point": base, **({"forked_at": at} if at else {})}


def _is_main(folder: Path, branch: Any) -> bool:
    """Say whether a record's branch is the main one by its name; a checkout of no branch is called HEAD and is not."""
    known = _git(folder, "rev-parse", "--abbrev-ref", "origin/HEAD").removeprefix("origin/")
    return branch == known if known not in {"", "HEAD"} else branch in {"main", "master"}


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
    event = read_event(environ.get("GITHUB_EVENT_PATH", "")) if keys else None
    # What is checked out is the merge, or the head alone where the workflow asks for that.
    if sha not in {environ.get("GITHUB_SHA"), _within(event, ("pull_request", "head", "sha"))}:
        return ""
    found = _within(event, keys)
    return found if isinstance(found, str) else ""


def _within(found: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _git(folder: Path, *words: str) -> str:
    """Return what git prints; nothing where it is absent, fails or hangs, or does not know these commits."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, check=True, timeout=_TIMEOUT_S
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
