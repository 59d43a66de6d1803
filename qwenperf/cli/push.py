"""``qwenperf push``: send runs to a service; one that is away, or says no, fails no job unless one asks for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qwenperf import units
from qwenperf.cli.files import named_path
from qwenperf.cli.output import debug_option, json_option, write_json, write_lines
from qwenperf.cli.streams import say, verdict_survives
from qwenperf.errors import QwenperfError, UsageError
from qwenperf.gate.verdict import strongest
from qwenperf.settings import cache_folder

if TYPE_CHECKING:
    from qwenperf.store.delivery import Delivery
    from qwenperf.store.http import Service
    from qwenperf.store.parcels import Parcel


@click.command("push")
@click.argument("runs", nargs=-1, type=named_path)
@click.option("--url", envvar="QWENPERF_URL", default="", metavar="URL", help="The service ($QWENPERF_URL).")
@click.option(
    "--project", envvar="QWENPERF_PROJECT", default="", metavar="NAME", help="Its project ($QWENPERF_PROJECT)."
)
@click.option(
    "--token", envvar="QWENPERF_TOKEN", default="", help="Better in $QWENPERF_TOKEN: others see a command line."
)
@click.option("--no-traces", is_flag=True, help="Send records only.")
@click.option(
    "--comparison-traces", is_flag=True, help="Send traces of comparisons, too; their records only sum them up."
)
@click.option("--from", "kind", default="", metavar="FORMAT", help="Another tool's files, in this format.")
@click.option("--spool", is_flag=True, help="Send what waits from earlier, too.")
@click.option("--spool-folder", envvar="QWENPERF_SPOOL", type=named_path, metavar="DIR", help="Where that waits.")
@click.option("--patience", type=float, default=60, show_default=True, metavar="S", help="Try a request for so long.")
@click.option("--strict", is_flag=True, help="End with an error where something did not arrive.")
@json_option
@debug_option
def command(runs: tuple[Path, ...], as_json: bool, strict: bool, **options: Any) -> int:  # noqa: FBT001
    """Send RUNS (run or comparison folders, their records, or other tools' files) to a service.

    A run that is there already is left as it is. What cannot be sent waits in a folder, and --spool sends it.
    """
    # Secrets and variables of CI are pasted with a newline.
    options |= {name: options[name].strip() for name in ("url", "project", "token")}
    if not runs and not options["spool"]:
        raise UsageError("there is nothing to push.", advice="Give a run folder, or --spool for what waits.")
    if options["no_traces"] and options["comparison_traces"]:
        raise UsageError("--no-traces and --comparison-traces contradict each other.", advice="Give one of them.")
    found, codes = [], []
    for done in _push(runs, options):
        found.append(done)
        codes.append(done.exit_code)
        say(f"qwenperf: {_line(done)}")
    with verdict_survives():
        if as_json:
            write_json({"pushed": [done.to_json() for done in found]})
        else:
            write_lines(_address(options["url"], record) for done in found for record in done.records)
    return strongest(codes) if strict else 0


def _push(runs: tuple[Path, ...], options: dict[str, Any]) -> Iterator[Delivery]:
    from qwenperf.store.delivery import Delivery, Fate, deliver, drain
    from qwenperf.store.http import Service
    from qwenperf.store.spool import Spool

    spool = Spool(options["spool_folder"] or _spool_folder())
    service = Service(
        url=options["url"],
        token=options["token"],
        patience_s=max(0.0, options["patience"]),
        say=lambda line: say(f"qwenperf: {line}"),
    )
    try:
        _identify(service, options["project"])
        if options["spool"]:
            yield from _told(lambda: drain(_named(service), spool), "the spool")
        for place in runs:
            try:
                for parcel in _parcels(place, options):
                    yield deliver(_with_fork_point(parcel), _named(service), _project(options), spool)
            except QwenperfError as error:
                yield Delivery(name=str(place), fate=Fate.LOST, message=str(error), exit_code=error.exit_code)
    finally:
        service.close()


def _identify(service: Service, project: str) -> None:
    """Give a CI job without a token one for its identity, and another when that ends.

    Where that fails, say why and let the push tell the rest.
    """
    from qwenperf.store.job_identity import hold_job_token, is_job

    if service.token or not (service.url and project and is_job(os.environ)):
        return
    try:
        hold_job_token(service, project, os.environ)
    except QwenperfError as error:
        say(f"qwenperf: no token for this job: {error}")


def _told(work: Any, name: str) -> Iterator[Delivery]:
    from qwenperf.store.delivery import Delivery, Fate

    try:
        yield from work()
    except QwenperfError as error:
        yield Delivery(name=name, fate=Fate.LOST, message=str(error), exit_code=error.exit_code)


def _named(service: Service) -> Service:
    if not service.url:
        raise UsageError("no service is named.", advice="Give --url, or set QWENPERF_URL.")
    return service


def _project(options: dict[str, Any]) -> str:
    if not options["project"]:
        raise UsageError("no project is named.", advice="Give --project, or set QWENPERF_PROJECT.")
    return str(options["project"])


def _parcels(place: Path, options: dict[str, Any]) -> Iterator[Parcel]:
    from qwenperf.store.parcels import RECORDS, pack_place

    if options["kind"]:
        yield from _foreign(place, options["kind"])
    else:
        traced = RECORDS if options["comparison_traces"] else RECORDS[:1]
        yield pack_place(place, traced=() if options["no_traces"] else traced)


def _with_fork_point(parcel: Parcel) -> Parcel:
    """Let a service know where the run's branch left the main one, and its pull request; the record stays as it is."""
    from qwenperf.cli.push_fork import fork_query
    from qwenperf.cli.push_pull import pull_query

    found = fork_query(parcel.commit, Path.cwd(), os.environ) | pull_query(parcel.commit, os.environ)
    return replace(parcel, query={**parcel.query, **found}) if found else parcel


def _foreign(place: Path, kind: str) -> Iterator[Parcel]:
    from qwenperf.cli.foreign_files import read_place
    from qwenperf.schema.codec import to_json
    from qwenperf.store.parcels import pack

    for run in read_place(place, kind):
        yield pack(to_json(run), run.id)


def _spool_folder() -> Path:
    try:
        return cache_folder(os.environ) / "spool"
    except RuntimeError as error:
        raise UsageError(f"there is no folder to keep runs in: {error}.", advice="Name one: --spool-folder.") from error


def _line(done: Delivery) -> str:
    """Say in a line what became of a parcel."""
    parts = [f"{done.name}: {done.fate}"]
    if done.files:
        parts.append(f"{done.files} file{'s' if done.files > 1 else ''}, {units.byte_count(done.file_bytes)}")
    if done.removed:
        parts.append(f"{done.removed} secret{'s' if done.removed > 1 else ''} removed")
    if done.kept:
        parts.append(f"kept in {done.kept}; `qwenperf push --spool` sends it")
    return f"{', '.join(parts)}{f'. {done.message}' if done.message else ''}"


def _address(url: str, record: Any) -> str:
    from qwenperf.store.words import bare, one_line

    return f"{bare(url)}{one_line(str(record.get('page', '')))}"
