"""``qwenperf doctor``: what this machine is, what is unfit about it, and what it can tell apart in a minute."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from qwenperf.cli.interrupts import interrupts
from qwenperf.cli.output import debug_option, json_option, write_json, write_lines
from qwenperf.cli.streams import say

_CASE_ARGUMENTS = ("--model", "tiny", "--engine", "cached", "--prompt-length", "8", "--new-tokens", "64")
_SHOWN = ("cpu_model", "cores", "isa", "kernel", "governor", "python", "jax", "jaxlib", "platform", "device_kind")


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
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _timing() -> tuple[list[str], list[dict[str, Any]] | None, int]:
    """Compare this code with itself in 6 pairs; return lines, what it sees as data, and the exit code."""
    from dataclasses import asdict

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
    say("comparing this code with itself, about a minute")
    with tempfile.TemporaryDirectory(prefix="qwenperf-doctor-") as folder, interrupts():
        record = Comparison(
            base=base, head=head, inventory=take_inventory(base, head, _CASE_ARGUMENTS, {}), plan=plan,
            options=PairOptions(rounds=4, trial_s=0.05), folder=create_folder(Path(folder)),
            listener=PairProgress(say), facts={"plan": {"aa": True}}, most_pairs=plan.looks[0],
        ).run()  # fmt: skip
    found = sights(record, plan)
    if not found:
        why = "interrupted" if record.interrupted else next((pair.failed for pair in record.pairs if pair.failed), "")
        return [f"no timing: {why}"], None, 130 if record.interrupted else 5
    return [one.text() for one in found], [asdict(one) for one in found], 0
