"""The ASV suite once, for real, in this environment: check, run, publish, and look whether our numbers arrived.

``asv`` can end well and save nothing (an environment that it did not build itself needs ``--set-commit-hash``), so
that the saved results are read back here and every tracked number must be there.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / ".asv" / "results"
ENVIRONMENT = ("--environment", "existing:same")
MACHINE = "quick"


def main() -> None:
    """Run the whole chain; any step that fails ends it."""
    sys.path.insert(0, str(ROOT))
    commit = subprocess.run(
        ("git", "rev-parse", "HEAD"), cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()
    asv("machine", "--yes", "--machine", MACHINE)
    asv("check", *ENVIRONMENT)
    forget(commit)
    asv("run", *ENVIRONMENT, "--machine", MACHINE, "--set-commit-hash", commit, "--quick", "--show-stderr")
    saved = results(commit)
    complain(saved)
    asv("publish")
    print(f"asv saved {len(saved)} benchmarks for {commit[:10]} and published .asv/html")


def asv(command: str, *arguments: str) -> None:
    """Run one asv command without a question to anybody."""
    subprocess.run((sys.executable, "-m", "asv", command, *arguments), cwd=ROOT, check=True, stdin=subprocess.DEVNULL)


def forget(commit: str) -> None:
    """Remove earlier results of this commit, so that what is read back is what was measured now."""
    for path in (RESULTS / MACHINE).glob(f"{commit[:8]}-*.json"):
        path.unlink()


def results(commit: str) -> dict[str, dict[str, float | None]]:
    """Return ``{benchmark: {engine: value}}`` from what asv saved for ``commit``."""
    files = list((RESULTS / MACHINE).glob(f"{commit[:8]}-*.json"))
    if len(files) != 1:
        sys.exit(f"asv saved {len(files)} result files for {commit[:10]} in {RESULTS / MACHINE}, not one")
    document = json.loads(files[0].read_text(encoding="utf-8"))
    columns = document["result_columns"]
    saved = {}
    for name, row in document["results"].items():
        entry = dict(zip(columns, row, strict=False))
        engines = [text.strip("'") for text in entry["params"][0]]
        saved[name] = dict(zip(engines, entry["result"] or [None] * len(engines), strict=True))
    return saved


def complain(saved: dict[str, dict[str, float | None]]) -> None:
    """End with what is missing: every benchmark of the suite, and a finite number for each rung that has a cache."""
    from benchmarks.ladder import TRACKED
    from qwenperf.workloads.case import ENGINES

    problems = []
    for tracked in TRACKED:
        values = saved.get(f"ladder.Ladder.track_{tracked.name}", {})
        wanted = ("cached",) if tracked.name == "cache_bytes" else ENGINES
        problems += [f"{tracked.name} of {engine}" for engine in wanted if not finite(values.get(engine))]
    if problems:
        sys.exit(f"asv saved no number for: {', '.join(problems)}")


def finite(value: float | None) -> bool:
    """Tell whether asv saved a number."""
    return value is not None and math.isfinite(value)


if __name__ == "__main__":
    main()
