"""Which pull request a job of GitHub Actions measured, and the head that it was then: as its event says.

What such a job checks out is a merge of that head into the base, which nobody sees.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_SHA = re.compile("[0-9a-f]{40}(?:[0-9a-f]{24})?")
_MOST_BYTES = 20_000_000


def pull_query(commit: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, str]:
    """Return what a service is told of the pull request that ``commit``, a record's, was measured for.

    ``pull_request`` is its number, ``head_sha`` its newest commit when the job began. Empty in any other job, and
    where the record says that it is of another commit than the job's.
    """
    if environ.get("GITHUB_EVENT_NAME") != "pull_request":
        return {}
    event = _event(environ.get("GITHUB_EVENT_PATH", ""))
    pull = event.get("pull_request") if isinstance(event, dict) else None
    head = pull.get("head") if isinstance(pull, dict) else None
    sha = head.get("sha") if isinstance(head, dict) else None
    number = event.get("number") if isinstance(event, dict) else None
    if type(number) is not int or number < 1 or not isinstance(sha, str) or not _SHA.fullmatch(sha):
        return {}
    if commit.get("sha") not in {None, sha, environ.get("GITHUB_SHA")}:
        return {}
    return {"pull_request": str(number), "head_sha": sha}


def _event(path: str) -> Any:
    try:
        if not path or Path(path).stat().st_size > _MOST_BYTES:
            return None
        return json.loads(Path(path).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
