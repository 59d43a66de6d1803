"""The page of a record on disk: where it goes, what it links to, and that it never costs a result."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from qwenperf.cli.files import is_there
from qwenperf.cli.streams import say
from qwenperf.report.html import NAME, Place, comparison_page, run_page
from qwenperf.schema.comparison import ComparisonRecord
from qwenperf.schema.records import RunRecord


def page(record: RunRecord | ComparisonRecord, file: Path, out: Path) -> str:
    """Return the page of ``record``, which was read from or written to ``file``, for a page that lies at ``out``."""
    folder = file.parent if file.parent.name not in {"", ".."} else file.parent.resolve()
    place = Place(folder=str(folder), record=file.name, href=links(file.parent, out.parent))
    return run_page(record, place) if isinstance(record, RunRecord) else comparison_page(record, place)


def keep_page(record: RunRecord | ComparisonRecord, file: Path) -> Path | None:
    """Write the page beside ``file`` and return where; ``None`` where that failed, which is said and changes nothing.

    The record is on disk: whatever goes wrong here is no reason to lose what was measured, or to end otherwise.
    """
    from qwenperf.lab.run_folder import write_text

    out = file.with_name(NAME)
    try:
        write_text(out, page(record, file, out))
    except Exception as error:  # noqa: BLE001  (a page is a convenience)
        say(f"qwenperf: warning: no {NAME} was written: {type(error).__name__}: {error}")
        return None
    return out


def links(folder: Path, start: Path) -> Callable[[str], str]:
    """Return what makes a link, seen from ``start``, of a path below ``folder``; empty for what is not in there."""

    def href(path: str) -> str:
        target = folder / path
        with suppress(OSError, ValueError, RuntimeError):
            inside = target.resolve().is_relative_to(folder.resolve())
            if path and inside and is_there(target):
                seen = Path(os.path.relpath(target.absolute(), start.absolute())).as_posix()
                # A name with a colon in it would be read as a scheme.
                return f"./{quote(seen)}"
        return ""

    return href
