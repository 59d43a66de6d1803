"""``qwenperf trace open``, ``list`` and ``prune``: a viewer on a folder of traces, and the room that they take."""

from __future__ import annotations

from pathlib import Path

import click

from qwenperf import units
from qwenperf.cli.config import find_project
from qwenperf.cli.files import is_there, named_path
from qwenperf.cli.output import debug_option, json_option, write, write_json, write_lines
from qwenperf.cli.streams import say
from qwenperf.errors import RecordError, UsageError
from qwenperf.lab.trace_files import TracedRun, choose, remove, remove_killed, sessions, traced_runs
from qwenperf.lab.trace_viewer import VIEWERS, find_viewer, opened
from qwenperf.report.traces import run_lines
from qwenperf.settings import read_size


class Size(click.ParamType):  # type: ignore[type-arg]  # older versions of click take no argument here
    """A number of bytes as people write it: ``500MB``, ``2G``, ``1000000``."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number of bytes."""
        try:
            return read_size(value)
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)


_out_argument = click.argument("out", type=named_path, required=False)


@click.command("list")
@_out_argument
@json_option
@debug_option
def list_command(out: Path | None, *, as_json: bool, debug: bool) -> int:  # noqa: ARG001
    """List the runs below OUT (default: where runs go) that have traces, the newest first."""
    place = _place(out)
    runs = [run.to_json() for run in traced_runs(place)]
    if as_json:
        write_json({"out": str(place), "bytes": sum(run["bytes"] for run in runs), "runs": runs})
        return 0
    total = units.byte_count(sum(run["bytes"] for run in runs))
    write(run_lines(runs) if runs else [])
    write_lines([f"{len(runs)} runs in {place}, {total} of traces"])
    return 0


@click.command("prune")
@_out_argument
@click.option("--keep", type=click.IntRange(min=0), metavar="N", help="Keep the traces of the N newest runs.")
@click.option("--max-size", type=Size(), metavar="S", help="Remove the oldest until the rest takes no more: 500MB.")
@click.option("--dry-run", is_flag=True, help="Say what would be removed, and stop.")
@json_option
@debug_option
def prune_command(
    out: Path | None,
    *,
    keep: int | None,
    max_size: int | None,
    dry_run: bool,
    as_json: bool,
    debug: bool,  # noqa: ARG001
) -> int:
    """Remove the traces of old runs below OUT (default: where runs go), and what killed captures left.

    Records (run.json) stay, with the summaries of their traces: `trace show` and `trace diff` go on working. A run that
    is under way is left alone, and so are folders that qwenperf did not make and traces behind a link.
    """
    if keep is None and max_size is None:
        raise UsageError("nothing says which traces to keep.", advice="Give --keep N, --max-size S or both.")
    place = _place(out)
    runs = traced_runs(place)
    gone = choose(runs, keep=keep, max_bytes=max_size)
    swept = [run for run in runs if run.ours and run.killed and run not in gone]
    if not dry_run:
        for run in gone:
            remove(run)
        for run in swept:
            remove_killed(run)
    freed = sum(run.bytes for run in gone) + sum(run.killed_bytes for run in swept)
    if as_json:
        names = {"removed": [run.path for run in gone], "swept": [run.path for run in swept]}
        write_json({**names, "bytes": freed, "dry_run": dry_run})
        return 0
    verb = "would remove" if dry_run else "removed"
    write_lines(f"{verb} {run.path}: {_traces(run)}, {units.byte_count(run.bytes)}" for run in gone)
    write_lines(f"{verb} {run.path}: {_killed(run)}, {units.byte_count(run.killed_bytes)}" for run in swept)
    write_lines([f"{verb} the traces of {len(gone)} runs, {units.byte_count(freed)}"])
    return 0


def _traces(run: TracedRun) -> str:
    return f"{len(run.sessions)} traces{f' and {_killed(run)}' if run.killed else ''}"


def _killed(run: TracedRun) -> str:
    return f"{run.killed} killed capture{'s' if run.killed > 1 else ''}"


def _place(out: Path | None) -> Path:
    place = out or Path(find_project(Path.cwd()).settings({}).out)
    if out is not None and not (is_there(place) and place.is_dir()):
        raise RecordError(f"{place} is no folder.", advice="Give the folder that runs go to, such as profiles.")
    return place


@click.command("open")
@click.argument("run", type=named_path)
@click.option("--viewer", type=click.Choice(VIEWERS), help="Which viewer (default: the first that is installed).")
@click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="Its port (default: a free one).")
@click.option("--check", is_flag=True, help="Stop once it has shown the traces.")
@json_option
@debug_option
def open_command(
    run: Path,
    *,
    viewer: str | None,
    port: int | None,
    check: bool,
    as_json: bool,
    debug: bool,  # noqa: ARG001
) -> int:
    """Start TensorBoard or XProf on the traces of RUN (a run's folder, or one of many), and print its address.

    The viewer is asked for its runs first, so that a plugin that does not load is noticed. Ctrl-C stops it.
    """
    folder = run.parent if run.name == "run.json" else run
    if not (is_there(folder) and folder.is_dir()):
        raise RecordError(f"{folder} is no folder.", advice="Give a run's folder, or the folder that runs go to.")
    if not (sessions(folder) or any(one.sessions for one in traced_runs(folder))):
        raise RecordError(f"{folder} holds no trace.", advice="`qwenperf trace list` shows which runs have some.")
    name, program = find_viewer(viewer)
    say(f"starting {name} on {folder}")
    with opened(folder, name, program, port) as found:
        told = {"url": found.url, "viewer": name, "versions": found.versions, "runs": list(found.runs)}
        if as_json:
            write_json(told)
        else:
            write_lines([found.url])
        if check:
            return 0
        say("Ctrl-C stops it")
        try:
            found.process.wait()
        except KeyboardInterrupt:
            return 0
    raise RecordError(f"{name} ended by itself with {found.process.returncode}.", advice="")
