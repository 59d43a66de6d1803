"""Compiles programs for targets in a process of its own: ``python -m qwenperf.lab.aot_worker FOLDER DESCRIPTOR``.

FOLDER has ``items.json``, what is to be compiled; DESCRIPTOR is the pipe for progress. Several such processes share a
folder: who makes an item's file of claim first compiles it. A compiler's crash takes this process with it, and nothing
that is compiled by then.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from qwenperf.aot.topology import resolve
from qwenperf.errors import QwenperfError
from qwenperf.lab.aot_items import ITEMS, claim, not_compiled
from qwenperf.lab.orphan import end_with_parent
from qwenperf.lab.own_tree import OwnTree, check_engine_file, import_from, told_tree
from qwenperf.lab.run_folder import write_text
from qwenperf.lab.start import start_jax
from qwenperf.schema.analysis import AotCase
from qwenperf.schema.codec import dumps
from qwenperf.workloads.case import Case
from qwenperf.workloads.factory import is_factory


def main(arguments: Sequence[str]) -> None:
    """Compile what nobody has claimed yet, one program after another."""
    folder, descriptor = Path(arguments[0]), int(arguments[1])
    # A compiler or helper that this process starts must not hold the pipe open.
    os.set_inheritable(descriptor, False)  # noqa: FBT003  (positional only)
    end_with_parent(descriptor)

    def say(message: Mapping[str, Any]) -> None:
        # When the parent is gone this raises BrokenPipeError: nobody is left to compile for.
        os.write(descriptor, json.dumps(message).encode() + b"\n")

    spec = json.loads((folder / ITEMS).read_text(encoding="utf-8"))
    place = None if spec["remembered"] is None else Path(spec["remembered"])
    try:
        say({"environment": start_jax()})
    except QwenperfError as error:
        say({"unfit": str(error)})
        return
    tree = told_tree(os.environ)
    if tree is not None:
        import_from(tree)
    for number, item in enumerate(spec["items"]):
        if claim(folder, number):
            say({"item": number})
            write_text(Path(item["record"]), dumps(_record(item, place, tree, again=bool(spec.get("again")))))
            say({"done": number})


def _record(item: Mapping[str, Any], place: Path | None, tree: OwnTree | None, *, again: bool) -> AotCase:
    from qwenperf.aot.case import compile_case  # JAX is started by now, or said why it does not
    from qwenperf.lab.own_engine import own_engine

    case, target = Case.from_json(item["case"]), resolve(item["target"])
    try:
        record = compile_case(case, item["program"], target, place=place, again=again, make=own_engine)
        if tree is None or not is_factory(case.engine):
            return record
        # Looked at when it is imported: another copy would be the same code on both sides of a difference.
        return replace(record, extra={**record.extra, "engine_file": check_engine_file(case.engine, tree)})
    except QwenperfError as error:
        return not_compiled(item, error)


if __name__ == "__main__":
    main(sys.argv[1:])
