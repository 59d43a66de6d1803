"""What the live run has found out, on disk: a line a comparison, and the pairs of all of them in a table.

Rows are appended before the line is, so that a run that is killed in between leaves rows without a line; the next one
takes those out again.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qwenperf.errors import RecordError, UsageError
from qwenperf.schema.comparison import ComparisonRecord
from qwenperf.stats.turns import side_time

COLUMNS = (
    *("kind", "try", "stage", "pair", "first", "round", "order", "wall_a_us", "wall_b_us", "cpu_a_us", "cpu_b_us"),
    *("memory_a_us", "memory_b_us", "compute_a_us", "compute_b_us", "steal_s", "load"),
)
Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class LiveLog:
    """``lines`` is a file of JSON objects, ``pairs`` one of comma-separated values."""

    lines: Path
    pairs: Path

    def read(self) -> list[dict[str, Any]]:
        """Return all lines; a last one that was cut short is taken out.

        Raises:
          RecordError: any other line that is no JSON.
        """
        if not self.lines.is_file():
            return []
        texts = self.lines.read_text(encoding="utf-8").split("\n")
        found = []
        for number, text in enumerate(texts[:-1], start=1):
            try:
                found.append(json.loads(text))
            except ValueError as error:
                raise RecordError(f"{self.lines}, line {number}: {error}.") from error
        if texts[-1]:
            self.lines.write_text("".join(f"{json.dumps(one)}\n" for one in found), encoding="utf-8")
        return found

    def settings(self, wanted: Mapping[str, Any]) -> None:
        """Write the settings of the run as its first line, or see that they are the same.

        Raises:
          UsageError: the file was begun with others; names them.
        """
        begun = self.begun()
        if begun is None:
            self._append({"settings": dict(wanted)})
            return
        other = [
            f"{name} {begun.get(name)} (now {value})" for name, value in wanted.items() if begun.get(name) != value
        ]
        if other:
            raise UsageError(
                f"{self.lines} was begun with {', '.join(other)}.", advice="Give another --out, or the same settings."
            )

    def begun(self) -> dict[str, Any] | None:
        """Return the settings that the file was begun with."""
        return next((one["settings"] for one in self.read() if "settings" in one), None)

    def same_machine(self, machine: Mapping[str, Any]) -> None:
        """See that everything in the file is of ``machine``, by the fields that it names.

        Raises:
          UsageError: something is of another one; names what differs. Noise is a machine's own.
        """
        for one in self.tries():
            other = [
                f"{name} {one['machine'].get(name)}" for name in machine if one["machine"].get(name) != machine[name]
            ]
            if other:
                here = ", ".join(f"{name} {value}" for name, value in machine.items())
                raise UsageError(
                    f"{self.lines} holds comparisons of another machine: {', '.join(other)}; this one has {here}.",
                    advice="Leave --out away, which gives each machine files of its own, or name another folder.",
                )

    def tries(self) -> list[dict[str, Any]]:
        """Return the comparisons that were finished."""
        return [one for one in self.read() if "try" in one]

    def cut(self, kind: str) -> int:
        """Return how many comparisons of a kind were interrupted; they are no tries."""
        return sum(one.get("cut") == kind for one in self.read())

    def calibration(self) -> dict[str, Any] | None:
        """Return the latest calibration of the slowed engine."""
        return next((one["calibration"] for one in reversed(self.read()) if "calibration" in one), None)

    def add(self, line: Mapping[str, Any], rows: Sequence[Row] = ()) -> None:
        """Append a line, and the pairs that belong to it."""
        if rows:
            new = not self.pairs.is_file()
            self.pairs.parent.mkdir(parents=True, exist_ok=True)
            with self.pairs.open("a", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                if new:
                    writer.writeheader()
                writer.writerows(rows)
        self._append(line)

    def mend(self) -> None:
        """Take rows out of the table that no line tells of."""
        if not self.pairs.is_file():
            return
        known = {(one["kind"], str(one["try"])) for one in self.tries()}
        with self.pairs.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        kept = [row for row in rows if (row["kind"], row["try"]) in known]
        if len(kept) < len(rows):
            with self.pairs.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                writer.writeheader()
                writer.writerows(kept)

    def _append(self, line: Mapping[str, Any]) -> None:
        self.lines.parent.mkdir(parents=True, exist_ok=True)
        with self.lines.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(line)}\n")
            file.flush()
            os.fsync(file.fileno())


def rows_of(record: ComparisonRecord, kind: str, number: int) -> Iterator[Row]:
    """Yield a row for each round of each whole pair of a comparison of one case."""
    case = record.cases[0].id
    for pair in record.pairs:
        if pair.failed is not None:
            continue
        told = {"kind": kind, "try": number, "stage": pair.stage, "pair": pair.number, "first": pair.first}
        for index, one in enumerate(pair.rounds[case]):
            times = {"wall": (one.wall_s, one.order), "cpu": (one.cpu_s, one.order)}
            for name in ("memory", "compute"):
                anchor = pair.rounds[f"anchor/{name}"][index]
                times[name] = (anchor.wall_s, anchor.order)
            both = {
                f"{name}_{letter.lower()}_us": round(1e6 * side_time(seconds, order, letter))
                for name, (seconds, order) in times.items()
                for letter in "AB"
            }
            yield {
                **told,
                "round": index,
                "order": one.order,
                **both,
                "steal_s": round(one.steal_s, 3),
                "load": one.load,
            }
