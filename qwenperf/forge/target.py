"""What is reported on: repository, commit and pull request, as GitHub's event says and nobody else. Pure.

A job that a fork's pull request starts may write anything into its artifacts, a number of a pull request included.
So where an artifact is reported (``workflow_run``), its commit is the event's and the number is GitHub's answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from qwenperf.errors import UsageError
from qwenperf.forge.api import Api

_REPOSITORY = re.compile(r"[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}")
_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_PULLS = frozenset({"pull_request", "pull_request_target"})
WORKFLOW_RUN = "workflow_run"
_DOTS = frozenset({".", ".."})


@dataclass(frozen=True, kw_only=True)
class Target:
    """A commit of a repository, and the pull requests that it is the newest commit of.

    ``owner`` and ``branch`` say where the head of a pull request lies whose number is not known yet; ``run`` is the
    workflow run that measured.
    """

    repository: str
    sha: str
    pulls: tuple[int, ...] = ()
    owner: str = ""
    branch: str = ""
    head_repository: str = ""
    run: int | None = None

    def __post_init__(self) -> None:
        if not self.repository:
            raise UsageError(
                "no repository is named.", advice="Give --repository OWNER/NAME, or set GITHUB_REPOSITORY."
            )
        if not self.sha:
            raise UsageError("no commit is named.", advice="Give --sha with all 40 digits, or set GITHUB_SHA.")
        if not _REPOSITORY.fullmatch(self.repository) or _DOTS & set(self.repository.split("/")):
            raise UsageError(f"{self.repository!r} is no repository.", advice="Give --repository OWNER/NAME.")
        if not _SHA.fullmatch(self.sha):
            raise UsageError(f"{self.sha!r} is no commit.", advice="Give --sha with all 40 digits.")

    @property
    def path(self) -> str:
        """Start of the paths of its repository."""
        return f"/repos/{self.repository}"


def target_of(name: str, event: Mapping[str, Any], repository: str = "", sha: str = "") -> Target:
    """Return what the event ``name`` is about; ``repository`` and ``sha`` are for events that say neither.

    Raises:
      UsageError: the event lacks what its kind has, or is about another repository.
    """
    told = _text(event, "repository", "full_name")
    if told and repository and told.lower() != repository.lower():
        raise UsageError(f"the event is about {told}, and not about {repository}.")
    repository = told or repository
    if name in _PULLS:
        number = event.get("number")
        if type(number) is not int or number < 1:
            raise UsageError(f"{number!r} is no number of a pull request.")
        return Target(repository=repository, sha=_text(event, "pull_request", "head", "sha"), pulls=(number,))
    if name == WORKFLOW_RUN:
        return _of_workflow_run(event, repository)
    pull = event.get("pull_request")  # of a review, whose job has the merge for its commit, which nobody looks at
    head = _text(pull, "head", "sha")
    if isinstance(pull, Mapping) and head and type(pull.get("number")) is int:
        return Target(repository=repository, sha=head, pulls=(pull["number"],))
    told_sha = _text(event, "merge_group", "head_sha") or _text(event, "after")
    return Target(repository=repository, sha=told_sha or sha)


def _of_workflow_run(event: Mapping[str, Any], repository: str) -> Target:
    run = event.get(WORKFLOW_RUN)
    if not isinstance(run, Mapping) or not isinstance(run.get("id"), int):
        raise UsageError("the event has no workflow run.", advice="Is it the file of $GITHUB_EVENT_PATH?")
    target = Target(repository=repository, sha=_text(run, "head_sha"), run=run["id"])
    if run.get("event") != "pull_request":
        return target
    head = _text(run, "head_repository", "full_name")
    return replace(target, head_repository=head, owner=head.partition("/")[0], branch=_text(run, "head_branch"))


def with_pulls(target: Target, api: Api) -> Target:
    """Return ``target`` with the open pull requests that it is the newest commit of: none for one that moved on.

    An older job that ends last must not overwrite what a newer one said.
    """
    if target.pulls:
        found = [api.ask("GET", f"{target.path}/pulls/{number}") for number in target.pulls]
    elif target.owner and target.branch:
        query: dict[str, str | int] = {"state": "open", "head": f"{target.owner}:{target.branch}", "per_page": 100}
        found = api.ask("GET", f"{target.path}/pulls", query=query)
    else:
        return target
    mine = [one for one in found if isinstance(one, Mapping) and _is_newest(one, target)]
    return replace(target, pulls=tuple(one["number"] for one in mine))


def _is_newest(pull: Mapping[str, Any], target: Target) -> bool:
    head = _text(pull, "head", "repo", "full_name").lower()
    same = not target.head_repository or head == target.head_repository.lower()
    return (
        same
        and _text(pull, "head", "sha") == target.sha
        and _text(pull, "base", "repo", "full_name").lower() == target.repository.lower()
    )


def _text(data: Any, *keys: str) -> str:
    for key in keys:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data if isinstance(data, str) else ""
