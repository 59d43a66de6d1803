"""``qwenperf bisect [CASE] METRIC --good A``: which commit changed a metric of a case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qwenperf.cli import choices
from qwenperf.cli.bisect_case import Asked, by_pairs, read_asked
from qwenperf.cli.bisect_own import FROM_ITS_TREE, find_own, find_repository, place_of
from qwenperf.cli.bisect_progress import BisectProgress
from qwenperf.cli.compare_cases import looks
from qwenperf.cli.compare_progress import PairProgress
from qwenperf.cli.config import find_project
from qwenperf.cli.files import named_path
from qwenperf.cli.interrupts import interrupts
from qwenperf.cli.output import debug_option, json_option, write, write_json
from qwenperf.cli.streams import say, verdict_survives
from qwenperf.errors import UsageError
from qwenperf.schema.metrics import Kind, lookup

if TYPE_CHECKING:
    from qwenperf.lab.bisect_environment import Unchanged
    from qwenperf.lab.bisect_history import Ends
    from qwenperf.lab.bisect_probe import Compare
    from qwenperf.lab.bisect_sides import Sides
    from qwenperf.schema.bisection import BisectionRecord
    from qwenperf.stats.spending import Plan

_ONE_OR_MORE, _ABOVE_0 = click.IntRange(min=1), click.FloatRange(min=0, min_open=True)


@click.command("bisect")
@click.argument("words", nargs=-1, required=True, metavar="[CASE] METRIC")
@click.option("--good", required=True, metavar="REVISION", help="A commit before the change.")
@click.option("--bad", default="HEAD", show_default=True, metavar="REVISION", help="A later commit that has it.")
@click.option("--first-parent", is_flag=True, help="Take each merged branch as one commit.")
@click.option("--suite", help="Take the case from this suite of each commit's own (default: made from its name).")
@click.option("--model", metavar="NAME", help=f"Model of the case, where no id names it: {choices.MODEL}.")
@click.option(
    "--engine",
    metavar="NAME",
    help=f"Its engine: {choices.ENGINE}. One of yours is taken from each commit of your repository.",
)
@click.option("--prompt-length", type=int, metavar="N", help="Tokens of its prompt (default: 32).")
@click.option("--new-tokens", type=int, metavar="N", help="Tokens that it generates (default: 32).")
@click.option("--batch", type=int, metavar="N", help="Its prompts at once (default: 1).")
@click.option("--dtype", metavar="NAME", help=f"Of its weights and activations: {choices.DTYPE} (default: f32).")
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
def command(words: tuple[str, ...], as_json: bool, **flags: Any) -> int:  # noqa: FBT001
    """Find the commit between --good and --bad that changed METRIC of CASE.

    CASE is an id as `qwenperf run --list` shows it, or is made of --model, --engine and sizes; METRIC is a name in
    docs/metrics.md. Metrics that repeat exactly are measured once a commit, timed ones in pairs against --good as in
    `qwenperf compare`. Commits that do not build, or do not have the case, are skipped. Interrupted or killed, the same
    command goes on where it was. In a repository of your own, name the engine in it: --engine package.module:make.
    """
    from qwenperf.lab.bisect import exit_code, opened
    from qwenperf.report.bisect import bisection_report
    from qwenperf.schema.bisection import bisection_to_json

    asked = read_asked(words, flags)
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


@dataclass(frozen=True, kw_only=True)
class _Prepared:
    """A search whose ends were looked at: its commits, their sides, and its record before any answer."""

    asked: Asked
    ends: Ends
    sides: Sides
    wanted: BisectionRecord
    plan: Plan
    flags: Mapping[str, Any]


def _prepare(asked: Asked, flags: Mapping[str, Any]) -> _Prepared:
    """Find the commits, and see that both ends have the case."""
    from qwenperf.lab.bisect import new_record
    from qwenperf.lab.bisect_history import find_ends
    from qwenperf.lab.bisect_sides import Sides
    from qwenperf.stats.spending import Plan, can_fail

    plan = Plan(looks=looks(flags["looks"]), margin=flags["margin"])
    if not can_fail(plan, 1):
        raise UsageError(f"--looks {flags['looks']}: so few pairs can prove no change.", advice="Write 6,12,20.")
    _refuse_cores(asked, flags["cores"])
    repository = find_repository()
    ends = find_ends(repository, flags["good"], flags["bad"], first_parent=flags["first_parent"])
    shas = {"--good": ends.good.sha, "--bad": ends.bad.sha}
    own = find_own(asked, repository, shas, flags["suite"])
    kept = {name: flags[name] for name in ("margin", "looks", "rounds", "trial_s", "cores", "attempts", "suite")}
    if own is not None:
        kept |= place_of(own)
        asked = replace(asked, arguments=(*asked.arguments, *FROM_ITS_TREE))
    names = {name: flags[name] for name in ("first_parent",)}
    names |= {"good_name": flags["good"], "bad_name": flags["bad"]}
    wanted = replace(new_record(asked.case, asked.metric, ends, kept, **names), case=asked.told)
    sides = Sides(repository=repository, case=asked.case, arguments=asked.arguments, say=say, own=own)
    for option, sha in shas.items():
        sides.check_end(sha, option)
    return _Prepared(asked=asked, ends=ends, sides=sides, wanted=wanted, plan=plan, flags=flags)


def _refuse_cores(asked: Asked, cores: int | None) -> None:
    if cores and not by_pairs(asked):
        raise UsageError(f"--cores pins process pairs, and {asked.metric} of {asked.engine} is measured by whole runs.")


def _search(prepared: _Prepared, record: BisectionRecord, folder: Path) -> BisectionRecord:
    """Ask until the commit is found; goes on behind what ``record`` knows."""
    from qwenperf.lab.bisect import Bisection
    from qwenperf.lab.bisect_environment import installed, unchanged
    from qwenperf.lab.bisect_history import parents_of
    from qwenperf.lab.bisect_probe import Probe
    from qwenperf.lab.bisect_search import Search
    from qwenperf.lab.bisect_traces import Traces

    asked, progress, sides = prepared.asked, BisectProgress(say), prepared.sides
    package = None if sides.own is None else sides.own.sides.package
    record, guard = unchanged(record, partial(installed, sides.repository.root, package))
    timed = lookup(asked.metric).kind is Kind.TIMED
    probe = Probe(
        case=asked.case, metric=asked.metric, arguments=asked.arguments, side=prepared.sides, plan=prepared.plan,
        compare=_compare(prepared, record, folder, progress, guard) if timed else None,
    )  # fmt: skip
    search = Search(
        good=record.good, bad=record.bad, parents=parents_of(prepared.ends, first_parent=record.first_parent),
        confirm=timed, most_attempts=prepared.flags["attempts"],
    )  # fmt: skip
    if record.answers:
        say(f"going on behind {len(record.answers)} answers of {folder}")
    traces = Traces(case=asked.case, arguments=asked.arguments, side=prepared.sides, say=say)
    return Bisection(
        record=record, folder=folder, search=search, ask=probe.ask, listener=progress, explain=traces,
        unchanged=guard,
    ).run()  # fmt: skip


def _compare(
    prepared: _Prepared, record: BisectionRecord, folder: Path, progress: BisectProgress, guard: Unchanged
) -> Compare:
    """Return the comparison that times the metric."""
    from qwenperf.lab.bisect_compare import ByPairs, ByRuns
    from qwenperf.lab.pairs import PairOptions
    from qwenperf.lab.run_pair_files import PairFolders

    asked, flags, bad = prepared.asked, prepared.flags, prepared.ends.bad.sha
    answered = {answer.folder for answer in record.answers if answer.folder}
    if by_pairs(asked):
        return ByPairs(
            case=prepared.sides.case_of(bad), folder=folder, listener=lambda: PairProgress(say),
            options=PairOptions(rounds=flags["rounds"], trial_s=flags["trial_s"], cores=flags["cores"]),
            check=guard.check, begun=record.created_at, answered=answered,
        )  # fmt: skip
    seed = int(bad[:8], 16)
    places = PairFolders(folder=folder, begun=record.created_at, answered=answered)
    return ByRuns(
        case=asked.case, metric=asked.metric, arguments=asked.arguments, seed=seed, listener=progress, places=places,
        check=guard.check,
    )  # fmt: skip
