"""``qwenperf gate RUN``: judge a saved run again, with the project's budgets or others."""

from __future__ import annotations

from pathlib import Path

import click
from rich.text import Text

from qwenperf.cli.budget_file import budgets_line, find_budgets
from qwenperf.cli.config import find_project
from qwenperf.cli.earlier_runs import EarlierRuns
from qwenperf.cli.files import named_path
from qwenperf.cli.output import debug_option, json_option, write, write_json
from qwenperf.cli.saved_run import read_run
from qwenperf.cli.streams import verdict_survives
from qwenperf.gate.evaluate import judge_run
from qwenperf.gate.verdict import exit_code
from qwenperf.report.since import explain_since
from qwenperf.report.terminal import Places, run_report
from qwenperf.schema.codec import to_json
from qwenperf.settings import INCONCLUSIVE


@click.command("gate")
@click.argument("run", type=named_path)
@click.option("--budgets", "budget_file", type=named_path, metavar="TOML", help="Budgets, not the project's.")
@click.option("--inconclusive", help=f"What noise does to the exit code: {' or '.join(INCONCLUSIVE)} (default: warn).")
@json_option
@debug_option
def command(run: Path, budget_file: Path | None, inconclusive: str | None, as_json: bool, debug: bool) -> int:  # noqa: ARG001, FBT001
    """Judge a saved RUN (a run folder or its run.json) again. Nothing is measured and the record is not changed."""
    project = find_project(Path.cwd())
    settings = project.settings({"inconclusive": inconclusive})
    budgets = find_budgets(project, budget_file)
    record, file = read_run(run)
    judged = explain_since(judge_run(record, budgets), EarlierRuns(out=file.parent.parent).before)
    with verdict_survives():
        if as_json:
            write_json(to_json(judged))
        else:
            line = Text(budgets_line(project, budget_file, budgets), no_wrap=True)
            write((*run_report(judged, Places(record=str(file))), line))
    others = [case.extra["exit_code"] for case in judged.cases if "exit_code" in case.extra]
    return exit_code(judged, settings.inconclusive, others)
