"""One case in a process of its own: ``python -m qwenperf.lab.worker SPEC OUT DESCRIPTOR``.

SPEC is JSON with a case and its options (and ``first`` for a process that leaves programs to the one that measures,
and no record), OUT the file for the record, DESCRIPTOR the pipe for progress. Where the environment tells a revision's
tree, somebody's engine is imported from there, and the record has its file. The record is
written whole or not at all; one with status ``interrupted`` holds what was timed before the checks. Our own errors
become a record; anything else is a traceback in the log and a crash.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from qwenperf.errors import OutputError, QwenperfError
from qwenperf.lab import failures
from qwenperf.lab.options import Options
from qwenperf.lab.orphan import end_with_parent
from qwenperf.lab.own_tree import OwnTree, check_engine_file, import_from, told_tree
from qwenperf.lab.run_folder import write_text
from qwenperf.lab.start import start_jax
from qwenperf.schema.codec import dumps
from qwenperf.schema.records import CaseRecord, Status
from qwenperf.workloads.case import Case


def main(arguments: Sequence[str]) -> None:
    """Measure the case of SPEC and write its record to OUT."""
    spec, out, descriptor = json.loads(arguments[0]), Path(arguments[1]), int(arguments[2])
    # A compiler or helper that this process starts must not hold the pipe open.
    os.set_inheritable(descriptor, False)  # noqa: FBT003  (positional only)
    end_with_parent(descriptor)
    case, options = Case.from_json(spec["case"]), Options.from_json(spec["options"])

    def say(message: dict[str, Any]) -> None:
        # When the parent is gone this raises BrokenPipeError: nobody is left to measure for.
        os.write(descriptor, json.dumps(message).encode() + b"\n")

    try:
        say({"phase": "importing JAX"})
        seen = start_jax()
        from qwenperf.lab.counting import count_compiles
        from qwenperf.lab.runner import run_case
        from qwenperf.measure import environment

        count_compiles(lambda count: say({"compiles": count}))
        say({"environment": seen, "findings": [asdict(finding) for finding in environment.findings(seen)]})
        if spec.get("first"):
            from qwenperf.lab.ready import leave_programs

            say({"phase": "compiling programs for a later process"})
            say({"left": leave_programs(case, Path(spec["options"]["start_folder"]))})
            return

        tree = told_tree(os.environ)
        if tree is not None:
            import_from(tree)
        with_file = partial(_with_file, case.engine, tree)

        def keep(record: CaseRecord) -> None:
            # Whoever kills this process from here on still has what was timed.
            record = replace(with_file(record), status=Status.INTERRUPTED)
            with suppress(OutputError):  # a disk that is full now may not be so at the end
                write_text(out, dumps(record))

        record = with_file(run_case(case, options, on_phase=lambda name: say({"phase": name}), on_steady=keep))
    except QwenperfError as error:
        record = failures.refused(case, error)
    write_text(out, dumps(record))


def _with_file(engine: str, tree: OwnTree | None, record: CaseRecord) -> CaseRecord:
    """Return ``record`` with the file that somebody's engine was imported from, which is a revision's.

    Raises:
      EnvironmentUnfitError: it is another copy's; names it.
    """
    if tree is None:
        return record
    return replace(record, extra={**record.extra, "engine_file": check_engine_file(engine, tree)})


if __name__ == "__main__":
    main(sys.argv[1:])
