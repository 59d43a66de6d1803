"""The folder that ``--qwenperf-out`` asks for: made with the first case, its records rewritten whole after each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qwenperf.errors import EnvironmentUnfitError
from qwenperf.schema.analysis import AotCase, AotRecord
from qwenperf.schema.records import CaseRecord, RunRecord

if TYPE_CHECKING:
    from qwenperf.lab.run_folder import RunFolder


@dataclass(kw_only=True)
class RecordFiles:
    """Records of one session below ``out``; ``root`` is the project whose commit they name."""

    out: Path
    root: Path
    _folder: RunFolder | None = None
    _told: Mapping[str, Any] = field(default_factory=dict)
    _encoded: dict[tuple[type, str], Mapping[str, Any]] = field(default_factory=dict)

    def write(self, cases: Sequence[CaseRecord], programs: Sequence[AotCase], *, interrupted: bool) -> Path:
        """Write all that was measured or compiled, at least one thing, and return the first file.

        ``interrupted`` is what the records say of the session: that it has not come to its end. Such records are not
        indented, and no case is encoded twice: a session of hundreds of cases writes them hundreds of times.

        Raises:
          OutputError: the folder cannot be made or written to.
          EnvironmentUnfitError: JAX finds no device, so that nobody can say what was measured on.
        """
        from qwenperf.lab.run_folder import write_text
        from qwenperf.schema.codec import dumps

        text_of = self._quickly if interrupted else dumps
        files = [(file, text_of(record)) for file, record in self._records(cases, programs, interrupted=interrupted)]
        for file, text in files:
            write_text(file, text)
        return files[0][0]

    def _records(
        self, cases: Sequence[CaseRecord], programs: Sequence[AotCase], *, interrupted: bool
    ) -> Iterator[tuple[Path, RunRecord | AotRecord]]:
        """Yield what there is to write, and where to."""
        folder = self._folder or self._begin()
        told = {**self._told, "interrupted": interrupted}
        if cases:
            declared = tuple(case.id for case in cases)
            yield folder.record, RunRecord(**told, suite="pytest", declared=declared, cases=tuple(cases))
        if programs:
            declared = tuple(program.id for program in programs)
            yield folder.path / "aot.json", AotRecord(**told, declared=declared, cases=tuple(programs))

    def _quickly(self, record: RunRecord | AotRecord) -> str:
        """Return a record as JSON text in one line; ids tell its cases apart."""
        from qwenperf.schema.codec import to_json

        for case in record.cases:
            key = (type(case), case.id)
            self._encoded[key] = self._encoded.get(key) or to_json(case)
        cases = [self._encoded[type(case), case.id] for case in record.cases]
        empty: Any = record  # of either kind
        return json.dumps({**to_json(replace(empty, cases=())), "cases": cases}, allow_nan=False)

    def _begin(self) -> RunFolder:
        """Make the folder, and keep what all records of the session say alike."""
        from qwenperf.lab.commit import describe_commit
        from qwenperf.lab.run_folder import create_run_folder
        from qwenperf.measure import environment

        now = datetime.now(UTC)
        try:
            described = environment.describe()
        except RuntimeError as error:
            raise EnvironmentUnfitError(f"JAX starts no backend: {error}.") from error
        self._folder = create_run_folder(self.out, now)
        self._told = {
            "id": self._folder.id,
            "created_at": now.isoformat(timespec="seconds"),
            "environment": described,
            "commit": describe_commit(self.root),
        }
        return self._folder
