"""What git knows of a history: when the last release was, and which costs its commits accept."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from qwenperf.errors import ConfigError
from qwenperf.gate.excuses import TRAILER, from_trailers
from qwenperf.schema.regressions import Cause, Form, Regression, RegressionStatus
from qwenperf.schema.times import utc

_TIMEOUT_S = 10
_HASH = re.compile("[0-9a-fA-F]{7,64}")


def last_release(folder: Path) -> str:
    """Return when the newest commit with a tag before ``folder``'s HEAD was made, ISO 8601; empty without git or tags.

    A tag is often made long after its commit: what was committed in between came after the release.
    """
    # Of a tag with a message the first of the two is its commit's time, of one without the second.
    form = "--format=%(*committerdate:iso-strict)%(committerdate:iso-strict)"
    return max(_git(folder, "for-each-ref", "--merged", "HEAD", form, "refs/tags").split(), key=utc, default="")


def with_acceptance(folder: Path, one: Regression, now: str) -> Regression:
    """Return a new regression accepted where its likeliest commit says so, in the trailer that `compare` reads.

    Only what came between that commit and the one measured before it counts: somebody accepted that change, and not
    whatever else is near.
    """
    line = ("", one.good, *one.commits)
    if one.status is not RegressionStatus.NEW or one.cause is not Cause.CODE or one.form is not Form.STEP:
        return one
    before = line[line.index(one.commit) - 1] if one.commit in one.commits else ""
    # Records are anybody's: what is no hash could be an option of git that writes files.
    if not all(_HASH.fullmatch(sha) for sha in (before, one.commit)):
        return one
    told = _git(folder, "log", f"--format=%(trailers:key={TRAILER},valueonly,unfold)", f"{before}..{one.commit}", "--")
    try:
        excuses = from_trailers(line.strip() for line in told.splitlines() if line.strip())
    except ConfigError:  # compare has refused it, or nobody asked; it accepts nothing here
        return one
    reason = next((each.reason for each in excuses if fnmatchcase(one.case, each.pattern)), "")
    return replace(one, status=RegressionStatus.ACCEPTED, reason=reason, accepted_at=now) if reason else one


def _git(folder: Path, *words: str) -> str:
    """Return what git prints; nothing where it is absent, fails or hangs, or does not know these commits."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, encoding="utf-8", errors="replace", check=True,
            timeout=_TIMEOUT_S,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
