"""``qwenperf history CASE METRIC``: one metric of one case over time, as a plot and a table, a page, or data."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import RenderableType

from qwenperf.cli.files import is_there, named_path, read_text
from qwenperf.cli.output import console, debug_option, json_option, write, write_json, write_lines
from qwenperf.cli.stores import find_history, store_option, warn_of_problems
from qwenperf.cli.streams import say
from qwenperf.errors import (
    EnvironmentUnfitError,
    NothingMeasuredError,
    OutputError,
    UnknownNameError,
    UsageError,
    nearest_advice,
)

if TYPE_CHECKING:
    from qwenperf.cli.stores import History
    from qwenperf.schema.series import Series
    from qwenperf.store.base import Window

    Drawn = tuple[Series, tuple[int, ...] | None]
    """A series and the points at which it changed; ``None`` where nobody looked."""

_LAST = 30
_LOOKED_AT = 200
"""Points that changes are looked for in: a window of few says little about where it began."""


@click.command("history")
@click.argument("case", required=False)
@click.argument("metric", required=False)
@store_option
@click.option("--branch", help="Only points of this branch.")
@click.option("--environment", metavar="HASH|CLASS", help="Only points of this environment.")
@click.option("--since", metavar="WHEN", help="A date, an age such as 30d, or a commit.")
@click.option("--last", type=click.IntRange(min=1), default=_LAST, show_default=True, metavar="N", help="The newest N.")
@click.option("--html", type=named_path, metavar="FILE", help="Write a page that needs nothing else.")
@json_option
@debug_option
def command(
    case: str | None,
    metric: str | None,
    *,
    store_url: str | None,
    html: Path | None,
    as_json: bool,
    debug: bool,  # noqa: ARG001
    **asked: Any,
) -> int:
    """Show METRIC of CASE over time; CASE may be a glob.

    Without METRIC: the newest values of all metrics of CASE. Without CASE: the cases in the store.
    """
    from qwenperf.cli.windows import read_window

    if case is None and (html is not None or any(asked[name] for name in ("branch", "environment", "since"))):
        raise UsageError("a list of cases has no window and no page.", advice="Name a CASE.")
    store = find_history(store_url)
    window = read_window(store, **asked)
    warn_of_problems(store)
    cases = _cases(store, case)
    if case is None:
        return _list(store, cases, as_json=as_json)
    drawn: list[Drawn]
    known = store.cases()  # once: of a large store this takes a while
    if metric is None:
        drawn = [(store.series(one, name, window), None) for one in cases for name in known[one]]
    else:
        having, why = [one for one in cases if metric in known[one]], set[str]()
        drawn = [_drawn(store, one, metric, window, why) for one in having or cases]  # the store says what nobody has
        for reason in why:
            say(f"qwenperf: warning: changes are not looked for: {reason}")
    shown = [(series, changes) for series, changes in drawn if series.points]
    if not shown:
        named = f"{metric} of {case}" if metric else case
        every = [store.series(one, name) for one in cases for name in known[one] if metric in {None, name}]
        raise NothingMeasuredError(f"{store.url} has no point of {named} there.", advice=_elsewhere(every, asked))
    if html is not None:
        _write_page(html, store, shown)
    if as_json:
        _write_json(store, shown)
    elif metric is None:
        _write_newest(cases, [series for series, _ in shown])
    elif html is None:
        write(_report(shown))
    return 0


def _elsewhere(every: Sequence[Series], asked: Mapping[str, Any]) -> str:
    """Say which branches or environments there are, where one was named that has no point."""
    from qwenperf.report.series_scale import printable

    points = [point for series in every for point in series.points]
    known = {
        "branch": {point.branch for point in points},
        "environment": {str(point.extra.get("class") or point.environment) for point in points},
    }
    hashes = {point.environment for point in points}
    for name, there in known.items():
        wanted, found = asked[name], sorted(filter(None, there))
        if wanted and found and wanted not in there and not any(one.startswith(wanted) for one in hashes):
            return printable(f"--{name} is {wanted!r}. {nearest_advice(wanted, found)}")
    return "Ask for more, or another branch."


def _cases(store: History, case: str | None) -> list[str]:
    """Return the cases that are meant, by their present names.

    Raises:
      UnknownNameError: no case has this name, or one that the glob matches.
      NothingMeasuredError: there is no case at all.
    """
    known = store.cases()
    if not known:
        raise NothingMeasuredError(f"{store.url} has no measured case.", advice="`qwenperf store check` says why.")
    if case is None:
        return list(known)
    present = store.aliases.name(case)
    found = [present] if present in known else [name for name in known if fnmatchcase(name, case)]
    if not found:
        raise UnknownNameError("case", case, known)
    return found


def _drawn(store: History, case: str, metric: str, window: Window, why: set[str]) -> Drawn:
    """Return what the window holds of a series, and the points in it at which something changed."""
    wanted = window.last or _LAST
    series = store.series(case, metric, replace(window, last=max(wanted, _LOOKED_AT)))
    changes = _changes(series, why)
    cut = max(0, len(series.points) - wanted)
    seen = None if changes is None else tuple(place - cut for place in changes if place >= cut)
    return replace(series, points=series.points[cut:]), seen


def _changes(series: Series, why: set[str]) -> tuple[int, ...] | None:
    """Return the first points after changes; ``None``, and why, where what finds them is not installed."""
    from qwenperf.gate.history import changes_of

    try:
        return tuple(changes_of(series))
    except EnvironmentUnfitError as error:
        why.add(f"{error.message} {error.advice}")
        return None


def _list(store: History, cases: Sequence[str], *, as_json: bool) -> int:
    from qwenperf.report.series_scale import printable

    known = store.cases()
    if as_json:
        write_json({"store": store.url, "cases": {name: list(known[name]) for name in cases}})
    else:
        write_lines(printable(f"{name}  ({len(known[name])} metrics)") for name in cases)
    return 0


def _report(shown: Sequence[Drawn]) -> Iterator[RenderableType]:
    from qwenperf.report.history import history_report

    out = console(sys.stdout)
    for series, changes in shown:
        yield from history_report(series, changes or (), width=min(out.width, 120), plain=not _draws_dots(out.encoding))


def _draws_dots(encoding: str) -> bool:
    return encoding.lower().replace("-", "") in {"utf8", "utf16", "utf32"}


def _write_newest(cases: Sequence[str], shown: Sequence[Series]) -> None:
    from qwenperf.report.history import newest_report

    of_case: dict[str, list[Series]] = {case: [] for case in cases}
    for series in shown:
        of_case[series.case].append(series)
    for case, found in of_case.items():
        write(newest_report(case, found))


def _write_json(store: History, shown: Sequence[Drawn]) -> None:
    from qwenperf.schema.codec import series_to_json

    problems = [{"folder": one.folder, "message": one.message} for one in store.problems()]
    told = [
        {**series_to_json(series), "changes": None if changes is None else list(changes)} for series, changes in shown
    ]
    write_json({"store": store.url, "series": told, "problems": problems})


def _write_page(file: Path, store: History, shown: Sequence[Drawn]) -> None:
    """Write the page whole or not at all, over an older page but over nothing else.

    Raises:
      OutputError: something else is there, or the system refuses.
    """
    from qwenperf.lab.run_folder import write_text
    from qwenperf.report.history_html import history_page

    if is_there(file) and not _is_page(file):
        raise OutputError(f"{file} is there, and is no page.", advice="Give another name with --html.")
    write_text(file, history_page(store.url, [(series, changes or ()) for series, changes in shown]))
    say(f"qwenperf: wrote {file}")


def _is_page(file: Path) -> bool:
    """Say whether a page may be replaced by the next; an empty file is nobody's."""
    try:
        begins = read_text(file).lstrip()[:9].lower()
    except (OSError, ValueError):
        return False
    return begins in {"", "<!doctype"}
