"""Posts what waits: asks GitHub which commit it is of, makes the check and the comment, and tries again where it may.

Whatever GitHub does, no request of the service waits for it and no record is lost: what failed is in the list of posts,
on the page of the record, in the log and in the metrics.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sqlalchemy import Row

from qwenperf.errors import QwenperfError
from qwenperf.forge.api import ForgeError, GitHub, understood
from qwenperf.forge.report import post_check, post_comment
from qwenperf.forge.target import Target, with_pulls
from qwenperf.service.context import Service
from qwenperf.service.db import github
from qwenperf.service.github.access import Access, CredentialsError
from qwenperf.service.github.telling import report
from qwenperf.service.notify import MOST_TRIES, pause_s
from qwenperf.service.problems import ServiceUnavailableError
from qwenperf.service.texts import words
from qwenperf.service.times import SECOND_US

_LOG = logging.getLogger("qwenperf.service")
_AT_ONCE = 10
_MOST_WORDS = 500


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What became of a try. ``final``: another would end alike. ``again_s``: seconds that GitHub asks to wait."""

    check: str = ""
    comment: str = ""
    problem: str = ""
    final: bool = False
    again_s: float = 0.0


class MovedOnError(QwenperfError):
    """What was measured is no longer what GitHub shows."""


def post_due(service: Service, access: Access) -> int:
    """Post some of what is due, and return how many tries that took.

    Raises:
      ServiceUnavailableError: the database cannot be reached; what waits is posted later.
    """
    for count in range(_AT_ONCE):
        now = service.clock()
        with service.database.read() as connection:
            if not github.is_due(connection, now):
                return count
        row = service.database.write(partial(github.claim, now=now, judges=service.settings.judge))
        if row is None:
            return count
        _settle(service, row, _tried(service, access, row))
    return _AT_ONCE


def _tried(service: Service, access: Access, row: Row[Any]) -> Answer:
    """Try once; whatever goes wrong is an answer, so that no other post waits for it."""
    try:
        return _post(service, access, row)
    except ServiceUnavailableError:
        raise
    except ForgeError as error:
        if error.status in {401, 403, 404} and row.repository:
            access.forget(row.repository, row.repository_id)
        return Answer(problem=_line(error), final=not _passes(error), again_s=error.again_s or 0.0)
    except CredentialsError as error:
        return Answer(problem=_line(error))
    except QwenperfError as error:
        return Answer(problem=_line(error), final=True)
    except Exception:  # noqa: BLE001  (one bad record must not keep all others from being told)
        _LOG.exception("bug in telling GitHub of commit %s of project %s", row.sha or row.merge, row.project)
        return Answer(problem="a bug of the service, which its log shows", final=True)


def _passes(error: ForgeError) -> bool:
    """Say whether another try may end otherwise: GitHub was away, or wants fewer requests, or a token ran out."""
    return error.is_away or error.again_s is not None or error.status == 401


def _line(error: QwenperfError) -> str:
    return words(" ".join(f"{error.message} {error.advice}".split()), _MOST_WORDS)


def _post(service: Service, access: Access, row: Row[Any]) -> Answer:
    if row.repository is None or row.linked_id != row.repository_id:
        return Answer(problem="the project is linked to another repository by now", final=True)
    api = access.to(row.repository, row.repository_id)
    target = _target(api, row)
    if row.sha != target.sha:
        service.database.write(partial(github.found_sha, number=row.id, sha=target.sha))
    with service.database.read() as connection:
        told = report(connection, row, target.sha, service.settings.public_url)
    problems: list[str] = []
    check, comment = _unless_refused(lambda: post_check(api, target, told), "check", problems), ""
    for number in target.pulls:
        comment = _unless_refused(partial(post_comment, api, target, number, told), "comment", problems)
    return Answer(check=check, comment=comment, problem="; ".join(problems), final=True)


def _unless_refused(work: Callable[[], str], noun: str, problems: list[str]) -> str:
    """Return the address of what was made; a refusal is one of ``problems`` and no reason to leave the other out.

    A token of a person, say, may comment and make no checks.
    """
    try:
        return work()
    except ForgeError as error:
        if _passes(error):
            raise
        problems.append(f"no {noun}: {_line(error)}")
        return ""


def _target(api: GitHub, row: Row[Any]) -> Target:
    """Return the commit to tell of, and the open pull requests whose newest it is.

    Raises:
      MovedOnError: a job measured a merge of what was the head of its pull request and is no more.
    """
    if row.merge and row.pull is not None:
        return _of_merge(api, row)
    named = Target(repository=row.repository, sha=row.sha)
    if row.pull is not None:
        named = replace(named, pulls=(row.pull,))
    elif row.branch:
        owner = row.repository.partition("/")[0]
        named = replace(named, owner=owner, branch=row.branch, head_repository=row.repository)
    with understood():
        return with_pulls(named, api)


def _of_merge(api: GitHub, row: Row[Any]) -> Target:
    with understood():
        pull: Mapping[str, Any] = api.ask("GET", f"/repos/{row.repository}/pulls/{row.pull}")
        head, merge, base = str(pull["head"]["sha"]), pull["merge_commit_sha"], str(pull["base"]["repo"]["id"])
    if base != row.repository_id:
        raise MovedOnError(f"pull request {row.pull} is one of another repository.")
    # GitHub makes the merge anew some time after base or head moved: until then it is that of an older head.
    # So the job's own word counts where it said which head it was.
    if (row.head != head) if row.head else (row.merge != merge):
        raise MovedOnError(f"pull request {row.pull} has moved on since.")
    return Target(repository=row.repository, sha=head, pulls=(row.pull,))


def _settle(service: Service, row: Row[Any], answer: Answer) -> None:
    at = service.clock()
    state = _state(row, answer)
    wait_s = max(answer.again_s, pause_s(row.tries))
    values: dict[str, Any] = {"state": state, "problem": answer.problem, "next_at": at + round(wait_s * SECOND_US)}
    addresses = {"check_url": answer.check, "comment_url": answer.comment}
    values |= {name: value for name, value in addresses.items() if value.startswith(("https://", "http://"))}
    service.database.write(partial(github.settle, number=row.id, at=at, **values))
    service.counters.add("github_tries", state=state)
    if answer.problem:
        told = "GitHub was not told of commit %s of project %s (try %d, %s): %s"
        _LOG.warning(told, row.sha or row.merge, row.project, row.tries, state, answer.problem)


def _state(row: Row[Any], answer: Answer) -> str:
    if not answer.problem:
        return github.SENT
    return github.FAILED if answer.final or row.tries >= MOST_TRIES else github.WAITING
