"""The ``qwenperf`` group: finds a command's module when it is asked for, and turns every end into an exit code.

Whatever goes wrong becomes one line on stderr; a traceback is for bugs, and goes to a file unless ``--debug``.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

import click

from qwenperf.cli.streams import give_up, open_missing, refusal, say, writing_data
from qwenperf.errors import OutputError, QwenperfError, UsageError, nearest_advice
from qwenperf.measure.default_platform import default_platform

COMMANDS = {
    "run": "Measure the cases of a suite, judge them, and keep a trace.",
    "aot": "Compile a case's programs for chips that are not here, and judge them.",
    "compare": "Measure two revisions or engines together and say what changed.",
    "bisect": "Find the commit that changed a metric of a case.",
    "upgrade": "Run the same code under several versions of JAX and say what each changes.",
    "doctor": "Look this machine over: software, noise, what it can tell apart.",
    "explain": "Tell the verdicts of a comparison in words.",
    "report": "Write the page of a saved run or comparison.",
    "trace": "Show, compare, open, list and prune traces.",
    "gate": "Judge a saved run again, with these or other budgets.",
    "budgets": "Propose budgets from a saved run.",
    "convert": "Read and write other tools' results: asv, pytest-benchmark, Bencher and more.",
    "history": "Show a metric of a case over time.",
    "regressions": "List what became worse over time, and accept it.",
    "merge": "Put the runs of a sharded job together.",
    "store": "Keep runs in a folder or at a URL.",
    "push": "Send runs to a benchmark service.",
    "github": "Report a run or comparison on GitHub: a check, and a comment kept up to date.",
    "webhook": "Send the verdict of a run or comparison to any address, signed.",
    "serve": "Start a benchmark service: one place for the runs of every machine.",
    "db": "Upgrade, back up and restore a service's database.",
    "weights": "Fetch the real SmolLM2 weights and check them.",
}
"""Each command is ``qwenperf.cli.<name>.command``; the help is here so that ``--help`` imports none of them."""

INTERRUPTED = 130
INTERNAL = 70


class Group(click.Group):
    """A click group whose commands are modules, and whose ends are the exit codes of the project."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's signature)
        """Name the commands, in the order people meet them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        """Import the module of one command.

        Raises:
          click.UsageError: no such command; offers the nearest.
        """
        if cmd_name not in COMMANDS:
            advice = nearest_advice(cmd_name, COMMANDS)
            raise click.UsageError(f"unknown command {cmd_name!r}. {advice}", ctx=ctx)
        command: click.Command = import_module(f"qwenperf.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: ARG002, FBT001, FBT002  (click's signature; we always stand alone)
        **extra: Any,
    ) -> NoReturn:
        """Run a command and exit with the project's code for what happened."""
        words = list(sys.argv[1:] if args is None else args)
        os.environ |= default_platform(os.environ)
        open_missing()
        try:
            code = super().main(words, prog_name or "qwenperf", complete_var, standalone_mode=False, **extra)
        except (Exception, KeyboardInterrupt, SystemExit) as error:  # noqa: BLE001  (the last line of defence)
            code = _tell(error, words)
        sys.exit(code if isinstance(code, int) else 0)


def _tell(error: BaseException, words: list[str]) -> int:
    """Report whatever ended a command, and return the exit code for it."""
    match error:
        case click.Abort() | KeyboardInterrupt():
            return _report("interrupted.", INTERRUPTED, words)
        case click.ClickException():
            return _report(_one_line(error.format_message()), UsageError.exit_code, words)
        case QwenperfError():
            return _report(_one_line(str(error)), error.exit_code, words, kind=type(error).__name__)
        case SystemExit():  # click's way out when the reader of a help text hangs up
            give_up(sys.stdout)
            return 0
    if isinstance(error, OSError) and _is_from_echo(error):
        return _tell(refusal(error), words)
    return _internal(error, words)


def _is_from_echo(error: OSError) -> bool:
    """Say whether click could not print: the help or the version, as our own words go through ``streams``."""
    return any(frame.f_code is click.echo.__code__ for frame, _ in traceback.walk_tb(error.__traceback__))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _report(message: str, code: int, words: list[str], *, kind: str = "") -> int:
    """Write the one line on stderr and, where JSON was asked for, the one document on stdout."""
    say(f"qwenperf: {'' if code == INTERRUPTED else 'error: '}{message}")
    if "--json" in words:
        with suppress(OutputError), writing_data():  # what went wrong first is what counts, and was said
            sys.stdout.write(json.dumps({"error": {"kind": kind, "message": message, "exit_code": code}}) + "\n")
    return code


def _internal(error: BaseException, words: list[str]) -> int:
    text = "".join(traceback.format_exception(error))
    where = "" if "--debug" in words else _kept(text)
    if not where:
        for line in text.splitlines():
            say(line)
        where = "the traceback is above"
    return _report(f"internal error: {type(error).__name__}: {_one_line(str(error))} ({where})", INTERNAL, words)


def _kept(text: str) -> str:
    """Write a traceback to a file and say where; empty where there is no room for one."""
    try:
        with tempfile.NamedTemporaryFile("w", prefix="qwenperf-", suffix=".log", delete=False) as file:
            file.write(text)
    except OSError:
        return ""
    return f"the traceback is in {file.name}"


@click.group(
    cls=Group,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="qwenperf", message="%(prog)s %(version)s")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Performance CI for JAX language-model decoding.

    Exit codes: 0 fine, 1 a gate failed, 2 usage or configuration, 3 inconclusive (with --inconclusive=fail),
    4 environment unfit, 5 nothing measured or a case missing, 70 internal error, 130 interrupted.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
