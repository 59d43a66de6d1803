"""Files of other tools as people name them: one, a folder of runs, or asv's results, with what lies beside them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from qwenperf.cli.files import is_there, read_text, reason
from qwenperf.cli.saved_run import RECORD
from qwenperf.errors import FormatError
from qwenperf.formats.convert import read
from qwenperf.formats.foreign import Told
from qwenperf.formats.place import Document
from qwenperf.schema.records import RunRecord

_ASV_FILES = ("benchmarks.json", "machine.json")


def read_place(place: Path, kind: str = "", **told: str) -> tuple[RunRecord, ...]:
    """Return the runs at ``place``; ``told`` as in ``Told``, ``kind`` empty where their content says the format.

    Raises:
      FormatError: nothing there, or nothing that can be read; names file and key.
      RecordError: a run of ours that cannot be read.
    """
    documents, written = [], []
    for file in _files(place):
        try:
            documents.append(Document(name=str(file), text=read_text(file)))
            written.append(file.stat().st_mtime)
        except (OSError, ValueError) as error:
            raise FormatError(f"cannot read {file}: {reason(error)}.", advice="Give a file of another tool.") from error
    try:
        newest = datetime.fromtimestamp(max(written), UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError) as error:
        raise FormatError(f"{place} was written in no year that there is: {error}.", advice="`touch` it.") from error
    return read(documents, Told(modified_at=newest, **told), kind)


def _files(place: Path) -> list[Path]:
    """Return the files that a name means: one, a run's, or all of a folder of runs or of asv's results.

    Raises:
      FormatError: nothing there, or nothing in it that is known.
    """
    if not is_there(place):
        raise FormatError(f"{place} is not there.", advice="Give a file, a run's folder or asv's results folder.")
    if not place.is_dir():
        return [place, *_beside(place)]
    if (place / RECORD).is_file():
        return [place / RECORD]
    found = _shown(place, f"*/{RECORD}") or _shown(place, "**/*.json")
    if not found:
        raise FormatError(f"there is no run and no JSON in {place}.", advice="Give a file that another tool wrote.")
    return found


def _shown(folder: Path, pattern: str) -> list[Path]:
    """Return files but for those of folders with a dot, where writers keep what is not finished."""
    found = (file for file in folder.glob(pattern) if not file.relative_to(folder).parts[0].startswith("."))
    return sorted(found)


def _beside(file: Path) -> Iterator[Path]:
    """Yield what says the units and the machine of a result file of asv's."""
    if file.suffix == ".json" and file.name not in _ASV_FILES and (file.parent / _ASV_FILES[1]).is_file():
        for other in (file.parent.parent / _ASV_FILES[0], file.parent / _ASV_FILES[1]):
            if other.is_file():
                yield other
