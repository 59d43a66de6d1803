"""``qwenperf webhook``: a run or a comparison as a signed message to any address. One that fails changes no verdict."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from qwenperf.cli.config import find_project
from qwenperf.cli.files import named_path
from qwenperf.cli.output import debug_option, json_option, write_json, write_lines
from qwenperf.cli.streams import say, verdict_survives
from qwenperf.gate.verdict import strongest
from qwenperf.settings import INCONCLUSIVE

EVENT = "report"


@click.command("webhook")
@click.argument("path", type=named_path)
@click.option("--url", envvar="QWENPERF_WEBHOOK_URL", required=True, help="Where to ($QWENPERF_WEBHOOK_URL).")
@click.option("--details-url", default="", metavar="URL", help="Where there is more; goes into the message.")
@click.option(
    "--inconclusive", type=click.Choice(INCONCLUSIVE), help="What noise does (default: as the project says, or warn)."
)
@click.option("--patience", type=float, default=60, show_default=True, metavar="S", help="Try for so long.")
@click.option("--strict", is_flag=True, help="End with an error where the message was not taken.")
@json_option
@debug_option
def command(path: Path, as_json: bool, **flags: Any) -> int:  # noqa: FBT001
    """Send the verdict of PATH (a run or a comparison: its folder, its record or a .zip of it) to an address.

    The message is JSON, signed with $QWENPERF_WEBHOOK_SECRET. Ends as the record was judged.
    """
    from qwenperf.cli.github_record import judged_place
    from qwenperf.forge.api import ForgeError
    from qwenperf.forge.report import conclusion
    from qwenperf.forge.webhook import Webhook

    noise = find_project(Path.cwd()).settings({"inconclusive": flags["inconclusive"]}).inconclusive
    judged = judged_place(path, flags["details_url"], noise)
    told = conclusion(judged.exit_code, is_settled=judged.is_settled)
    payload = {
        "conclusion": told,
        "exit_code": judged.exit_code,
        "title": judged.title,
        "markdown": judged.text,
        "details_url": judged.link,
    }
    # Variables of CI are pasted with a newline.
    hook = Webhook(
        url=flags["url"].strip(),
        secret=os.environ.get("QWENPERF_WEBHOOK_SECRET", "").strip(),
        patience_s=max(0.0, flags["patience"]),
        say=lambda line: say(f"qwenperf: {line}"),
    )
    name, problem = "", ""
    try:
        name = hook.send(EVENT, payload)
    except ForgeError as error:
        problem = str(error)
        say(f"qwenperf: warning: {problem}")
    with verdict_survives():
        if as_json:
            write_json({"delivery": name, "problem": problem, "conclusion": told, "exit_code": judged.exit_code})
        else:
            write_lines([f"{told}: {judged.title}", *([name] if name else [])])
    return strongest([judged.exit_code, 4]) if problem and flags["strict"] else judged.exit_code
