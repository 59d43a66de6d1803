"""``qwenperf budgets propose RUN``: limits that a saved run keeps with some room, as TOML to paste or to write."""

from __future__ import annotations

import tomllib
from pathlib import Path

import click

from qwenperf.cli.files import named_path
from qwenperf.cli.output import debug_option, json_option, write_json, write_lines
from qwenperf.cli.saved_run import read_run
from qwenperf.cli.streams import say
from qwenperf.gate.propose import propose
from qwenperf.lab.run_folder import write_text


@click.group("budgets")
def command() -> None:
    """Work with budgets, the limits that a metric must keep."""


@command.command("propose")
@click.argument("run", type=named_path)
@click.option("--out", type=named_path, metavar="FILE", help="Write the TOML to a file instead of stdout.")
@json_option
@debug_option
def propose_command(run: Path, out: Path | None, as_json: bool, debug: bool) -> None:  # noqa: ARG001, FBT001
    """Propose budgets that RUN (a run folder or its run.json) keeps, with room for noise."""
    record, _ = read_run(run)
    text = propose(record)
    if out is not None:
        write_text(out, text)
        say(f"wrote {out}")
    if as_json:
        write_json(tomllib.loads(text))
    elif out is None:
        write_lines([text.rstrip("\n")])
