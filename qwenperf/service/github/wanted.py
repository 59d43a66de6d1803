"""What GitHub may be told of a record that arrived: by whose word it is of which commit. Pure.

The repository is the one that an admin linked, and never what a record names. Of a job, its identity says the commit
and the pull request, and a record of any other commit is refused: a job may carry a stranger's record. Of a token, the
record's word counts only where an admin said so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_PULL = re.compile(r"refs/pull/([1-9][0-9]{0,8})/merge")
_HEADS = "refs/heads/"
_OWN = frozenset({"push", "pull_request", "merge_group", "schedule", "workflow_dispatch"})
"""Events whose jobs measure the commit that they are of. Others have rights, and work on what strangers sent."""


def is_sha(text: str) -> bool:
    """Say whether this is a commit with all its digits."""
    return _SHA.fullmatch(text) is not None


def check_name(project: str) -> str:
    """Return the name of a project's check, which a repository may require, and of its comment."""
    return f"qwenperf/{project}"


@dataclass(frozen=True, kw_only=True)
class Link:
    """The repository that a project is linked to. ``tokens``: what is pushed with a token is told of, too."""

    repository_id: str
    repository: str
    tokens: bool = False


@dataclass(frozen=True, kw_only=True)
class Sent:
    """What is known of a record that arrived.

    ``commit`` and ``branch`` are the record's words; ``pull`` and ``head`` those of whoever sent it; ``kind`` and
    ``job`` are the identity's, which the issuer vouches for.
    """

    commit: str
    branch: str = ""
    pull: int | None = None
    head: str = ""
    kind: str = "token"
    job: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A commit to tell of, or why there is none (``refused``).

    ``sha`` is the commit, empty where GitHub is asked for the head of ``pull``: a job measures a merge of it
    (``merge``), which nobody sees. ``head`` is what that head was when the job began, as the job says. ``branch`` is
    where the head of a pull request lies whose number is not known.
    """

    sha: str = ""
    pull: int | None = None
    merge: str = ""
    head: str = ""
    branch: str = ""
    refused: str = ""


def wanted(link: Link, sent: Sent) -> Wanted:
    """Return what GitHub may be told of."""
    if sent.kind == "oidc":
        return _of_job(link, sent)
    if not link.tokens:
        return Wanted(refused="it was pushed with a token, and the link is for jobs of the repository only")
    sha = sent.head or sent.commit
    if _SHA.fullmatch(sha) is None:
        return Wanted(refused="it names no commit with all its digits")
    return Wanted(sha=sha, pull=sent.pull, branch=_branch(sent.branch))


def _of_job(link: Link, sent: Sent) -> Wanted:
    job, sha, ref = sent.job, sent.job.get("sha", ""), sent.job.get("ref", "")
    found = _PULL.fullmatch(ref)
    head = sent.head if found and _SHA.fullmatch(sent.head) else ""
    refused = _untrusted(link, job)
    if not refused and sent.commit not in {"", sha, head}:
        refused = f"it is of commit {sent.commit[:12]}, and the job that pushed it is of {sha[:12]}"
    if refused:
        return Wanted(refused=refused)
    if found:
        return Wanted(pull=int(found[1]), merge=sha, head=head)
    return Wanted(sha=sha, branch=_branch(ref.removeprefix(_HEADS)) if ref.startswith(_HEADS) else "")


def _untrusted(link: Link, job: Mapping[str, str]) -> str:
    """Return why nothing that this job pushes is told of, or nothing."""
    event = job.get("event_name", "")
    if job.get("repository_id") != link.repository_id:
        return f"a job of {job.get('repository', 'another repository')} pushed it"
    if event not in _OWN:
        return f"a job of the event {event or 'unknown'} pushed it, which may carry a stranger's record"
    return "" if _SHA.fullmatch(job.get("sha", "")) else "the identity of its job names no commit"


def _branch(name: str) -> str:
    """Return a branch that GitHub can be asked for; of a detached head nobody knows it."""
    return "" if name == "HEAD" or len(name) > 200 or not name.isprintable() else name
