"""``qwenperf bisect CASE METRIC --good A``: which commit changed a metric of a case."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qwenperf.cli.bisect_progress import BisectProgress
from qwenperf.cli.compare_cases import looks
from qwenperf.cli.compare_progress import PairProgress
from qwenperf.cli.config import find_project
from qwenperf.cli.files import is_there, named_path
from qwenperf.cli.interrupts import interrupts
from qwenperf.cli.output import debug_option, json_option, write, write_json
from qwenperf.cli.streams import say, verdict_survives
from qwenperf.errors import QwenperfError, UnknownNameError, UsageError
from qwenperf.schema.metrics import REGISTRY, Kind, lookup
from qwenperf.workloads.engine import parse_engine
from qwenperf.workloads.factory import is_factory
from qwenperf.workloads.models import PRESETS
from qwenperf.workloads.suites import SUITES

if TYPE_CHECKING:
    from qwenperf.lab.bisect_history import Ends
    from qwenperf.lab.bisect_probe import Compare
    from qwenperf.lab.bisect_sides import Sides
    from qwenperf.schema.bisection import BisectionRecord
    from qwenperf.stats.spending import Plan

_LABEL = re.compile(r"b(?P<batch>\d+)-p(?P<prompt>\d+)-n(?P<new>\d+)-(?P<dtype>\w+)")
_ONE_OR_MORE, _ABOVE_0 = click.IntRange(min=1), click.FloatRange(min=0, min_open=True)


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What is searched for: a case, the flags of ``qwenperf run`` that choose it, its engine, a metric."""

    case: str
    arguments: tuple[str, ...]
    engine: str
    metric: str


@click.command("bisect")
@click.argument("case")
@click.argument("metric")
@click.option("--good", required=True, metavar="REVISION", help="A commit before the change.")
@click.option("--bad", default="HEAD", show_default=True, metavar="REVISION", help="A later commit that has it.")
@click.option("--first-parent", is_flag=True, help="Take each merged branch as one commit.")
@click.option("--suite", help="Take the case from this suite of each commit's own (default: made from its name).")
@click.option(
    "--margin", type=_ABOVE_0, default=0.03, show_default=True, help="Relative change that good and bad have at least."
)
@click.option("--looks", default="6,12,20", show_default=True, help="Pairs after which a decision is tried.")
@click.option("--rounds", type=_ONE_OR_MORE, default=6, show_default=True, help="Rounds of four trials in a pair.")
@click.option("--trial", "trial_s", type=_ABOVE_0, default=0.1, show_default=True, metavar="S", help="Seconds a trial.")
@click.option("--cores", type=_ONE_OR_MORE, metavar="N", help="Pin both sides to the first N cores.")
@click.option(
    "--attempts",
    type=_ONE_OR_MORE,
    default=3,
    show_default=True,
    help="Times that an unclear commit is measured, each with more pairs.",
)
@click.option("--out", type=named_path, metavar="DIR", help="Where the folder of the search goes (default: profiles).")
@click.option("--restart", is_flag=True, help="Begin anew, whatever was found out before.")
@json_option
@debug_option
def command(case: str, metric: str, as_json: bool, **flags: Any) -> int:  # noqa: FBT001
    """Find the commit between --good and --bad that changed METRIC of CASE.

    CASE is an id as `qwenperf run --list` shows it, METRIC a name in docs/metrics.md. Metrics that repeat exactly are
    measured once a commit, timed ones in pairs against --good as in `qwenperf compare`. Commits that do not build, or
    do not have the case, are skipped. Interrupted or killed, the same command goes on where it was.
    """
    from qwenperf.lab.bisect import exit_code, opened
    from qwenperf.report.bisect import bisection_report
    from qwenperf.schema.bisection import bisection_to_json

    asked = _asked(case, metric, flags["suite"])
    settings = find_project(Path.cwd()).settings({})
    out = flags["out"] or Path(settings.out)
    with interrupts():
        prepared = _prepare(asked, flags)
        with opened(out, prepared.wanted, restart=flags["restart"]) as (known, folder):
            record = known if known.end else _search(prepared, known, folder)
    with verdict_survives():
        if as_json:
            write_json(bisection_to_json(record))
        else:
            write(bisection_report(record, str(folder / "bisect.json")))
    return exit_code(record)


def _asked(case: str, metric: str, suite: str | None) -> _Asked:
    """Return what is asked for, before any commit is looked at.

    Raises:
      UnknownNameError: no such metric, suite or case; offers the nearest.
      UsageError: a timed metric that may be 0 or below.
    """
    from qwenperf.lab.bisect_compare import NO_RATIO

    if lookup(metric).kind is Kind.TIMED and metric in NO_RATIO:
        known = ", ".join(name for name, one in REGISTRY.items() if one.kind is Kind.TIMED and name not in NO_RATIO)
        raise UsageError(
            f"{metric} may be 0 or below: it has no relative change to search by.", advice=f"Take one of {known}."
        )
    parts = case.rsplit("/", 2)
    label = _LABEL.fullmatch(parts[-1])
    if len(parts) < 3 or label is None:
        raise UnknownNameError("case", case, dict.fromkeys(one.id for each in SUITES.values() for one in each.cases))
    if suite is not None:
        return _Asked(case=case, arguments=("--suite", suite, "--filter", case), engine=parts[1], metric=metric)
    # Each commit runs in a folder of its own.
    model = str(Path(parts[0]).resolve()) if parts[0] not in PRESETS and is_there(Path(parts[0])) else parts[0]
    sizes = ("--batch", label["batch"], "--prompt-length", label["prompt"], "--new-tokens", label["new"])
    arguments = ("--model", model, "--engine", parts[1], *sizes, "--dtype", label["dtype"])
    return _Asked(case="/".join((model, *parts[1:])), arguments=arguments, engine=parts[1], metric=metric)


@dataclass(frozen=True, kw_only=True)
class _Prepared:
    """A search whose ends were looked at: its commits, their sides, and its record before any answer."""

    asked: _Asked
    ends: Ends
    sides: Sides
    wanted: BisectionRecord
    plan: Plan
    flags: Mapping[str, Any]


def _prepare(asked: _Asked, flags: Mapping[str, Any]) -> _Prepared:
    """Find the commits, and see that both ends have the case."""
    from qwenperf.lab.bisect import new_record
    from qwenperf.lab.bisect_history import find_ends
    from qwenperf.lab.bisect_sides import Sides
    from qwenperf.lab.revisions import Repository
    from qwenperf.stats.spending import Plan, can_fail

    plan = Plan(looks=looks(flags["looks"]), margin=flags["margin"])
    if not can_fail(plan, 1):
        raise UsageError(f"--looks {flags['looks']}: so few pairs can prove no change.", advice="Write 6,12,20.")
    _refuse_cores(asked, flags["cores"])
    repository = Repository.find(Path.cwd())
    ends = find_ends(repository, flags["good"], flags["bad"], first_parent=flags["first_parent"])
    kept = {name: flags[name] for name in ("margin", "looks", "rounds", "trial_s", "cores", "attempts", "suite")}
    names = {name: flags[name] for name in ("first_parent",)}
    names |= {"good_name": flags["good"], "bad_name": flags["bad"]}
    wanted = new_record(asked.case, asked.metric, ends, kept, **names)
    sides = Sides(repository=repository, case=asked.case, arguments=asked.arguments, say=say)
    for sha, option in ((ends.good.sha, "--good"), (ends.bad.sha, "--bad")):
        sides.check_end(sha, option)
    return _Prepared(asked=asked, ends=ends, sides=sides, wanted=wanted, plan=plan, flags=flags)


def _refuse_cores(asked: _Asked, cores: int | None) -> None:
    if cores and not _by_pairs(asked):
        raise UsageError(f"--cores pins process pairs, and {asked.metric} of {asked.engine} is measured by whole runs.")


def _search(prepared: _Prepared, record: BisectionRecord, folder: Path) -> BisectionRecord:
    """Ask until the commit is found; goes on behind what ``record`` knows."""
    from qwenperf.lab.bisect import Bisection
    from qwenperf.lab.bisect_history import parents_of
    from qwenperf.lab.bisect_probe import Probe
    from qwenperf.lab.bisect_search import Search
    from qwenperf.lab.bisect_traces import Traces

    asked, progress = prepared.asked, BisectProgress(say)
    timed = lookup(asked.metric).kind is Kind.TIMED
    probe = Probe(
        case=asked.case, metric=asked.metric, arguments=asked.arguments, side=prepared.sides, plan=prepared.plan,
        compare=_compare(prepared, record, folder, progress) if timed else None,
    )  # fmt: skip
    search = Search(
        good=record.good, bad=record.bad, parents=parents_of(prepared.ends, first_parent=record.first_parent),
        confirm=timed, most_attempts=prepared.flags["attempts"],
    )  # fmt: skip
    if record.answers:
        say(f"going on behind {len(record.answers)} answers of {folder}")
    traces = Traces(case=asked.case, arguments=asked.arguments, side=prepared.sides, say=say)
    return Bisection(
        record=record, folder=folder, search=search, ask=probe.ask, listener=progress, explain=traces
    ).run()


def _compare(prepared: _Prepared, record: BisectionRecord, folder: Path, progress: BisectProgress) -> Compare:
    """Return the comparison that times the metric."""
    from qwenperf.lab.bisect_compare import ByPairs, ByRuns
    from qwenperf.lab.pairs import PairOptions
    from qwenperf.lab.run_pair_files import PairFolders

    asked, flags, bad = prepared.asked, prepared.flags, prepared.ends.bad.sha
    if _by_pairs(asked):
        return ByPairs(
            case=prepared.sides.case_of(bad), folder=folder, listener=lambda: PairProgress(say),
            options=PairOptions(rounds=flags["rounds"], trial_s=flags["trial_s"], cores=flags["cores"]),
        )  # fmt: skip
    seed = int(bad[:8], 16)
    answered = {answer.folder for answer in record.answers if answer.folder}
    places = PairFolders(folder=folder, begun=record.created_at, answered=answered)
    return ByRuns(
        case=asked.case, metric=asked.metric, arguments=asked.arguments, seed=seed, listener=progress, places=places
    )


def _by_pairs(asked: _Asked) -> bool:
    """Say whether pairs of processes time the metric; whole runs do otherwise."""
    from qwenperf.lab.bisect_compare import BY_REQUEST

    return asked.metric in BY_REQUEST and not _needs_its_own_process(asked.engine)


def _needs_its_own_process(engine: str) -> bool:
    """Say whether an engine has settings that processes of pairs do not have."""
    from qwenperf.lab.process import needs_first_process

    if is_factory(engine):
        return False
    with suppress(QwenperfError):  # one that only other commits know
        settings = parse_engine(engine)
        return needs_first_process(settings) or settings.xla_flags != "none"
    return False
