"""``qwenperf store``: put runs into a store, list them, make its index anew, look it over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from qwenperf.cli.files import named_path
from qwenperf.cli.output import debug_option, json_option, write_json, write_lines
from qwenperf.cli.stores import find_store, store_option, warn_of_problems
from qwenperf.errors import QwenperfError, StoreError

_BROKEN = 2


@click.group("store")
def command() -> None:
    """Keep runs in a folder or at a URL, list them and look the store over."""


@command.command("add")
@click.argument("runs", nargs=-1, required=True, type=named_path)
@store_option
@click.option("--traces/--no-traces", default=True, help="Take the traces along (default: yes).")
@json_option
@debug_option
def add_command(runs: tuple[Path, ...], store_url: str | None, *, traces: bool, as_json: bool, debug: bool) -> int:  # noqa: ARG001
    """Add RUNS (run folders, records, or folders of runs) to a store.

    A run that is there already is not added twice; another run of the same id is refused. Each run is added whole or
    not at all.
    """
    from qwenperf.cli.run_sources import read_sources
    from qwenperf.report.series_scale import printable

    store = find_store(store_url)
    sources = list(read_sources(runs, traces=traces))  # a run that cannot be read is said before anything is written
    done: list[dict[str, str]] = []
    for place, source in sources:
        try:
            result = store.add(source)
        except QwenperfError as error:
            before = f" Added before: {', '.join(printable(one['run']) for one in done)}." if done else ""
            raise StoreError(f"{place}: {error.message}{before}", advice=error.advice) from error
        done.append({"run": source.record.id, "from": str(place), "result": str(result)})
        if not as_json:
            write_lines([printable(f"{result}: {source.record.id}")])
    if as_json:
        write_json({"store": store.url, "runs": done})
    return 0


@command.command("list")
@store_option
@click.option("--branch", help="Only runs of this branch.")
@click.option("--environment", metavar="HASH|CLASS", help="Only runs of this environment.")
@click.option("--since", metavar="WHEN", help="A date, an age such as 30d, or a commit.")
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="Only the newest N.")
@json_option
@debug_option
def list_command(store_url: str | None, *, as_json: bool, debug: bool, **asked: Any) -> int:  # noqa: ARG001
    """List the runs of a store, the oldest commit first."""
    from qwenperf.cli.windows import read_window
    from qwenperf.report.history import short
    from qwenperf.report.series_scale import printable

    store = find_store(store_url)
    runs = store.runs(read_window(store, **asked))
    warn_of_problems(store)
    if as_json:
        write_json({"store": store.url, "runs": [asdict(run) for run in runs]})
        return 0
    rows: list[tuple[str, ...]] = [("run", "commit", "branch", "suite", "cases", "environment")]
    for run in runs:
        about = run.environment_class or run.environment[:8] or "-"
        cells = (run.run, short(run.commit, dirty=run.dirty), run.branch, run.suite, str(run.cases), about)
        rows.append(tuple(map(printable, cells)))
    write_lines([*_aligned(rows), f"{len(runs)} run{'' if len(runs) == 1 else 's'} in {store.url}"])
    return 0


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows as lines, whole: other tools read them, and a terminal folds what is too wide by itself."""
    from rich.cells import cell_len

    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        padded = (cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(padded).rstrip()


@command.command("reindex")
@store_option
@json_option
@debug_option
def reindex_command(store_url: str | None, *, as_json: bool, debug: bool) -> int:  # noqa: ARG001
    """Throw the index of a store away and make it anew from the runs."""
    store = find_store(store_url)
    counts = store.reindex()
    warn_of_problems(store)
    if as_json:
        write_json({"store": store.url, **counts})
    else:
        write_lines([", ".join(f"{count} {name}" for name, count in counts.items())])
    return 0


@command.command("check")
@store_option
@click.option("--clean", is_flag=True, help="Remove what writers that were killed have left. None may be at work.")
@json_option
@debug_option
def check_command(store_url: str | None, *, clean: bool, as_json: bool, debug: bool) -> int:  # noqa: ARG001
    """Read every run of a store, all of it, and say what is wrong. Exit code 2: something is."""
    from qwenperf.report.series_scale import printable
    from qwenperf.store.check import check_store

    store = find_store(store_url)
    left = list(store.place.unfinished())
    if clean:
        for name in left:
            store.place.remove_unfinished(name)
    problems, runs = check_store(store)
    if as_json:
        told = [asdict(problem) for problem in problems]
        write_json({"store": store.url, "runs": runs, "problems": told, "unfinished": left, "cleaned": clean})
    else:
        write_lines(printable(f"{problem.folder}: {problem.message}") for problem in problems)
        write_lines(
            f"{name}: {'removed' if clean else 'unfinished'}: its writer was killed, or is at work" for name in left
        )
        kinds = Counter({"runs": runs, "problems": len(problems), "unfinished": 0 if clean else len(left)})
        write_lines([", ".join(f"{count} {name}" for name, count in kinds.items())])
    return _BROKEN if problems else 0
