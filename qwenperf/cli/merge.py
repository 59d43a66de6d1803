"""``qwenperf merge RUN...``: the runs of a sharded job as the one run that they are, judged as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from qwenperf.cli.budget_file import budgets_line, find_budgets
from qwenperf.cli.config import find_project
from qwenperf.cli.files import named_path
from qwenperf.cli.output import debug_option, json_option, write, write_json
from qwenperf.cli.streams import say, verdict_survives
from qwenperf.errors import OutputError, QwenperfError, UsageError
from qwenperf.settings import INCONCLUSIVE

_OWN = ("logs/", "plugins/")
"""What a case leaves under a name of its own; the rest of a folder is of its run, and stays with it."""

_MOST_TOLD = 3


@click.command("merge")
@click.argument("runs", nargs=-1, required=True, type=named_path)
@click.option("--out", metavar="DIR", help="Where the folder of the merged run goes (default: profiles).")
@click.option("--budgets", "budget_file", type=named_path, metavar="TOML", help="Budgets, not the project's.")
@click.option("--inconclusive", help=f"What noise does to the exit code: {' or '.join(INCONCLUSIVE)} (default: warn).")
@json_option
@debug_option
def command(runs: tuple[Path, ...], budget_file: Path | None, *, as_json: bool, debug: bool, **flags: Any) -> int:  # noqa: ARG001
    """Merge RUNS, the parts of one sharded run, and judge the whole. The parts are left as they are.

    They must be of one commit, one suite and one kind of machine, and no case may be measured twice. A case that none
    of them measured is missing, and the exit code says so.
    """
    from qwenperf.cli.run_sources import read_sources
    from qwenperf.gate.evaluate import judge_run
    from qwenperf.gate.verdict import exit_code
    from qwenperf.report.terminal import Places, run_report
    from qwenperf.schema.codec import to_json
    from qwenperf.store.merge import merge_runs

    project = find_project(Path.cwd())
    settings = project.settings(flags)
    budgets = find_budgets(project, budget_file)
    parts = list(read_sources(runs, traces=True))
    sources = [source for _, source in parts]
    run = judge_run(merge_runs([source.record for source in sources]), budgets)
    folder = Path(settings.out) / run.id
    _write(folder, run, _together([source.files for source in sources]))
    _warn_of_twins([place for place, _ in parts], Path(settings.out))
    with verdict_survives():
        if as_json:
            write_json({**to_json(run), "folder": str(folder)})
        else:
            places = Places(
                record=str(folder / "run.json"), traces=str(folder / "plugins" / "profile"), logdir=settings.out
            )
            write((*run_report(run, places), Text(budgets_line(project, budget_file, budgets), no_wrap=True)))
    others = [case.extra["exit_code"] for case in run.cases if "exit_code" in case.extra]
    return exit_code(run, settings.inconclusive, others)


def _warn_of_twins(parts: Sequence[Path], out: Path) -> None:
    """Say which parts lie beside the whole: a history of that folder has each of their values twice."""
    folders = (place if place.is_dir() else place.parent for place in parts)
    beside = sorted({folder.name for folder in folders if folder.resolve().parent == out.resolve()})
    more = f" and {len(beside) - _MOST_TOLD} more" if beside[_MOST_TOLD:] else ""
    if beside:
        named = f"{', '.join(beside[:_MOST_TOLD])}{more}"
        say(f"qwenperf: warning: {named} lie in {out} too: a history of it has their values twice. Move them away.")


def _together(parts: Sequence[Mapping[str, Path]]) -> dict[str, Path]:
    """Return the files of all parts.

    Raises:
      UsageError: two parts have a file of one name and other content.
    """
    found: dict[str, Path] = {}
    for files in parts:
        for name, file in files.items():
            if not name.startswith(_OWN):
                continue
            before = found.setdefault(name, file)
            if before != file and _bytes(before) != _bytes(file):
                raise UsageError(f"{before} and {file} would be one file.", advice="Leave out one of the runs.")
    return found


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror or error}.") from error


def _write(folder: Path, run: Any, files: Mapping[str, Path]) -> None:
    """Make the folder whole or not at all; one of the same run is written once.

    Raises:
      OutputError: the folder cannot be made, or is something else.
    """
    from qwenperf.errors import StoreError
    from qwenperf.schema.codec import dumps
    from qwenperf.store.base import Source
    from qwenperf.store.directory import open_store

    try:
        done = open_store(str(folder.parent)).add(Source(record=run, data=dumps(run).encode(), files=files))
    except StoreError as error:
        same = _is_merge_of(folder, run)
        message = f"{folder} is the merge of these runs, judged by other budgets." if same else error.message
        raise OutputError(message, advice="Remove that folder, or give another with --out.") from error
    say(f"qwenperf: {done}: {folder}")


def _is_merge_of(folder: Path, run: Any) -> bool:
    """Say whether a folder has the same run but for what was made of it: its id comes from all of its parts."""
    from qwenperf.cli.saved_run import read_run

    try:
        record, _ = read_run(folder)
    except QwenperfError:
        return False
    return bool(record.id == run.id and record.extra.get("merged") == run.extra["merged"])
