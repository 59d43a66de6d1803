"""Which pull request a job of GitHub Actions measured, and the head that it was then: as its event says.

What such a job checks out is a merge of that head into the base, which nobody sees.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qwenperf.cli.ci_event import SHA, read_event


def pull_query(commit: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, str]:
    """Return what a service is told of the pull request that ``commit``, a record's, was measured for.

    ``pull_request`` is its number, ``head_sha`` its newest commit when the job began. Empty in any other job, and
    where the record says that it is of another commit than the job's.
    """
    if environ.get("GITHUB_EVENT_NAME") != "pull_request":
        return {}
    event = read_event(environ.get("GITHUB_EVENT_PATH", ""))
    pull = event.get("pull_request") if isinstance(event, dict) else None
    head = pull.get("head") if isinstance(pull, dict) else None
    sha = head.get("sha") if isinstance(head, dict) else None
    number = event.get("number") if isinstance(event, dict) else None
    if type(number) is not int or number < 1 or not isinstance(sha, str) or not SHA.fullmatch(sha):
        return {}
    measured = commit.get("sha")  # of a file that nobody has checked: it may be anything
    if measured is not None and measured != sha and measured != environ.get("GITHUB_SHA"):
        return {}
    return {"pull_request": str(number), "head_sha": sha}
