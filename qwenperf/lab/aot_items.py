"""What is to be compiled, as data that several processes share: a list, and a claim for each entry. Without JAX."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qwenperf.aot.ids import PROGRAMS, program_id
from qwenperf.aot.topology import described, resolve
from qwenperf.errors import QwenperfError
from qwenperf.lab.run_folder import RunFolder, session_name, write_text
from qwenperf.schema.analysis import AotCase
from qwenperf.schema.records import Status
from qwenperf.workloads.case import Case

ITEMS = "items.json"


@dataclass(frozen=True, kw_only=True)
class Item:
    """One program of one case for one target."""

    id: str
    case: Case
    target: str
    program: str

    def to_json(self, folder: RunFolder) -> dict[str, Any]:
        """Return the item as plain data, with the file that its record goes to."""
        return {
            "id": self.id,
            "case": self.case.to_json(),
            "target": self.target,
            "program": self.program,
            "record": str(folder.case(session_name(self.id))),
        }


def items_of(cases: Sequence[Case], targets: Sequence[str], programs: Sequence[str] = PROGRAMS) -> tuple[Item, ...]:
    """Return every program of every case for every target, in the order of the record."""
    return tuple(
        Item(id=program_id(case.id, target, program), case=case, target=target, program=program)
        for case in cases
        for target in targets
        for program in programs
    )


def longest_first(items: Sequence[Item]) -> tuple[Item, ...]:
    """Return items in the order in which they are begun, so that the last ones to end are short."""
    return tuple(sorted(items, key=lambda item: item.program != PROGRAMS[0]))


def write_items(
    place: Path, items: Sequence[Item], folder: RunFolder, remembered: Path | None, *, again: bool = False
) -> None:
    """Write the list that the processes of ``place`` share; with ``again`` what is remembered is compiled once more."""
    told = [item.to_json(folder) for item in items]
    kept = None if remembered is None else str(remembered)
    write_text(place / ITEMS, json.dumps({"items": told, "remembered": kept, "again": again}))


def claim(place: Path, number: int) -> bool:
    """Say whether the item is the caller's: of all who ask, one."""
    try:
        (place / f"{number}.claim").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def not_compiled(item: Mapping[str, Any], error: QwenperfError) -> AotCase:
    """Return the record of a program that no compiler was asked for: its settings, or this machine, have none."""
    told = {"error_kind": type(error).__name__, "exit_code": error.exit_code}
    return without_program(item, Status.MISSING, str(error), **told)


def without_program(item: Mapping[str, Any], status: Status, error: str, **extra: Any) -> AotCase:
    """Return a record that says why there is no program."""
    return AotCase(
        id=item["id"],
        target=described(resolve(item["target"])),
        spec={"case": item["case"], "program": item["program"]},
        status=status,
        error=error,
        extra=extra,
    )
