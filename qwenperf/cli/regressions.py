"""``qwenperf regressions``: what became worse over time in a store's runs; ``accept`` says that it is meant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qwenperf.cli.output import debug_option, json_option, write_json, write_lines
from qwenperf.cli.regressions_told import is_alarm, tell
from qwenperf.cli.stores import find_store, store_option, warn_of_problems
from qwenperf.cli.streams import say, verdict_survives
from qwenperf.errors import StoreError, UnknownNameError, UsageError
from qwenperf.schema.regressions import NOTE, Cause, Regression, RegressionsRecord, RegressionStatus, dumps, to_json

if TYPE_CHECKING:
    from qwenperf.cli.regressions_find import StaleSeries
    from qwenperf.store.directory import DirectoryStore

STALE = ("warn", "fail")
_REGRESSED, _SILENT = 1, 5
_LEAST = 5
_ORDER = (RegressionStatus.NEW, RegressionStatus.FIXED, RegressionStatus.ACCEPTED, RegressionStatus.IMPROVED)


@click.group("regressions", invoke_without_command=True)
@store_option
@click.option("--case", metavar="GLOB", help="Only cases whose id matches.")
@click.option("--metric", "metrics", multiple=True, metavar="NAME", help="Only this metric; repeatable.")
@click.option("--branch", help="Only runs of this branch.")
@click.option("--since", metavar="WHEN", help="List what began there or later: a date, an age such as 30d, a commit.")
@click.option("--release", metavar="WHEN", help="Count drift from here (default: the newest git tag before HEAD).")
@click.option("--least", type=click.IntRange(min=3), default=_LEAST, show_default=True, help="Points a level needs.")
@click.option("--improvements", is_flag=True, help="List what became better too.")
@click.option("--stale", help=f"What a case that no longer comes does: {' or '.join(STALE)} (default: warn).")
@json_option
@debug_option
@click.pass_context
def command(ctx: click.Context, /, *, debug: bool, **asked: Any) -> int:  # noqa: ARG001
    """List what became worse over time: how much, since which commit, and what is known of why.

    Exit code 1: a new regression that code is to blame for. 5, with --stale=fail: a case no longer comes.
    """
    if ctx.invoked_subcommand is None:
        return _list(**asked)
    given = [name for name, value in asked.items() if value and (name, value) != ("least", _LEAST)]
    if given:
        advice = f"Give options after it: qwenperf regressions {ctx.invoked_subcommand} ..."
        raise UsageError(f"options before {ctx.invoked_subcommand!r} are not those of it.", advice=advice)
    return 0


@command.command("accept")
@click.argument("name")
@click.option("--reason", required=True, help="Why it is accepted: whoever looks later asks that.")
@store_option
@json_option
@debug_option
def accept_command(name: str, reason: str, *, store_url: str | None, as_json: bool, debug: bool) -> int:  # noqa: ARG001
    """Accept the regression NAME: what follows is compared with its level.

    Where NAME is a case or a pattern of cases, accept that these are measured no more, until one is.
    """
    from qwenperf.cli.regressions_find import alone, read_known

    store = find_store(store_url)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    with alone(store):
        record = read_known(store)
        kept, told, lines = _accepted(store, record, name, reason, now)
        store.write_note(NOTE, dumps(replace(kept, updated_at=now)).encode())
    if as_json:
        write_json(told)
    else:
        write_lines(lines)
    return 0


def _accepted(
    store: DirectoryStore, record: RegressionsRecord, name: str, reason: str, now: str
) -> tuple[RegressionsRecord, dict[str, Any], list[str]]:
    """Return the record with what NAME means accepted, and what is said of it: as data and as lines."""
    from qwenperf.gate.history_retired import named_cases, retire
    from qwenperf.gate.history_status import accept
    from qwenperf.report.series_scale import printable

    try:
        regressions = accept(record.regressions, name, reason, now)
    except UnknownNameError as error:
        cases = named_cases(name, store.cases())
        if not cases:
            raise UnknownNameError("regression or case", name, [*error.known, *store.cases()]) from None
        retired = retire(record.retired, cases, reason, now)
        told = [{"case": one.case, "reason": one.reason, "retired_at": one.retired_at} for one in retired]
        mine = [one for one in told if one["case"] in cases]
        lines = [printable(f"retired {one['case']}: {one['reason']}") for one in mine]
        return replace(record, retired=retired), {"retired": mine}, lines
    done = next(one for one in regressions if one.accepted_at == now and one.id.startswith(name))
    line = printable(f"accepted {done.id}: {done.metric} of {done.case}: {done.reason}")
    return replace(record, regressions=regressions), to_json(done), [line]


def _list(*, store_url: str | None, stale: str | None, as_json: bool, **asked: Any) -> int:
    from qwenperf.cli import regressions_find as find
    from qwenperf.cli.regressions_git import with_acceptance
    from qwenperf.cli.windows import read_window
    from qwenperf.gate.history_retired import is_retired
    from qwenperf.gate.history_status import kept_meanwhile, merged

    if stale is not None and stale not in STALE:
        raise UnknownNameError("choice for --stale", stale, STALE)
    store = find_store(store_url)
    names = find.chosen(store, asked["case"], asked["metrics"])
    find.check_branch(store, asked["branch"])
    known, now = find.read_known(store), datetime.now(UTC)
    stamp = now.isoformat(timespec="seconds")
    since = read_window(store, since=asked["since"]).since
    release = _release(store, asked["release"])
    judged = find.judge_all(
        store,
        names,
        read_window(store, branch=asked["branch"]),
        known=known.regressions,
        released_at=release,
        now=stamp,
        least=asked["least"],
    )
    warn_of_problems(store)
    found = tuple(
        find.with_evidence(store, with_acceptance(Path.cwd(), one, stamp)) for one in merged(known.regressions, judged)
    )
    with find.alone(store):
        latest = find.read_known(store)
        found = kept_meanwhile(found, known.regressions, latest.regressions)
        _keep(store, replace(latest, updated_at=stamp, regressions=found))
    better = [one for each in judged for one in each.improvements] if asked["improvements"] else []
    listed = [one for one in (*find.shown(found, judged), *better) if since is None or _is_since(one, since)]
    listed.sort(key=lambda one: (_ORDER.index(one.status), one.cause is not Cause.CODE))
    silent = [one for one in find.stale_series(judged, now) if not is_retired(latest.retired, one.case, one.last)]
    with verdict_survives():
        tell(store, judged, listed, silent, release=release, as_json=as_json)
    return _code(listed, silent, stale)


def _release(store: DirectoryStore, asked: str | None) -> str:
    """Return when the last release was, ISO 8601; empty where none is known.

    Raises:
      UsageError: ``--release`` means no moment.
    """
    from qwenperf.cli.regressions_git import last_release
    from qwenperf.cli.since import read_since

    if asked is None:
        return last_release(Path.cwd())
    try:
        return read_since(asked, datetime.now(UTC), store.committed).isoformat()
    except UsageError as error:
        raise UsageError(error.message.replace("--since", "--release"), advice=error.advice) from None


def _keep(store: DirectoryStore, record: RegressionsRecord) -> None:
    """Write what was found beside the runs; a store that cannot be written to costs the note and not the list."""
    try:
        store.write_note(NOTE, dumps(record).encode())
    except StoreError as error:
        say(f"qwenperf: warning: {NOTE} was not written, so that nothing of this can be accepted: {error}")


def _is_since(one: Regression, since: datetime) -> bool:
    from qwenperf.gate.history_input import seconds

    # What nobody knows the time of is listed: an alarm is not to be lost so.
    return not seconds(one.began_at or one.measured_at) < since.timestamp()


def _code(listed: Sequence[Regression], silent: Sequence[StaleSeries], stale: str | None) -> int:
    if silent and stale == "fail":
        return _SILENT
    return _REGRESSED if any(is_alarm(one) for one in listed) else 0
