"""A report as GitHub is told it: a check run with its annotations, and one comment that is kept up to date. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qwenperf.forge.api import Api, ForgeError, understood
from qwenperf.forge.target import Target, with_pulls

MOST_CHARACTERS = 65_535
"""What GitHub takes in a comment, or in a summary."""

MOST_ANNOTATIONS = 50
"""What GitHub takes in one request; the next ones follow in updates."""

SUCCESS, FAILURE, NEUTRAL, CANCELLED = "success", "failure", "neutral", "cancelled"
_INTERRUPTED = 130
_PAGES, _A_PAGE, _TRIES = 30, 100, 3
_TRUSTED = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})
_CUT = "\nMore does not fit here.\n"
_TITLE = 255


def conclusion(exit_code: int, *, is_settled: bool) -> str:
    """Return what a check says: red exactly where the command ends with an error.

    ``is_settled``: everything passed or improved; else a check without failures is neutral. A required check lets
    success and neutral through; ``--inconclusive fail`` makes of noise an error.
    """
    if exit_code == _INTERRUPTED:
        return CANCELLED
    if exit_code:
        return FAILURE
    return SUCCESS if is_settled else NEUTRAL


@dataclass(frozen=True, kw_only=True)
class Report:
    """What is told. ``name`` is that of the check and of the comment; annotations are JSON as GitHub wants it.

    ``external_id`` says which report it is: a check that has it already is not made again.
    """

    name: str
    conclusion: str
    title: str
    summary: str
    details_url: str = ""
    annotations: Sequence[Mapping[str, Any]] = ()
    external_id: str = ""

    @property
    def marker(self) -> str:
        """First line of the comment, which nobody sees and by which it is found again."""
        shown = re.sub(r"[^A-Za-z0-9_.]+", "-", self.name)
        # Names of other scripts have nothing else that tells them apart, and signs are left out of others.
        own = "" if self.name == shown else f" {hashlib.sha256(self.name.encode(errors='replace')).hexdigest()[:12]}"
        return f"<!-- qwenperf: {shown}{own} -->"


@dataclass(frozen=True, kw_only=True)
class Posted:
    """What became of a report: addresses, and why something is not there; or the requests that were not sent."""

    check: str = ""
    comments: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    requests: tuple[Mapping[str, Any], ...] = ()


def post(api: Api, target: Target, report: Report, *, check: bool = True, comment: bool = True) -> Posted:
    """Make the check and the comments; one that fails is no reason to leave the others out."""
    problems: list[str] = []
    comments: list[str] = []
    address = ""
    if check:
        try:
            address = post_check(api, target, report)
        except ForgeError as error:
            problems.append(f"no check: {error}")
    if comment:
        try:
            comments += (post_comment(api, target, number, report) for number in with_pulls(target, api).pulls)
        except ForgeError as error:
            problems.append(f"no comment: {error}")
    return Posted(check=address, comments=tuple(comments), problems=tuple(problems))


def post_check(api: Api, target: Target, report: Report) -> str:
    """Make a completed check run, fifty annotations a request, and return its address.

    One with its ``external_id`` that is the newest of its name there already is left as it is: it may have been made by
    a try whose answer was lost.
    """
    known = _known_check(api, target, report) if report.external_id else None
    if known is not None:
        return known
    batches = list(_batches(report.annotations)) or [()]
    output = {"title": report.title[:_TITLE], "summary": fitted(report.summary)}
    made = api.ask(
        "POST",
        f"{target.path}/check-runs",
        body={
            "name": report.name,
            "head_sha": target.sha,
            "status": "completed",
            "conclusion": report.conclusion,
            "output": {**output, "annotations": list(batches[0])},
            **({"details_url": report.details_url} if report.details_url else {}),
            **({"external_id": report.external_id} if report.external_id else {}),
        },
    )
    with understood():
        for batch in batches[1:]:
            body = {"output": {**output, "annotations": list(batch)}}
            api.ask("PATCH", f"{target.path}/check-runs/{made['id']}", body=body)
        return str(made.get("html_url") or "")


def _known_check(api: Api, target: Target, report: Report) -> str | None:
    """Return the address of the newest check of the report's name, if that is this report."""
    query: dict[str, str | int] = {"check_name": report.name, "filter": "latest", "per_page": _A_PAGE}
    with understood():
        found = api.ask("GET", f"{target.path}/commits/{target.sha}/check-runs", query=query)["check_runs"]
        newest = max(found, key=lambda one: one["id"], default=None)
        if newest is None or (newest["external_id"], newest["conclusion"]) != (report.external_id, report.conclusion):
            return None
        return str(newest.get("html_url") or "")


def post_comment(api: Api, target: Target, number: int, report: Report) -> str:
    """Change the comment that is there, or make one, and return its address.

    Where the answer to a new one is lost it may be there all the same: it is looked for before it is made again.
    """
    body = {"body": fitted(f"{report.marker}\n{report.summary}")}
    place = f"{target.path}/issues/{number}/comments"
    for attempt in range(_TRIES):
        found = _find(api, place, report.marker)
        try:
            if found is None:
                made = api.ask("POST", place, body=body, repeatable=False)
            else:
                made = api.ask("PATCH", f"{target.path}/issues/comments/{found}", body=body)
        except ForgeError as error:
            # Somebody may have deleted it meanwhile.
            gone = found is not None and error.status == 404
            if attempt == _TRIES - 1 or not (error.is_away or gone):
                raise
        else:
            with understood():
                return str(made.get("html_url") or "")
    raise AssertionError  # pragma: no cover


def _find(api: Api, place: str, marker: str) -> int | None:
    """Return the first comment that starts with ``marker``, of a bot or of somebody of the repository.

    Anybody may write a comment that looks like ours: a stranger's is left alone.
    """
    for page in range(1, _PAGES + 1):
        comments = api.ask("GET", place, query={"per_page": _A_PAGE, "page": page})
        with understood():
            found: int | None = next((one["id"] for one in comments if _is_ours(one, marker)), None)
            if found is not None or len(comments) < _A_PAGE:
                return found
    return None


def _is_ours(comment: Mapping[str, Any], marker: str) -> bool:
    author = comment.get("user") or {}
    trusted = author.get("type") == "Bot" or comment.get("author_association") in _TRUSTED
    return trusted and (comment.get("body") or "").startswith(marker)


def _batches(annotations: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[Mapping[str, Any]]]:
    for start in range(0, len(annotations), MOST_ANNOTATIONS):
        yield annotations[start : start + MOST_ANNOTATIONS]


def fitted(text: str) -> str:
    """Return ``text`` cut at a line so that GitHub takes it; it counts as JavaScript does, in units of UTF-16."""
    if _units(text) <= MOST_CHARACTERS:
        return text
    room, kept = MOST_CHARACTERS - len(_CUT), ""
    for line in text.splitlines(keepends=True):
        if _units(line) > room:
            break
        kept, room = kept + line, room - _units(line)
    return kept + _CUT


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "replace")) // 2
