"""The records of the runs beside one, the newest first: read when they are asked for, and each once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from qwenperf.cli.saved_run import RECORD, read_run
from qwenperf.errors import RecordError
from qwenperf.schema.records import RunRecord


@dataclass(kw_only=True)
class EarlierRuns:
    """The runs in the folder ``out``; what cannot be read is left out."""

    out: Path
    known: dict[Path, RunRecord | None] = field(default_factory=dict)

    def before(self, run_id: str) -> Iterator[RunRecord]:
        """Yield the runs before ``run_id``, whose names begin with the time, the newest first."""
        places = sorted((file for file in self.out.glob(f"*/{RECORD}") if file.parent.name < run_id), reverse=True)
        for place in places:
            if place not in self.known:
                self.known[place] = _read(place)
            record = self.known[place]
            if record is not None:
                yield record


def _read(place: Path) -> RunRecord | None:
    try:
        return read_run(place)[0]
    except RecordError:
        return None
