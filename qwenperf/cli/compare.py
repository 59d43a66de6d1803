"""``qwenperf compare BASE HEAD``: measure two trees of code, or two engines, together and say what changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from qwenperf.cli import choices
from qwenperf.cli.compare_cases import (
    CHOSEN,
    case_arguments,
    check_known,
    chosen_arguments,
    chosen_engines,
    looks,
    lost_weights,
    named_values,
    number,
    own_engines,
    quarantine,
    refuse_flags_of_measuring,
)
from qwenperf.cli.compare_own import with_engines_beside, with_own_engines
from qwenperf.cli.compare_sides import make_sides
from qwenperf.cli.config import find_project
from qwenperf.cli.engine_path import engine_found_here, engine_here_option
from qwenperf.cli.files import named_path
from qwenperf.cli.interrupts import interrupts
from qwenperf.cli.output import debug_option, json_option, write, write_json
from qwenperf.cli.streams import say, verdict_survives
from qwenperf.errors import ConfigError
from qwenperf.gate.excuses import from_table
from qwenperf.settings import INCONCLUSIVE

if TYPE_CHECKING:
    from qwenperf.schema.comparison import ComparisonRecord
    from qwenperf.stats.spending import Plan

    Compare = Callable[[int | None], tuple[ComparisonRecord, Path]]


_ONE_OR_MORE, _ABOVE_0 = click.IntRange(min=1), click.FloatRange(min=0, min_open=True)


@click.command("compare")
@click.argument("base", required=False)
@click.argument("head", required=False, default=".")
@click.option(
    "--engines",
    nargs=2,
    metavar="BASE HEAD",
    help="Compare two engines in the same code instead, each named as for --engine.",
)
@click.option("--jax", nargs=2, metavar="BASE HEAD", help="Compare two versions of JAX under the same code instead.")
@click.option("--aa", is_flag=True, help="Measure the same code on both sides: what this machine can tell apart.")
@click.option(
    "--suite",
    metavar="NAME",
    help=f"Compare the cases of a suite: {choices.SUITE} (default: the cached engine on a small model).",
)
@click.option(
    "--filter", "filters", metavar="GLOB", multiple=True, help="Only cases whose id, model or engine matches."
)
@click.option("--model", metavar="NAME", help=f"Compare this model with the flags below: {choices.MODEL}.")
@click.option(
    "--engine", "case_engines", metavar="NAME", multiple=True, help=f"Engine of the case, repeatable: {choices.ENGINE}."
)
@engine_here_option
@click.option("--prompt-length", type=int, metavar="N", help="Tokens of the prompt.")
@click.option("--new-tokens", type=int, metavar="N", help="Tokens to generate.")
@click.option("--batch", type=int, metavar="N", help="Prompts at once.")
@click.option("--dtype", metavar="NAME", help=f"Of weights and activations: {choices.DTYPE}.")
@click.option("--margin", type=float, default=0.03, show_default=True, help="Relative slowdown that is accepted.")
@click.option("--margin-of", metavar="CASE=X", multiple=True, help="Another margin for one case.")
@click.option("--looks", default="6,12,20", show_default=True, help="Pairs after which a decision is tried.")
@click.option(
    "--rounds", type=click.IntRange(min=1), default=6, show_default=True, help="Rounds of four trials in a pair."
)
@click.option(
    "--trial",
    "trial_s",
    type=click.FloatRange(min=0, min_open=True),
    default=0.1,
    show_default=True,
    metavar="S",
    help="Seconds a trial.",
)
@click.option("--cores", type=_ONE_OR_MORE, metavar="N", help="Pin both sides to the first N cores.")
@click.option("--all-pairs", is_flag=True, help="Measure all pairs, also when every case is decided.")
@click.option(
    "--rerun-failed",
    type=named_path,
    metavar="COMPARISON",
    help="Only cases that did not pass in this one.",
)
@click.option("--alias", "aliases", metavar="OLD=NEW", multiple=True, help="A case that was renamed.")
@click.option(
    "--out", type=named_path, metavar="DIR", help="Where the folder of the comparison goes (default: profiles)."
)
@click.option("--inconclusive", help=f"What noise does to the exit code: {' or '.join(INCONCLUSIVE)} (default: warn).")
@json_option
@debug_option
def command(base: str | None, head: str, as_json: bool, **flags: Any) -> int:  # noqa: FBT001
    """Compare HEAD (default: the working tree) with BASE (default: where it was forked from the main branch).

    BASE and HEAD are revisions of this repository, or two saved runs. Both sides are measured on this machine in pairs
    of fresh processes, by turns. In a repository of your own, name the engine in it: --engine package.module:make.
    """
    from qwenperf.cli.saved_run import is_run

    project = find_project(Path.cwd())
    settings = project.settings({"inconclusive": flags["inconclusive"]})
    flags["excuses"] = from_table(quarantine(project.table.get("quarantine", {})))
    out = flags["out"] or Path(settings.out)
    if base and is_run(Path(base)):
        refuse_flags_of_measuring(click.get_current_context())
        return _saved(Path(base), Path(head), settings.inconclusive, as_json=as_json)
    with interrupts():
        sides = with_own_engines(make_sides(base, head, flags), chosen_engines(flags), flags)
        with engine_found_here(own_engines(flags), here=flags["engine_here"]):
            return _measure(sides, out, settings.inconclusive, flags, as_json=as_json)


def _measure(sides: tuple[Any, Any], out: Path, inconclusive: str, flags: Mapping[str, Any], *, as_json: bool) -> int:
    from qwenperf.cli.compare_progress import PairProgress
    from qwenperf.cli.report_file import keep_page
    from qwenperf.gate.comparison import exit_code
    from qwenperf.lab.compare import Comparison, create_folder, same_code
    from qwenperf.lab.inventory import take_inventory
    from qwenperf.lab.pairs import PairOptions
    from qwenperf.lab.run_folder import write_text
    from qwenperf.report.comparison import comparison_report
    from qwenperf.report.html import NAME as PAGE
    from qwenperf.schema.codec import dumps, to_json
    from qwenperf.stats.spending import Plan, can_fail

    base, head = sides
    plan = Plan(looks=looks(flags["looks"]), margin=flags["margin"])
    inventory = take_inventory(base, head, case_arguments(flags), named_values(flags["aliases"], "--alias OLD=NEW"))
    if not can_fail(plan, len(inventory.shared)):
        raise ConfigError(
            f"--looks {flags['looks']}: so few pairs can fail none of {len(inventory.shared)} cases.",
            advice="Write 6,12,20: the last look needs more pairs.",
        )
    margins = {name: number(text) for name, text in named_values(flags["margin_of"], "--margin-of CASE=X").items()}
    check_known(margins, [case.id for case in inventory.shared])
    lost = lost_weights(inventory.shared)
    sides = (replace(base, instead=inventory.before), head)
    engines = [side.own(case).engine for side in sides for case in inventory.shared]
    base, head = with_engines_beside(sides, engines)

    def compare(cores: int | None) -> tuple[ComparisonRecord, Path]:
        folder = create_folder(out)
        options = PairOptions(rounds=flags["rounds"], trial_s=flags["trial_s"], cores=cores)
        varies = ["jax", "jaxlib", "libtpu", "python"] if flags["jax"] else []
        facts = {
            "plan": {"margins": margins, "aa": flags["aa"], "varies": varies, CHOSEN: chosen_arguments(flags)},
            "extra": {"same_code": same_code(base, head)},
        }
        comparison = Comparison(
            base=base, head=head, inventory=inventory, plan=plan, options=options, folder=folder,
            listener=PairProgress(say), stop_early=not (flags["all_pairs"] or flags["aa"]), facts=facts,
            excuses=flags["excuses"],
        )  # fmt: skip
        judged = comparison.run()
        if lost:
            judged = replace(judged, findings=(*judged.findings, *lost))
            write_text(folder / "comparison.json", dumps(judged))
        keep_page(judged, folder / "comparison.json")
        return judged, folder / "comparison.json"

    record, file = compare(flags["cores"])
    if flags["aa"]:
        record = _with_sight(record, file, plan, compare if flags["cores"] is None else None)
    with verdict_survives():
        if as_json:
            write_json(to_json(record))
        else:
            kept = file.with_name(PAGE)
            pages = [Text(f"report: {kept}", no_wrap=True)] if kept.is_file() else []
            write((*comparison_report(record, str(file)), *pages))
    return exit_code(record, inconclusive)


def _with_sight(record: ComparisonRecord, file: Path, plan: Plan, compare: Compare | None) -> ComparisonRecord:
    """Add to a record and its files what this machine can tell apart; ``compare`` measures once more, pinned."""
    from qwenperf.cli.report_file import keep_page
    from qwenperf.gate.same import pinning, sights
    from qwenperf.lab.run_folder import write_text
    from qwenperf.schema.codec import dumps

    free = sights(record, plan)
    record = replace(record, findings=(*record.findings, *(one.finding() for one in free)))
    write_text(file, dumps(record))  # what comes next takes as long again, and may be cut short
    if compare is not None and not record.interrupted:
        say("the same again, pinned to one core")
        pinned, _ = compare(1)
        told = () if pinned.interrupted else pinning(free, sights(pinned, plan))
        record = replace(record, findings=(*record.findings, *told), interrupted=pinned.interrupted)
        write_text(file, dumps(record))
    keep_page(record, file)
    return record


def _saved(base: Path, head: Path, inconclusive: str, *, as_json: bool) -> int:
    """Compare two saved runs by what does not depend on the clock."""
    from qwenperf.cli.saved_run import read_run
    from qwenperf.gate.comparison import exit_code
    from qwenperf.gate.saved import compare_saved
    from qwenperf.report.comparison import comparison_report
    from qwenperf.schema.codec import to_json

    record = compare_saved(*(read_run(place)[0] for place in (base, head)))
    with verdict_survives():
        if as_json:
            write_json(to_json(record))
        else:
            write(comparison_report(record, "none: both runs were saved before"))
    return exit_code(record, inconclusive)
