"""``qwenperf doctor``: what this machine is, what is unfit about it, and what it can tell apart in a minute."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qwenperf.cli.interrupts import interrupts
from qwenperf.cli.output import debug_option, json_option, write_json, write_lines
from qwenperf.cli.streams import say

if TYPE_CHECKING:
    from qwenperf.schema.comparison import ComparisonRecord
    from qwenperf.stats.spending import Plan

_CASE_ARGUMENTS = ("--model", "tiny", "--engine", "cached", "--prompt-length", "8", "--new-tokens", "64")
LIMIT_S = 60.0
"""Seconds that pairs may take; where one takes 20 s, as on some accelerators, there are too few of them."""

_SHOWN = (
    *("cpu_model", "cores", "isa", "kernel", "governor", "python", "jax", "jaxlib", "platform", "device_kind"),
    *("xla_flags", "x64", "debug_flags", "persistent_cache"),
)


@click.command("doctor")
@click.option("--no-timing", is_flag=True, help="Only look; do not measure the same code against itself for a minute.")
@json_option
@debug_option
def command(no_timing: bool, as_json: bool, debug: bool) -> int:  # noqa: ARG001, FBT001
    """Look this machine over: software, noise, and the smallest slowdown that a comparison would find here."""
    from qwenperf.lab.doctor import machine_findings, versions
    from qwenperf.lab.start import start_jax

    environment = start_jax()
    from qwenperf.measure import environment as measured

    findings = (*measured.findings(environment), *machine_findings())
    lines, sight, code = (["no timing asked for"], None, 0) if no_timing else _timing()
    if as_json:
        told = [
            {"code": one.code, "severity": one.severity.value, "message": one.message, "advice": one.advice}
            for one in findings
        ]
        write_json({"environment": environment, "versions": versions(), "findings": told, "sight": sight})
        return code
    write_lines(f"{name}: {_told(environment.get(name))}" for name in _SHOWN)
    write_lines(f"{name}: {version or 'not installed'}" for name, version in versions().items())
    write_lines(f"{one.severity.value}: {one.message} {one.advice}".rstrip() for one in findings)
    write_lines(lines)
    return code


def _told(value: object) -> str:
    told = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return told or "none"


def _timing() -> tuple[list[str], list[dict[str, Any]] | None, int]:
    """Compare this code with itself for at most a minute; return lines, what it sees as data, and the exit code."""
    from qwenperf.cli.compare_progress import PairProgress
    from qwenperf.cli.compare_sides import package_root
    from qwenperf.gate.same import sights
    from qwenperf.lab.compare import Comparison, create_folder
    from qwenperf.lab.inventory import take_inventory
    from qwenperf.lab.pairs import PairOptions
    from qwenperf.lab.revisions import own_code
    from qwenperf.lab.sides import Side
    from qwenperf.stats.spending import Plan

    plan = Plan()
    base, head = (
        Side(name=name, label="this code", kind="same", root=own_code(package_root()), python=sys.executable)
        for name in ("base", "head")
    )
    say("comparing this code with itself, a minute at most")
    with tempfile.TemporaryDirectory(prefix="qwenperf-doctor-") as folder, interrupts():
        record = Comparison(
            base=base, head=head, inventory=take_inventory(base, head, _CASE_ARGUMENTS, {}), plan=plan,
            options=PairOptions(rounds=4, trial_s=0.05, ready_limit_s=LIMIT_S, trial_limit_s=LIMIT_S / 4),
            folder=create_folder(Path(folder)), listener=PairProgress(say), facts={"plan": {"aa": True}},
            most_pairs=plan.looks[0], limit_s=LIMIT_S,
        ).run()  # fmt: skip
    found = sights(record, plan)
    if found:
        return [one.text() for one in found], [dict(one.finding().data) for one in found], 0
    return _unseen(record, plan)


def _unseen(record: ComparisonRecord, plan: Plan) -> tuple[list[str], list[dict[str, Any]] | None, int]:
    """Say why nothing is known of what the machine can tell apart: interrupted, broken, or too slow for a minute."""
    whole = sum(pair.failed is None for pair in record.pairs)
    failed = next((pair.failed for pair in record.pairs if pair.failed), "")
    if record.interrupted:
        return ["no timing: interrupted"], None, 130
    if failed or not whole:
        return [f"no timing: {failed or 'no pair ended'}"], None, 5
    told = f"{whole} of the {plan.looks[0]} pairs that say something ended within {LIMIT_S:.0f} s"
    return [f"no timing: {told}; `qwenperf compare --aa` takes the time that it needs"], None, 0
