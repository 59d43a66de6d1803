"""``qwenperf trace``: what the traces of a run show, what changed between two, and the folder that they lie in."""

from __future__ import annotations

from pathlib import Path

import click
from rich.text import Text

from qwenperf.cli.files import named_path
from qwenperf.cli.output import debug_option, json_option, write, write_json
from qwenperf.cli.trace_folder import list_command, open_command, prune_command
from qwenperf.cli.trace_places import pairs, sides, traced_cases, understood
from qwenperf.report.traces import diff_report, trace_report
from qwenperf.traces.diff import diff

_TOP = 15

_case_option = click.option("--case", "pattern", metavar="GLOB", help="Only cases whose id matches.")
_top_option = click.option(
    "--top", type=click.IntRange(min=1), default=_TOP, show_default=True, metavar="N", help="Operations to list."
)


@click.group("trace")
def command() -> None:
    """Show, compare, open, list and prune traces."""


@command.command("show")
@click.argument("run", type=named_path)
@_case_option
@_top_option
@json_option
@debug_option
def show_command(run: Path, *, pattern: str | None, top: int, as_json: bool, debug: bool) -> int:  # noqa: ARG001
    """Show where the time of a token goes in the traces of RUN.

    RUN is a run's or a comparison's folder, its record, a trace (.xplane.pb) of any JAX program, or a folder of traces.
    """
    cases = traced_cases(run, pattern)
    if as_json:
        write_json({"cases": [{"id": case.id, "timed_s": case.timed_s, **case.summary} for case in cases]})
        return 0
    for case in cases:
        with understood(run):
            lines = list(
                trace_report(
                    case.id, case.summary, roofline=case.roofline, timed_s=case.timed_s, top=top, timed=case.timed
                )
            )
        write([*lines, *([Text(f"note: {case.note}")] if case.note else [])])
    return 0


@command.command("diff")
@click.argument("base", type=named_path)
@click.argument("head", type=named_path, required=False)
@_case_option
@click.option("--base-case", metavar="GLOB", help="The case of BASE, where HEAD's has another name.")
@click.option("--head-case", metavar="GLOB", help="The case of HEAD.")
@_top_option
@json_option
@debug_option
def diff_command(
    base: Path,
    head: Path | None,
    *,
    pattern: str | None,
    base_case: str | None,
    head_case: str | None,
    top: int,
    as_json: bool,
    debug: bool,  # noqa: ARG001
) -> int:
    """Say which operations, or the host, took more time per token in HEAD than in BASE.

    Each is what `trace show` takes; the folder of a comparison alone stands for its two sides. Operations are matched
    by program, source line and shape, whatever the compiler numbered them. Exit code 0 whatever is found: this
    explains, it does not judge.
    """
    if head is None:
        both = sides(base, pattern)
    else:
        both = pairs(traced_cases(base, base_case or pattern), traced_cases(head, head_case or pattern))
    with understood(base, head or base):
        found = [
            (
                one,
                other,
                diff(
                    one.summary,
                    other.summary,
                    timed_base_s=one.timed_s,
                    timed_head_s=other.timed_s,
                    timed=one.timed,
                ),
            )
            for one, other in both
        ]
    if as_json:
        write_json({"cases": [{"base": one.id, "head": other.id, **seen.to_json()} for one, other, seen in found]})
        return 0
    for one, other, seen in found:
        notes = dict.fromkeys(filter(None, (one.note, other.note)))
        write([*diff_report(one.id, other.id, seen, top=top), *(Text(f"note: {note}") for note in notes)])
    return 0


command.add_command(open_command)
command.add_command(list_command)
command.add_command(prune_command)
