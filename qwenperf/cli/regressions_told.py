"""What ``qwenperf regressions`` found, as one JSON document or as lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from qwenperf import units
from qwenperf.cli.output import write, write_json
from qwenperf.schema.regressions import Cause, Regression, RegressionStatus, to_json

if TYPE_CHECKING:
    from qwenperf.cli.regressions_find import StaleSeries
    from qwenperf.gate.history import Judged
    from qwenperf.store.directory import DirectoryStore


def is_alarm(one: Regression) -> bool:
    """Say whether somebody has to look at it: new, and explained by nothing but code."""
    return one.status is RegressionStatus.NEW and one.cause is Cause.CODE


def tell(
    store: DirectoryStore,
    judged: Sequence[Judged],
    listed: Sequence[Regression],
    silent: Sequence[StaleSeries],
    *,
    release: str,
    as_json: bool,
) -> None:
    """Write the list, as data or for people."""
    if as_json:
        write_json(
            {
                "store": store.url,
                "released_at": release,
                "histories": len(judged),
                "not_comparable": [_named(each) for each in judged if not each.points],
                "regressions": [to_json(one) for one in listed],
                "crept": [_crept(each) for each in judged if each.crept],
                "stale": [_stale(one) for one in silent],
            }
        )
        return
    write(_lines(store, judged, listed, silent, release))


def _named(each: Judged) -> dict[str, Any]:
    return {"case": each.series.case, "metric": each.series.metric}


def _crept(each: Judged) -> dict[str, Any]:
    size, low, high = each.crept or (0.0, 0.0, 0.0)
    told = {"size": size, "interval": [low, high], "is_relative": each.is_relative, "unit": each.series.unit}
    return {**_named(each), **told}


def _stale(one: StaleSeries) -> dict[str, Any]:
    ages = {"age_s": one.found.age_s, "expected_s": one.found.expected_s}
    return {"case": one.case, "metrics": list(one.metrics), "last": one.last, **ages}


def _lines(
    store: DirectoryStore,
    judged: Sequence[Judged],
    listed: Sequence[Regression],
    silent: Sequence[StaleSeries],
    release: str,
) -> Iterator[Text]:
    from qwenperf.report.regressions import crept_line, regression_lines, summary_lines
    from qwenperf.report.series_scale import printable

    for one in listed:
        yield from regression_lines(one)
    since = f"the release of {release[:10]}" if release else "the first run"
    yield from filter(None, (crept_line(each, since) for each in judged))
    for case in silent:
        age, expected = (units.age(value) for value in (case.found.age_s, case.found.expected_s))
        many = f"{len(case.metrics)} metrics" if case.metrics[1:] else case.metrics[0]
        told = f"stale: {many} of {case.case}: last measured {case.last}, {age} ago; expected within {expected}"
        yield Text(printable(told))
    if silent:
        yield Text(
            "meant so, such as of a case that its suite has no more: qwenperf regressions accept CASE --reason WHY"
        )
    yield from summary_lines(judged, listed, store.url)
