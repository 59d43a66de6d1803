"""How long `qwenperf aot` takes for five generations of chips, cold and warm: `python -m benchmarks.aot_time`.

Each engine gets a cache of its own that is empty at first: the first run compiles everything, the next ones find every
program. Run it while nothing else runs. `--quick` is a small model, to see that it works.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from qwenperf.errors import MeasurementError, QwenperfError

TARGETS = "v4-1,v5e-1,v5p-1,v6e-1,v7x-1"
ENGINES = ("cached+layers=scanned", "cached")
COLD_S, WARM_S = 60.0, 10.0
"""The limits, on 2 cores, of the first engine."""

MODEL = ("--model", "qwen2.5-0.5b", "--prompt-length", "512", "--new-tokens", "64")
QUICK = ("--model", "tiny", "--prompt-length", "8", "--new-tokens", "8")


@dataclass(frozen=True, kw_only=True)
class Timed:
    """One run: ``cpu_s`` is of all its processes, ``compile_s`` what its programs took, each for itself."""

    engine: str
    run: str
    wall_s: float
    cpu_s: float
    compile_s: float
    programs: int
    remembered: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Time all engines; 1 where the first one takes longer than the limits."""
    asked = _parser().parse_args(arguments)
    try:
        found = list(timed(asked))
    except QwenperfError as error:
        print(error, file=sys.stderr)  # noqa: T201 - what it ends with
        return error.exit_code
    if asked.as_json:
        print(json.dumps([asdict(one) for one in found], indent=1))  # noqa: T201 - the result
    else:
        print(table(found))  # noqa: T201 - the result
    return 0 if asked.quick or within(found) else 1


def timed(asked: argparse.Namespace) -> Iterator[Timed]:
    """Yield the runs of each engine: one that compiles, and ``--warm`` that find everything."""
    for engine in asked.engine or ENGINES:
        with tempfile.TemporaryDirectory(prefix="qwenperf-aot-time-") as name:
            for number in range(1 + asked.warm):
                run = "cold" if number == 0 else f"warm {number}"
                print(f"{engine}: {run}", file=sys.stderr, flush=True)  # noqa: T201 - progress
                yield _run(engine, run, asked, Path(name))


def _run(engine: str, run: str, asked: argparse.Namespace, folder: Path) -> Timed:
    command = [sys.executable, "-P", "-m", "qwenperf", "aot", *(QUICK if asked.quick else MODEL)]
    command += ["--engine", engine, "--target", asked.target, "--json", "--out", str(folder / "out")]
    environ = {**os.environ, "QWENPERF_CACHE": str(folder / "cache")}
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    wall_s, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        cases = json.loads(done.stdout)["cases"]
    except (ValueError, KeyError) as error:
        raise MeasurementError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-400:]}") from error
    lost = [case["error"] for case in cases if case.get("program") is None]
    if lost:
        raise MeasurementError(f"{engine}: {len(lost)} programs were not compiled: {lost[0]}")
    known = sum(bool(case.get("remembered")) for case in cases)
    if known != (0 if run == "cold" else len(cases)):
        raise MeasurementError(f"{engine}, {run}: {known} of {len(cases)} programs were known before.")
    return Timed(
        engine=engine,
        run=run,
        wall_s=round(wall_s, 2),
        cpu_s=round(sum((after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime)), 2),
        compile_s=round(sum(case.get("compile_s") or 0.0 for case in cases), 2),
        programs=len(cases),
        remembered=known,
    )


def table(found: Sequence[Timed]) -> str:
    """Return a Markdown table."""
    rows = ["| engine | run | seconds | CPU seconds of all processes | programs |", "| --- | --- | --- | --- | --- |"]
    rows += [f"| `{one.engine}` | {one.run} | {one.wall_s:.1f} | {one.cpu_s:.1f} | {one.programs} |" for one in found]
    return "\n".join(rows)


def within(found: Sequence[Timed]) -> bool:
    """Say whether the first engine kept both limits."""
    own = [one for one in found if one.engine == found[0].engine]
    return all(one.wall_s <= (COLD_S if one.run == "cold" else WARM_S) for one in own)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.aot_time", description=__doc__)
    parser.add_argument("--engine", action="append", help=f"repeatable (default: {', '.join(ENGINES)})")
    parser.add_argument("--target", default=TARGETS, help=f"default: {TARGETS}")
    parser.add_argument("--warm", type=int, default=2, help="runs that find everything (default: 2)")
    parser.add_argument("--quick", action="store_true", help="the tiny model, without limits")
    parser.add_argument("--json", dest="as_json", action="store_true")
    return parser


if __name__ == "__main__":
    sys.exit(main())
