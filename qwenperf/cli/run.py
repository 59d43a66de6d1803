"""``qwenperf run``: choose cases, measure each in its own process, judge, show, and end with the verdict's code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from qwenperf import units
from qwenperf.cli import choices
from qwenperf.cli.budget_file import budgets_line, find_budgets
from qwenperf.cli.config import find_project
from qwenperf.cli.engine_path import engine_found_here, engine_here_option
from qwenperf.cli.files import named_path
from qwenperf.cli.interrupts import interrupts
from qwenperf.cli.output import debug_option, json_option, write, write_json, write_lines
from qwenperf.cli.select import AdHoc, select
from qwenperf.cli.streams import verdict_survives
from qwenperf.gate.budget_set import BudgetSet
from qwenperf.settings import INCONCLUSIVE, Settings
from qwenperf.workloads.case import Case
from qwenperf.workloads.models import PRESETS
from qwenperf.workloads.setting import SETTINGS
from qwenperf.workloads.suites import SUITES

STEADY_LEAST_S = 1.0
"""Seconds of steady trials for each case where nobody names their number."""

_CASE_FLAGS = ("model", "prompt_length", "new_tokens", "batch", "dtype")


@click.command("run")
@click.option("--suite", metavar="NAME", help=f"A named list of cases: {choices.SUITE} (default: smoke).")
@click.option(
    "--filter", "filters", metavar="GLOB", multiple=True, help="Only cases whose id, model or engine matches."
)
@click.option("--list", "list_only", is_flag=True, help="List the cases and stop.")
@click.option("--dry-run", is_flag=True, help="Say what would be measured, with which settings, and stop.")
@click.option("--out", metavar="DIR", help="Where run folders go (default: profiles).")
@click.option("--trace/--no-trace", default=None, help="Keep a profiler trace of each case (default: yes).")
@click.option(
    "--trace-python", is_flag=True, default=None, help="Record Python's own calls too, which slows the steps."
)
@click.option("--trace-quota", metavar="SIZE", help="Room for the traces of all runs; then no more (default: 4GB).")
@click.option("--time-limit", "time_limit_s", type=float, metavar="S", help="Seconds a case may take, all included.")
@click.option("--trials", type=int, metavar="N", help="Steady requests timed a case.")
@click.option("--inconclusive", help=f"What noise does to the exit code: {' or '.join(INCONCLUSIVE)} (default: warn).")
@click.option("--budgets", "budget_file", type=named_path, metavar="TOML", help="Budgets, not the project's.")
@click.option("--model", metavar="NAME", help=f"Ad-hoc case: {choices.MODEL} (default: 4x128).")
@click.option(
    "--engine",
    "engines",
    metavar="NAME",
    multiple=True,
    help=f"Ad-hoc case, repeatable: {choices.ENGINE} (default: cached).",
)
@engine_here_option
@click.option("--prompt-length", type=int, metavar="N", help="Ad-hoc case: tokens of the prompt (default: 32).")
@click.option("--new-tokens", type=int, metavar="N", help="Ad-hoc case: tokens to generate (default: 32).")
@click.option("--batch", type=int, metavar="N", help="Ad-hoc case: prompts at once (default: 1).")
@click.option("--dtype", metavar="NAME", help=f"Ad-hoc case: {choices.DTYPE} (default: f32).")
@json_option
@debug_option
def command(filters: tuple[str, ...], budget_file: Path | None, as_json: bool, **flags: Any) -> int:  # noqa: FBT001
    """Measure the cases of a suite, judge them, and keep a record and traces.

    Without options: every rung of the ladder on a small model and the real SmolLM2 weights, in about 3 minutes. --list
    tells what each suite is, and names the settings of engines. A name that is not known ends with exit code 2 and the
    nearest ones that are.
    """
    flags.pop("debug")
    here = flags.pop("engine_here")
    list_only, dry_run = flags.pop("list_only"), flags.pop("dry_run")
    ad_hoc = AdHoc(engines=flags.pop("engines"), **{name: flags.pop(name) for name in _CASE_FLAGS})
    project = find_project(Path.cwd())
    settings = project.settings(flags)
    suite, cases = select(settings, ad_hoc, filters)
    if list_only:
        return _list(suite, cases, as_json=as_json)
    budgets = find_budgets(project, budget_file)
    if dry_run:
        return _dry_run(settings, suite, cases, as_json=as_json)
    told = budgets_line(project, budget_file, budgets)
    with engine_found_here([case.engine for case in cases], here=here):
        return _measure(settings, suite, cases, budgets, told, as_json=as_json)


def _list(suite: str, cases: Sequence[Case], *, as_json: bool) -> int:
    if as_json:
        about = {other.name: other.about for other in SUITES.values()}
        listed = [{"id": case.id, **case.to_json()} for case in cases]
        write_json({"suite": suite, "cases": listed, "suites": about, "models": list(PRESETS)})
        return 0
    suites = (f"  {other.name:<11} {other.about}" for other in SUITES.values())
    write_lines([f"suite {suite}", *(f"  {case.id}" for case in cases), "", "suites", *suites, "", *_names()])
    return 0


def _names() -> Iterator[str]:
    """Yield what may be named beside suites, as far as it is known here."""
    yield f"models: {choices.MODEL}"
    yield f"engines: {choices.ENGINE}"
    yield f"settings of engines, as engine+name=value (docs/ladder.md): {', '.join(SETTINGS)}"


def _dry_run(settings: Settings, suite: str, cases: Sequence[Case], *, as_json: bool) -> int:
    from qwenperf.lab.run_folder import check_writable

    check_writable(Path(settings.out))
    shown = {name: getattr(settings, name) for name in settings.origins}
    if as_json:
        origins = dict(settings.origins)
        write_json({"suite": suite, "cases": [case.to_json() for case in cases], "settings": shown, "origins": origins})
        return 0
    write_lines([f"would measure {len(cases)} cases of suite {suite}:"])
    write_lines(f"  {case.id} ({case.trials} trials, at most {units.seconds(case.time_limit_s)})" for case in cases)
    write_lines(["with settings:"])
    origin = settings.origins
    write_lines(f"  {name} = {value!r} ({origin[name]})" for name, value in shown.items() if value is not None)
    return 0


def _measure(
    settings: Settings, suite: str, cases: Sequence[Case], budgets: BudgetSet, told: str, *, as_json: bool
) -> int:
    from rich.text import Text

    from qwenperf.cli.earlier_runs import EarlierRuns
    from qwenperf.cli.progress import progress
    from qwenperf.cli.report_file import keep_page
    from qwenperf.gate.evaluate import judge_run
    from qwenperf.gate.verdict import exit_code
    from qwenperf.lab.commit import describe_commit
    from qwenperf.lab.failures import refusal
    from qwenperf.lab.options import Options
    from qwenperf.lab.run_cases import new_run, run_cases
    from qwenperf.lab.run_folder import create_run_folder, discard, discarded_if_unfit
    from qwenperf.measure.capture_folder import under_way
    from qwenperf.report.since import explain_since
    from qwenperf.report.terminal import Places, run_report
    from qwenperf.schema.codec import to_json

    folder, earlier = create_run_folder(Path(settings.out), datetime.now(UTC)), EarlierRuns(out=Path(settings.out))
    options = Options(
        trace_folder=str(folder.path) if settings.trace else None,
        trace_python=settings.trace_python,
        trace_quota_bytes=settings.trace_quota,
        # Who names a number of trials gets that number.
        steady_least_s=STEADY_LEAST_S if settings.trials is None else 0.0,
    )
    with discarded_if_unfit(folder.record), interrupts(), under_way(folder.path), progress() as listener:
        run = run_cases(
            new_run(folder, suite, cases, describe_commit(Path.cwd())),
            cases,
            folder=folder,
            options=options,
            listener=listener,
            judge=lambda seen: explain_since(judge_run(seen, budgets), earlier.before),
        )
    if (refused := refusal(run)) is not None:
        discard(folder.path)
        raise refused
    page = keep_page(run, folder.record)
    traces = str(folder.path / "plugins" / "profile")
    with verdict_survives():
        if as_json:
            write_json(to_json(run))
        else:
            places = Places(record=str(folder.record), traces=traces, logdir=settings.out, page=str(page or ""))
            report = run_report(run, places)
            write((*report, Text(told, no_wrap=True)))
    others = [case.extra["exit_code"] for case in run.cases if "exit_code" in case.extra]
    return exit_code(run, settings.inconclusive, others)
