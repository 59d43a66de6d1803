"""A record on its way to GitHub: read from a folder or out of an archive, summed up, with its exit code."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from qwenperf.cli.files import is_there
from qwenperf.cli.report import read_record
from qwenperf.errors import RecordError
from qwenperf.gate import comparison as compared
from qwenperf.gate.verdict import exit_code, strongest
from qwenperf.report.annotations import remarks
from qwenperf.report.html_signs import FAIL, GOOD
from qwenperf.report.markdown import summary
from qwenperf.report.markdown_text import line, prose
from qwenperf.schema.codec import comparison_loads, loads
from qwenperf.schema.comparison import ComparisonRecord
from qwenperf.schema.records import RunRecord


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A record summed up. ``is_settled``: all of it passed, so that no doubt is left. ``sha``: the commit it says."""

    exit_code: int
    is_settled: bool
    title: str
    text: str
    link: str
    annotations: tuple[Mapping[str, Any], ...]
    sha: str = ""


def judged_place(place: Path, link: str, inconclusive: str) -> Judged:
    """Return the record in a folder, in a file or in a ``.zip``.

    Raises:
      RecordError: nothing there, or no such record.
    """
    if place.suffix == ".zip" and is_there(place) and place.is_file():
        return judged_archive(_archive(place), str(place), link, inconclusive)
    record, file = read_record(place)
    return _judged(record, str(file), link, inconclusive)


def judged_archive(archive: bytes, source: str, link: str, inconclusive: str) -> Judged:
    """Return the record in an archive of which nothing is believed; errors as ``judged_place``."""
    from qwenperf.forge.artifact import record_in

    name, text = record_in(archive, source)
    where = f"{source}: {name}"
    read = comparison_loads if name.rpartition("/")[2] == "comparison.json" else loads
    return _judged(read(text, where), where, link, inconclusive)


def unreadable(error: RecordError, link: str) -> Judged:
    """Return what is told of a record that could not be read."""
    title = line(f"no record: {error}", 250)
    text = f"### {FAIL.mark} {prose(title)}\n"
    return Judged(exit_code=error.exit_code, is_settled=False, title=title, text=text, link=link, annotations=())


def _archive(place: Path) -> bytes:
    from qwenperf.forge.artifact import MOST_ARCHIVE

    try:
        with place.open("rb") as file:
            return file.read(MOST_ARCHIVE + 1)
    except OSError as error:
        raise RecordError(f"cannot read {place}: {error.strerror}.") from error


def _judged(record: RunRecord | ComparisonRecord, source: str, link: str, inconclusive: str) -> Judged:
    try:
        told = summary(record, link)
        found = remarks(record, _tracked())
        code = _exit_code(record, inconclusive)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise RecordError(f"{source}: it holds what this version does not write: {error}.") from error
    return Judged(
        exit_code=code,
        is_settled=told.sign.kind == GOOD,
        title=told.title,
        text=told.text,
        link=link,
        annotations=tuple(_annotation(asdict(one)) for one in found),
        sha=str((record.head if isinstance(record, ComparisonRecord) else record).commit.get("sha") or ""),
    )


def _exit_code(record: RunRecord | ComparisonRecord, inconclusive: str) -> int:
    if isinstance(record, ComparisonRecord):
        return compared.exit_code(record, inconclusive)
    others = [case.extra["exit_code"] for case in record.cases if "exit_code" in case.extra]
    return strongest([exit_code(record, inconclusive), *(code if isinstance(code, int) else 70 for code in others)])


def _annotation(found: Mapping[str, Any]) -> Mapping[str, Any]:
    number = found["line"]
    place = {"path": found["path"], "start_line": number, "end_line": number, "annotation_level": found["level"]}
    return {**place, "title": found["title"], "message": found["message"]}


def _tracked() -> Callable[[str], str]:
    """Return what finds a file of this checkout by the end of its path; outside a checkout there is none."""
    try:
        done = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return lambda _: ""
    files = done.stdout.split("\0") if done.returncode == 0 else []

    def known(path: str) -> str:
        end = path.removeprefix("./")
        found = [file for file in files if file and f"/{file}".endswith(f"/{end}")]
        return found[0] if len(found) == 1 else ""

    return known
