"""Addresses of pages: one place that knows their form, and quotes what others have named."""

from __future__ import annotations

import re
from urllib.parse import quote, urlencode

_GITHUB = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100}")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")


def project(name: str, page: str = "") -> str:
    """Return the address of a project's page."""
    return f"/p/{quote(name, safe='')}{f'/{page}' if page else ''}"


def run(name: str, run_name: str) -> str:
    """Return the address of a run."""
    return record("run", name, run_name)


def comparison(name: str, comparison_name: str) -> str:
    """Return the address of a comparison."""
    return record("comparison", name, comparison_name)


def record(kind: str, name: str, record_name: str) -> str:
    """Return the address of a run or comparison: ``kind`` says which."""
    return f"{project(name)}/{kind}s/{quote(record_name, safe='')}"


def compare(name: str, base: str, head: str) -> str:
    """Return the address of two runs side by side."""
    return f"{project(name, 'compare')}?{urlencode({'base': base, 'head': head})}"


def series(name: str, case: str, metric: str, **more: str) -> str:
    """Return the address of a series."""
    return f"{project(name)}/series?{urlencode({'case': case, 'metric': metric} | more)}"


def commit(repository: str, sha: str) -> str:
    """Return the address of a commit on GitHub; nothing where either is not what it should be."""
    if _GITHUB.fullmatch(repository) is None or _COMMIT.fullmatch(sha) is None:
        return ""
    return f"https://github.com/{repository}/commit/{sha}"


def changes(repository: str, base: str, head: str) -> str:
    """Return the address of what lies between two commits on GitHub, or nothing."""
    if not commit(repository, base) or not commit(repository, head):
        return ""
    return f"https://github.com/{repository}/compare/{base}...{head}"


def inside(path: str) -> str:
    """Return ``path`` if it is one of this service, the first page otherwise: nobody is sent elsewhere."""
    return path if re.fullmatch(r"/(?![/\\])[\x21-\x5b\x5d-\x7e]*", path) else "/"


def repository(name: str) -> str:
    """Return the address of a repository on GitHub; nothing where the name is none."""
    return f"https://github.com/{name}" if _GITHUB.fullmatch(name) else ""


def segment(text: str) -> str:
    """Return ``text`` as one part of an address."""
    return quote(text, safe="")


def path(text: str) -> str:
    """Return a path inside a folder as a part of an address."""
    return quote(text, safe="/")


def project_api(name: str) -> str:
    """Return what the API's addresses of a project begin with, behind the version."""
    return f"/projects/{quote(name, safe='')}"
