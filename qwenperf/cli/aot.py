"""``qwenperf aot``: what a chip's compiler makes of a case's programs, on a machine that has no such chip."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qwenperf.cli.budget_file import find_program_budgets
from qwenperf.cli.config import find_project
from qwenperf.cli.engine_path import engine_found_here, engine_here_option
from qwenperf.cli.files import named_path
from qwenperf.cli.interrupts import interrupts
from qwenperf.cli.output import debug_option, json_option, write, write_json, write_lines
from qwenperf.cli.select import AdHoc, matching
from qwenperf.cli.streams import say, verdict_survives
from qwenperf.errors import UsageError
from qwenperf.workloads.case import DTYPES, Case
from qwenperf.workloads.suites import SUITES, find_suite

if TYPE_CHECKING:
    from qwenperf.aot.topology import Target

DEFAULT_TARGET = "v5e-1"
DEFAULT_DTYPE = "bf16"
"""What such chips compute in."""

DEFAULT_ENGINE = "cached+layers=scanned"
"""A chip's compiler takes as long for one layer in a loop as for one of many that are unrolled."""

_LOOP_NOTE = (
    f"note: without --engine the layers are compiled as a loop ({DEFAULT_ENGINE}), which takes a fraction of the time; "
    "--engine cached compiles them unrolled, as `qwenperf run` measures them."
)

_CASE_FLAGS = ("model", "prompt_length", "new_tokens", "batch", "dtype")
_INNER = {"diff": "Say what a change made of the compiled programs."}
"""Each is ``qwenperf.cli.aot_<name>.command``; the help is here so that ``--help`` imports none of them."""

_ONE_OR_MORE = click.IntRange(min=1)


def _above_0(_ctx: click.Context, _param: click.Parameter, value: float | None) -> float | None:
    """Take a number of seconds; a range of click's takes what is no number as well."""
    if value is not None and not (math.isfinite(value) and value > 0):
        raise click.BadParameter(f"{value} is no number of seconds above 0.")
    return value


class _Aot(click.Group):
    """A command by itself, with others below it whose modules are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's signature)
        """Name the commands below this one."""
        return list(_INNER)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of one command.

        Raises:
          click.UsageError: there is none of that name; such as a target without its flag.
        """
        if cmd_name not in _INNER:
            raise click.UsageError(
                f"qwenperf aot has no command {cmd_name!r}. Known: {', '.join(_INNER)}; targets go after --target.", ctx
            )
        command: click.Command = import_module(f"qwenperf.cli.aot_{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_INNER.items()))


@click.group("aot", cls=_Aot, invoke_without_command=True, subcommand_metavar="[diff ...]")
@click.option(
    "--target", "targets", multiple=True, metavar="NAME,...", help=f"What to compile for (default: {DEFAULT_TARGET})."
)
@click.option("--list-targets", is_flag=True, help="List the targets, with what one device of each has, and stop.")
@click.option("--model", help="A preset, a folder, a GGUF file or a hub id, whose weights are not read.")
@click.option(
    "--engine",
    "engines",
    multiple=True,
    help=f"An engine as in `qwenperf run`, yours too, repeatable (default: {DEFAULT_ENGINE}).",
)
@engine_here_option
@click.option("--prompt-length", type=int, metavar="N", help="Tokens of the prompt (default: 32).")
@click.option("--new-tokens", type=int, metavar="N", help="Tokens to generate (default: 32).")
@click.option("--batch", type=int, metavar="N", help="Prompts at once (default: 1).")
@click.option("--dtype", help=f"{' or '.join(DTYPES)} (default: {DEFAULT_DTYPE}).")
@click.option("--suite", help=f"The cases of a suite instead: {', '.join(SUITES)}.")
@click.option(
    "--filter", "filters", metavar="GLOB", multiple=True, help="Only cases whose id, model or engine matches."
)
@click.option("--budgets", "budget_file", type=named_path, metavar="TOML", help="Budgets, not the project's.")
@click.option("--out", metavar="DIR", help="Where the folder of the record goes (default: profiles).")
@click.option(
    "--time-limit",
    "time_limit_s",
    type=float,
    callback=_above_0,
    metavar="S",
    help="Seconds a program may take to compile.",
)
@click.option("--jobs", type=_ONE_OR_MORE, default=2, show_default=True, metavar="N", help="Processes at a time.")
@click.option(
    "--operations", type=_ONE_OR_MORE, metavar="N", help="Show the N costliest operations of each program, with lines."
)
@click.option("--sweep", is_flag=True, help="Show each program's estimates by batch, to where it is compute-bound.")
@click.option("--remember/--no-remember", default=True, help="Keep and use records of programs compiled before.")
@click.option(
    "--check-repeat", is_flag=True, help="Compile each program twice, and judge no number that is not the same again."
)
@json_option
@debug_option
@click.pass_context
def command(ctx: click.Context, /, *, as_json: bool, list_targets: bool, **flags: Any) -> int:
    """Compile prefill and decode step of cases for chips that need not be here, and judge what the compiler made.

    The number in a target's name counts chips: v7x-4 is four of them. Whatever is marked ~ is an estimate: nothing
    is run, and no weights are read.
    """
    if ctx.invoked_subcommand is not None:
        _refuse_flags(ctx)
        return 0
    if list_targets:
        return _list(as_json=as_json)
    for name in ("operations", "sweep") if as_json else ():
        if flags[name]:
            raise UsageError(f"--{name} is for the table: --json has the {name} of each program anyway.")
    from qwenperf.aot.topology import resolve_all

    found = resolve_all(joined_targets(flags["targets"]))
    cases = _cases(flags)
    with engine_found_here((case.engine for case in cases), here=flags["engine_here"]):
        return _compile(cases, found, flags, as_json=as_json)


def joined_targets(given: Sequence[str]) -> str:
    """Return all that ``--target`` named; a name that is empty is none, and not the default."""
    return ",".join(given) if given else DEFAULT_TARGET


def _refuse_flags(ctx: click.Context) -> None:
    given = [name for name in ctx.params if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE]
    if given:
        raise UsageError(f"flags of `qwenperf aot` go after `{ctx.invoked_subcommand}`, where it has them.")


def _cases(flags: dict[str, Any]) -> tuple[Case, ...]:
    """Return the cases that are asked for.

    Raises:
      UsageError: a suite and flags of a case at once.
    """
    ad_hoc = AdHoc(engines=flags["engines"], **{name: flags[name] for name in _CASE_FLAGS})
    if flags["suite"] and ad_hoc.given:
        raise UsageError("--suite and the flags of a case (--model, --engine, ...) exclude each other.")
    if flags["suite"]:
        return matching(find_suite(flags["suite"]).cases, flags["filters"])
    if not flags["engines"]:
        say(_LOOP_NOTE)
    told = {name: flags[name] for name in _CASE_FLAGS} | {"dtype": flags["dtype"] or DEFAULT_DTYPE}
    return matching(AdHoc(engines=flags["engines"] or (DEFAULT_ENGINE,), **told).cases(), flags["filters"])


def _list(*, as_json: bool) -> int:
    from qwenperf.aot.topology import described, known_targets, resolve
    from qwenperf.report.aot import target_line
    from qwenperf.schema.analysis import AotCase
    from qwenperf.schema.codec import to_json

    cases = [AotCase(id=name, target=described(resolve(name))) for name in known_targets()]
    if as_json:
        write_json({"targets": [to_json(case)["target"] for case in cases]})
    else:
        write_lines(map(target_line, cases))
    return 0


def _compile(cases: Sequence[Case], targets: Sequence[Target], flags: dict[str, Any], *, as_json: bool) -> int:
    from qwenperf.aot.remembered import folder as remembered
    from qwenperf.cli.aot_progress import AotProgress
    from qwenperf.gate.aot import exit_code, judge
    from qwenperf.lab.aot import RECORD, run_aot
    from qwenperf.lab.aot_children import TIME_LIMIT_S, AotOptions
    from qwenperf.lab.commit import describe_commit
    from qwenperf.lab.run_folder import create_run_folder
    from qwenperf.report.aot import aot_report
    from qwenperf.schema.codec import to_json

    project = find_project(Path.cwd())
    budgets = find_program_budgets(project, flags["budget_file"])
    if flags["budget_file"] and not budgets.budgets:
        say(f"note: {flags['budget_file']} has no budget of compiled programs: none of its globs has `@` and a target.")
    settings = project.settings({"out": flags["out"]})
    folder = create_run_folder(Path(settings.out), datetime.now(UTC))
    options = AotOptions(
        jobs=flags["jobs"],
        time_limit_s=flags["time_limit_s"] or TIME_LIMIT_S,
        remembered=remembered() if flags["remember"] else None,
        check_repeat=flags["check_repeat"],
    )
    with interrupts(), AotProgress() as listener:
        record = run_aot(
            cases,
            targets,
            folder=folder,
            options=options,
            listener=listener,
            judge=partial(judge, budgets=budgets),
            commit=describe_commit(Path.cwd()),
        )
    with verdict_survives():
        if as_json:
            write_json(to_json(record))
        else:
            place = str(folder.path / RECORD)
            write(aot_report(record, place, flags["operations"] or 0, batches=flags["sweep"]))
    return exit_code(record)
