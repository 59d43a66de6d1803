"""The commits between two ends of a bisection, asked of git. What cannot be searched is refused here."""

from __future__ import annotations

from dataclasses import dataclass

from qwenperf.errors import UsageError
from qwenperf.lab.revisions import Repository, git
from qwenperf.schema.bisection import CommitRecord

_FORM = "%H%x00%P%x00%an%x00%aI%x00%s"


@dataclass(frozen=True, kw_only=True)
class Ends:
    """Two commits and what lies between: ``commits``, parents first, ``bad`` included and ``good`` not."""

    good: CommitRecord
    bad: CommitRecord
    commits: tuple[CommitRecord, ...]


def find_ends(repository: Repository, good: str, bad: str, *, first_parent: bool = False) -> Ends:
    """Return the history from ``good`` to ``bad``; with ``first_parent`` merged branches are single commits.

    Raises:
      UsageError: no such commit, both are the same, or ``good`` is no ancestor of ``bad``; says what would be one.
    """
    old, new = repository.resolve(good), repository.resolve(bad)
    if old == new:
        raise UsageError(f"--good {good} and --bad {bad} are the same commit, {old[:10]}.")
    shared = _merge_base(repository, old, new)
    if shared == new:
        raise UsageError(f"--good {good} is newer than --bad {bad}.", advice="Give the older, unchanged one as --good.")
    if shared != old:
        advice = f"They have {shared[:10]} in common: give it as --good." if shared else "They share no history."
        raise UsageError(f"--good {good} is no ancestor of --bad {bad}.", advice=advice)
    chosen = ["--first-parent"] if first_parent else []
    commits = _log(repository, "--topo-order", "--reverse", *chosen, f"{old}..{new}")
    return Ends(good=_log(repository, "--max-count=1", old)[0], bad=commits[-1], commits=commits)


def parents_of(ends: Ends, *, first_parent: bool) -> dict[str, tuple[str, ...]]:
    """Return the parents of each commit between, parents first, as a search wants them."""
    return {one.sha: one.parents[:1] if first_parent else one.parents for one in ends.commits}


def _merge_base(repository: Repository, old: str, new: str) -> str:
    """Return a commit that both have; empty where they share none."""
    try:
        return git(repository.root, "merge-base", old, new)
    except UsageError:
        return ""


def _log(repository: Repository, *arguments: str) -> tuple[CommitRecord, ...]:
    told = git(repository.root, "log", "--no-show-signature", f"--format={_FORM}", *arguments, "--")
    fields = [line.split("\0") for line in told.split("\n")]
    return tuple(
        CommitRecord(sha=sha, parents=tuple(parents.split()), author=author, date=date, subject=subject)
        for sha, parents, author, date, subject in fields
    )
