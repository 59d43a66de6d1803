"""Real comparisons whose right answer is known, one after the other: `python -m benchmarks.verdicts.live`.

Unchanged code on an idle machine and with one core kept busy, and code that is really 10% and 5% slower; what other
tools say of the same. One comparison is a line of its machine's log as soon as it is finished, and its pairs are rows
of that machine's table: started again, it goes on. ``--budget-minutes`` begins no comparison that would not end in
time, and ``--summary`` prints the tables, by machine and of all together.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.verdicts.live_asv import asv_continuous
from benchmarks.verdicts.live_kinds import KINDS, SLOWDOWNS, Kind, decided, next_kind
from benchmarks.verdicts.live_log import LiveLog, rows_of
from benchmarks.verdicts.live_machines import log_of, logs, name_of, this_machine
from benchmarks.verdicts.live_peers import pytest_benchmark
from benchmarks.verdicts.live_tables import markdown
from benchmarks.verdicts.live_try import Bench, conditions, line_of
from benchmarks.verdicts.slowed import ROUNDS, calibrate, run_apart
from benchmarks.verdicts.unattended import checkout, say, unattended
from qwenperf.errors import MeasurementError
from qwenperf.lab.commit import describe_commit
from qwenperf.lab.pairs import PairOptions
from qwenperf.lab.revisions import own_code
from qwenperf.stats.spending import Plan
from qwenperf.workloads.case import Case, Workload

MOST_BROKEN = 3
"""Comparisons in a row of which nothing was learnt, after which the run ends: something is wrong with it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run comparisons until all are done or time is up, or print the tables of those that are; return the exit code."""
    asked = _parser().parse_args(arguments)
    if asked.summary:
        found = logs() if asked.out is None else {asked.out.name: _log(asked.out)}
        print(markdown(found))  # noqa: T201 - the tables are what it is for
        return 0
    log = _log(asked.out)
    return unattended(lambda: run(log, asked), kept="what was finished is kept")


def run(log: LiveLog, asked: argparse.Namespace) -> int:
    """Calibrate once, then compare what is missing most; 0 when the run has ended as it should."""
    end = time.monotonic() + 60 * asked.budget_minutes
    wanted = {name: kind.count for name, kind in KINDS.items()} | dict(asked.count)
    case = Case(
        model=asked.model, engine="cached",
        workload=Workload(prompt_length=asked.prompt_length, new_tokens=asked.new_tokens),
    )  # fmt: skip
    options = PairOptions(rounds=asked.rounds, trial_s=asked.trial)
    plan = Plan(looks=tuple(int(part) for part in asked.looks.split(",")))
    log.same_machine(this_machine())
    log.settings({"case": case.id, "rounds": asked.rounds, "trial_s": asked.trial, "looks": list(plan.looks)})
    log.mend()
    root = checkout()
    bench = Bench(
        root=own_code(root), case=case, plan=plan, options=options, out=asked.folder, products={},
        commit=describe_commit(root),
    )  # fmt: skip
    if any(KINDS[name].slowdown and count for name, count in wanted.items()):
        try:
            bench = _calibrated(bench, log, asked.calibration_rounds)
        except (MeasurementError, OSError, subprocess.SubprocessError) as error:
            say(f"nothing is slowed down in this run: {error}")
            wanted = {name: 0 if KINDS[name].slowdown else count for name, count in wanted.items()}
    broken = 0
    while (name := next_kind(wanted, log.tries(), end - time.monotonic())) is not None:
        line = compare_once(bench, log, name, {"pytest_benchmark": asked.peers, "asv_continuous": asked.asv})
        broken = broken + 1 if line["outcome"] == "skipped" else 0
        if broken >= MOST_BROKEN:
            say(f"{broken} comparisons in a row measured nothing: {line['broken'][-1:]}")
            return 1
    left = {name: count - len(decided(log.tries(), name)) for name, count in wanted.items()}
    missing = [f"{count} of {name}" for name, count in left.items() if count > 0]
    say(f"time is up; still wanted: {', '.join(missing)}" if missing else "all comparisons are done")
    return 0


def compare_once(bench: Bench, log: LiveLog, name: str, peers: Mapping[str, int]) -> Mapping[str, Any]:
    """Make one comparison of the kind ``name`` and write it down; ask each of ``peers`` too, so many times a kind."""
    kind = KINDS[name]
    tries = [one for one in log.tries() if one["kind"] == name]
    number = 1 + len(tries)
    say(f"{kind.title}, {number}")
    with conditions(kind):
        record, seconds = bench.compare(kind, lambda text: say(f"  {text}"))
        if record.interrupted:
            # Told apart: long comparisons are likelier to be cut, so those that end are no fair sample of all.
            log.add({"cut": name, "seconds": round(seconds, 2), "pairs": len(record.pairs)})
            raise KeyboardInterrupt
        line = line_of(record, kind, number, seconds, bench.commit)
        for peer, count in peers.items():
            if sum(peer in one for one in tries) < count:
                line[peer] = _peer(peer, bench, kind)
    log.add(line, list(rows_of(record, name, number)))
    say(f"  {line['outcome']} after {seconds:.0f} s: {line['summary']}")
    return line


def _peer(name: str, bench: Bench, kind: Kind) -> dict[str, Any]:
    """Return what another tool says; its trouble costs nothing of ours."""
    try:
        return asv_continuous(bench, kind) if name == "asv_continuous" else pytest_benchmark(bench, kind)
    except (MeasurementError, OSError, subprocess.SubprocessError) as error:
        say(f"  {error}")
        return {"error": str(error)}


def _calibrated(bench: Bench, log: LiveLog, rounds: int) -> Bench:
    """Return ``bench`` with the products of the calibration, which is made once and written down."""
    found = log.calibration()
    if found is None:
        say("calibrating the slowed engine")
        environ = bench.sides(KINDS["idle"])[0].child_environ(os.environ)
        found = calibrate(bench.case, SLOWDOWNS, run_apart(bench.root, environ, rounds))
        log.add({"calibration": found})
    say(f"calibrated: {dict(zip(found['wanted'], found['products'], strict=True))}")
    return replace(bench, products=dict(zip(found["wanted"], found["products"], strict=True)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verdicts.live", description=__doc__)
    parser.add_argument("--out", type=Path, help="folder of live.jsonl and pairs.csv (default: the machine's own)")
    parser.add_argument("--folder", type=Path, default=Path("profiles/verdicts"), help="where comparisons are kept")
    parser.add_argument("--budget-minutes", type=float, default=60.0, help="begin nothing that would not end by then")
    parser.add_argument(
        "--count", type=_count, action="append", default=[], metavar="KIND=N",
        help=f"comparisons of a kind ({', '.join(f'{kind.name}={kind.count}' for kind in KINDS.values())})",
    )  # fmt: skip
    parser.add_argument("--peers", type=int, default=5, help="comparisons of each kind with pytest-benchmark beside")
    parser.add_argument("--asv", type=int, default=2, help="comparisons of each kind with `asv continuous` beside")
    parser.add_argument("--summary", action="store_true", help="print the tables of what was measured on each machine")
    parser.add_argument("--model", default="4x128")
    parser.add_argument("--prompt-length", type=int, default=16)
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=PairOptions().rounds)
    parser.add_argument("--trial", type=float, default=PairOptions().trial_s, help="seconds a trial")
    parser.add_argument("--looks", default=",".join(map(str, Plan().looks)))
    parser.add_argument("--calibration-rounds", type=int, default=ROUNDS)
    return parser


def _count(text: str) -> tuple[str, int]:
    name, _, count = text.partition("=")
    if name not in KINDS or not count.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not KIND=N with one of {', '.join(KINDS)}")
    return name, int(count)


def _log(out: Path | None) -> LiveLog:
    if out is None:
        return log_of(name_of(this_machine()))
    return LiveLog(lines=out / "live.jsonl", pairs=out / "pairs.csv")


if __name__ == "__main__":
    sys.exit(main())
