"""A series as people read it in a terminal: a drawing, a row a point, and what the numbers are. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from qwenperf import units
from qwenperf.report.series_plot import series_plot
from qwenperf.report.series_scale import counted, environments_of, printable
from qwenperf.schema.metrics import Direction
from qwenperf.schema.series import Point, Series

BETTER = {Direction.LOWER: "lower is better", Direction.HIGHER: "higher is better", Direction.NONE: "a fact"}


def history_report(
    series: Series, changes: Sequence[int] = (), *, width: int = 80, plain: bool = False
) -> Iterator[RenderableType]:
    """Yield the whole report of a series that has points."""
    yield Text(printable(f"{series.case}  {series.metric}"), style="bold", no_wrap=True)
    told = f"{series.unit}, {BETTER[series.direction]}, {series.kind}; {counted(len(series.points), 'point')}"
    yield Text(printable(told), style="dim")
    if len(series.points) > 1:
        yield from series_plot(series, changes=changes, width=width, plain=plain)
    yield _table(series, set(changes))
    yield from notes(series)
    yield Text()


def newest_report(case: str, found: Iterable[Series]) -> Iterator[RenderableType]:
    """Yield a row a metric of one case: the newest value, and what it is to the one before."""
    yield Text(printable(case), style="bold", no_wrap=True)
    table = Table(box=None, pad_edge=False)
    for name in ("metric", "newest", "step", "better", "points"):
        table.add_column(name, overflow="fold", justify="left" if name in {"metric", "better"} else "right")
    for series in found:
        changed = changes_to_before(series)[-1]
        newest = units.quantity(series.points[-1].value, series.unit)
        better = "-" if series.direction is Direction.NONE else str(series.direction)
        table.add_row(printable(series.metric), newest, changed, better, str(len(series.points)))
    yield table
    yield Text()


def changes_to_before(series: Series) -> list[str]:
    """Return of each point how far it is from the one before it in its environment; ``-`` where there is none."""
    before: dict[str, float] = {}
    told = []
    for point in series.points:
        told.append(percent(point.value, before.get(point.environment)))
        before[point.environment] = point.value
    return told


def percent(value: float, base: float | None) -> str:
    """Return ``value`` over ``base`` as a signed share; the smallest change is not rounded to none."""
    if base is None:
        return "-"
    if value == base:
        return "="
    share = 0.0 if base == 0 else (value / 2 - base / 2) / (abs(base) / 2)
    if base == 0 or abs(share) > 1e4:
        return "up" if value > base else "down"
    return f"{share:+.1%}" if abs(share) >= 5e-4 else f"{100 * share:+.1g}%"


def spread(point: Point) -> str:
    """Return half the width of a point's interval as a share of its value."""
    if point.interval is None or not point.value:
        return "-"
    half = (point.interval[1] / 2 - point.interval[0] / 2) / abs(point.value)
    return f"+-{half:.1%}" if half < 1e3 else "wide"


def short(commit: str, *, dirty: bool) -> str:
    """Return a commit as people name it; a star where tracked files differed from it."""
    return f"{commit[:8]}{'*' if dirty else ''}" if commit else "-"


def notes(series: Series) -> Iterator[Text]:
    """Yield what must be known to read the points together: machines, branches, code that is no commit."""
    environments = environments_of(series.points)
    if len(environments) > 1:
        names = ", ".join(environments.values())
        yield Text(printable(f"{len(environments)} environments: {names}; --environment asks for one."))
        yield Text("A step from one environment to another says nothing of the code.")
    branches = dict.fromkeys(point.branch or "no branch" for point in series.points)
    if len(branches) > 1:
        yield Text(printable(f"branches: {', '.join(branches)}; --branch asks for one."))
    if any(point.extra.get("dirty") for point in series.points):
        yield Text("*: tracked files differed from the commit.")
    former = dict.fromkeys(str(point.extra["case"]) for point in series.points if "case" in point.extra)
    if former:
        yield Text(printable(f"formerly: {', '.join(former)}."))


def _table(series: Series, changes: set[int]) -> Table:
    machines, branches = (
        len({point.environment for point in series.points}) > 1,
        len({p.branch for p in series.points}) > 1,
    )
    table = Table(box=None, pad_edge=False)
    for name, right in columns(machines=machines, branches=branches):
        table.add_column(name, justify="right" if right else "left", overflow="fold", no_wrap=bool(name))
    for cells in rows(series, changes, machines=machines, branches=branches):
        table.add_row(*map(printable, cells))
    return table


def columns(*, machines: bool, branches: bool) -> Iterator[tuple[str, bool]]:
    """Yield the heads of a table of points, and whether they are of numbers."""
    yield from (("date", False), ("commit", False), ("value", True), ("interval", True), ("step", True))
    if machines:
        yield ("environment", False)
    if branches:
        yield ("branch", False)
    yield ("", False)


def rows(series: Series, changes: set[int], *, machines: bool, branches: bool) -> Iterator[tuple[str, ...]]:
    """Yield the cells of a table of points, the oldest first."""
    told = changes_to_before(series)
    for place, point in enumerate(series.points):
        remarks = ["change"] if place in changes else []
        remarks += [f"accepted: {point.accepted}"] if point.accepted else []
        yield (
            (point.committed_at or point.measured_at)[:10],
            short(point.commit, dirty=bool(point.extra.get("dirty"))),
            units.quantity(point.value, series.unit),
            spread(point),
            told[place],
            *([point.environment[:8] or "-"] if machines else []),
            *([point.branch or "-"] if branches else []),
            "; ".join(remarks),
        )
