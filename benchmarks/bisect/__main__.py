"""Bisections whose right answer is known, one after the other: `python -m benchmarks.bisect --budget-minutes 120`.

A slowdown of 8% is planted in one of 16 commits, another one each time. A try is a line of ``tries.jsonl`` as soon as
it is over; started again, the run goes on where it was, also within a try. ``--summary`` prints the table.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.bisect.repository import COMMITS, make_repository
from benchmarks.verdicts.live_log import LiveLog
from benchmarks.verdicts.slowed import calibrate, run_apart
from benchmarks.verdicts.unattended import INTERRUPTED, checkout, say, unattended
from qwenperf.errors import ConfigError
from qwenperf.lab import machine
from qwenperf.lab.commit import describe_commit
from qwenperf.lab.revisions import own_code
from qwenperf.lab.sides import Side
from qwenperf.workloads.case import Case, Workload

HERE = Path(__file__).parent
SLOWDOWN = 0.08
TRIES = 10
METRIC = "request_s"
FIRST_GUESS_S = 600.0
"""How long a try takes while none has been made."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Make tries until all are done or time is up, or print the table of those that are; return the exit code."""
    asked = _parser().parse_args(arguments)
    log = LiveLog(lines=asked.out / "tries.jsonl", pairs=asked.out / "unused.csv")
    if asked.summary:
        print(summary(log))  # noqa: T201 - the table is what it is for
        return 0
    return unattended(lambda: run(log, asked), kept="the try under way goes on next time")


def run(log: LiveLog, asked: argparse.Namespace) -> int:
    """Calibrate once, then make the tries that are missing; 0 when the run has ended as it should."""
    end = time.monotonic() + 60 * asked.budget_minutes
    root = checkout()
    case = Case(model="4x128", engine="cached", workload=Workload(prompt_length=16, new_tokens=64))
    log.settings({"case": case.id, "metric": METRIC, "commits": COMMITS, "slowdown": SLOWDOWN})
    code = own_code(root)
    products = _calibrated(log, case, code)
    for number in range(1, asked.tries + 1):
        done = log.tries()
        if any(one["try"] == number for one in done):
            continue
        longest = max((one["seconds"] for one in done), default=FIRST_GUESS_S)
        if time.monotonic() + longest > end:
            say(f"time is up after {len(done)} tries")
            return 0
        log.add(one_try(number, case, code, products, asked.folder) | {"commit": _commit(root)})
    say("all tries are done")
    return 0


def one_try(number: int, case: Case, code: Path, products: float, folder: Path) -> dict[str, Any]:
    """Plant the slowdown, search for it as people do, and say what was found."""
    place = (folder / f"try-{number:02d}").resolve()
    culprit = culprits()[number - 1]
    wanted = make_repository(place / "repository", code, culprit=culprit, products=products)
    say(f"try {number}: the slowdown is in commit {culprit} of {COMMITS}, {wanted[:10]}")
    command = [sys.executable, "-P", "-m", "qwenperf", "bisect", case.id, METRIC]
    command += ["--good", f"HEAD~{COMMITS}", "--out", str(place / "out"), "--json"]
    environ = os.environ | {"PYTHONPATH": str(code), "XDG_CACHE_HOME": str(place / "cache")}
    begun = time.monotonic()
    with subprocess.Popen(command, cwd=place / "repository", env=environ, stdout=subprocess.PIPE, text=True) as child:
        try:
            told, _ = child.communicate()
        except BaseException:
            child.send_signal(signal.SIGINT)
            child.wait()
            raise
    if child.returncode == INTERRUPTED:
        raise KeyboardInterrupt
    record = json.loads(told)
    if "error" in record:
        raise ConfigError(f"the search ended with {child.returncode}: {record['error']['message']}")
    line = line_of(record, number, culprit, wanted) | {"seconds": round(_spent(record, begun), 1)}
    say(f"try {number}: {line['outcome']} after {line['seconds']:.0f} s")
    shutil.rmtree(place, ignore_errors=True)
    return line


def line_of(record: Mapping[str, Any], number: int, culprit: int, wanted: str) -> dict[str, Any]:
    """Return what the log keeps of a try."""
    found, answers = record["suspects"], record["answers"]
    places = {one["sha"]: index for index, one in enumerate(record["commits"], start=1)}
    right = record["end"] == "culprit" and found == [wanted]
    wrong = record["end"] == "culprit" and not right
    steps = [one for one in answers if one["head"] == wanted and one["answer"] == "bad"]
    return {
        "try": number,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "culprit": culprit,
        "outcome": "right" if right else "wrong" if wrong else record["end"],
        "found": [places[sha] for sha in found],
        "holds": wanted in found,
        "comparisons": len(answers),
        "unclear": sum(one["answer"] == "unclear" for one in answers),
        "pairs": sum(one.get("pairs") or 0 for one in answers),
        "ends": _size(answers[0]),
        "step": _size(steps[-1]) if steps else None,
        "load": machine.load(),
    }


def _size(answer: Mapping[str, Any]) -> list[float | None]:
    return [answer.get(name) for name in ("change", "low", "high")]


def _spent(record: Mapping[str, Any], begun: float) -> float:
    """Return the seconds of a try: those of its answers, some of which an earlier process may have had."""
    return float(max(time.monotonic() - begun, sum(one["seconds"] for one in record["answers"])))


def culprits() -> list[int]:
    """Return the commit that is slow in each try: another one each time, as long as there are any."""
    places = list(range(1, COMMITS + 1))
    random.Random(16).shuffle(places)  # noqa: S311  (places)
    return places


def summary(log: LiveLog) -> str:
    """Return a table of the tries."""
    tries = log.tries()
    lines = ["| try | planted in | found | comparisons | pairs | ends differ by | the commit by | seconds |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for one in tries:
        found = ", ".join(map(str, one["found"])) or "-"
        numbers = (one["comparisons"], one["pairs"], _text(one["ends"]), _text(one["step"]), round(one["seconds"]))
        cells = (one["try"], one["culprit"], f"{found} ({one['outcome']})", *numbers)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    right = sum(one["outcome"] == "right" for one in tries)
    return "\n".join([f"{right} of {len(tries)} right\n", *lines])


def _text(size: Sequence[float | None] | None) -> str:
    if size is None or size[0] is None:
        return "-"
    low, high = size[1:]
    return f"{size[0]:+.1%}" + ("" if low is None or high is None else f" ({low:+.1%} to {high:+.1%})")


def _calibrated(log: LiveLog, case: Case, code: Path) -> float:
    """Return the needless products of a step that make requests 8% slower, measured once and written down."""
    found = log.calibration()
    if found is None:
        say("calibrating the slowdown")
        side = Side(name="base", label="this code", kind="same", root=code, python=sys.executable)
        found = calibrate(case, (SLOWDOWN,), run_apart(code, side.child_environ(os.environ)))
        log.add({"calibration": found})
    return float(found["products"][0])


def _commit(root: Path) -> dict[str, Any]:
    told = describe_commit(root)
    return {"sha": told.get("sha"), "dirty": told.get("dirty")}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bisect", description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder of tries.jsonl")
    parser.add_argument("--folder", type=Path, default=Path("profiles/bisections"), help="where tries are under way")
    parser.add_argument("--budget-minutes", type=float, default=180.0, help="begin no try that would not end by then")
    parser.add_argument("--tries", type=int, default=TRIES, choices=range(1, COMMITS + 1), metavar=f"1-{COMMITS}")
    parser.add_argument("--summary", action="store_true", help="print the table of what was measured")
    return parser


if __name__ == "__main__":
    sys.exit(main())
