"""A record on its way to GitHub: read from a folder or out of an archive, summed up, with its exit code."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from qwenperf.cli.files import is_there
from qwenperf.cli.report import read_record
from qwenperf.errors import QwenperfError, RecordError
from qwenperf.report.html_signs import FAIL
from qwenperf.report.judged import Judged, judged
from qwenperf.report.markdown_text import line, prose
from qwenperf.schema.codec import comparison_loads, loads
from qwenperf.schema.comparison import ComparisonRecord
from qwenperf.schema.records import RunRecord


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


def unreadable(error: QwenperfError, link: str) -> Judged:
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
    return judged(record, source, link, inconclusive, _tracked())


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
