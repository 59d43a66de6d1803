"""The ASV suite once, for real, in this environment: check, run, publish, and look whether our numbers arrived.

``asv`` can end well and save nothing (an environment that it did not build itself needs ``--set-commit-hash``), so
that the saved results are read back here and every tracked number must be there. A working tree with changes is
measured as a commit of its own that is on no branch: no commit gets numbers of code that it does not have.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / ".asv" / "results"
HTML = ROOT / ".asv" / "html"
ENVIRONMENT = ("--environment", "existing:same")
MACHINE = "quick"


def main() -> None:
    """Run the whole chain; any step that fails ends it."""
    sys.path.insert(0, str(ROOT))
    from qwenperf.asv_plugin.machine import register

    commit = commit_of_tree()
    os.environ["ASV_COMMIT"] = commit
    register(MACHINE)
    asv("check", *ENVIRONMENT)
    forget(commit)
    asv("run", *ENVIRONMENT, "--machine", MACHINE, "--set-commit-hash", commit, "--quick", "--show-stderr")
    saved = results(commit)
    complain(saved)
    asv("publish")
    complain_about_versions(json.loads((RESULTS / "benchmarks.json").read_text(encoding="utf-8")))
    print(f"asv saved {len(saved)} benchmarks for {commit[:10]} and published {HTML.relative_to(ROOT)}")


def commit_of_tree() -> str:
    """Return HEAD, or a commit on no branch that holds the working tree as it is; nothing of the checkout changes."""
    head = git("rev-parse", "HEAD")
    if not git("status", "--porcelain", "--", "qwenperf"):
        return head
    with tempfile.TemporaryDirectory() as folder:
        own = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        who = {f"GIT_{role}_{what}": "asv-quick" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        git("read-tree", "HEAD", **own)
        git("add", "--all", "--", "qwenperf", **own)
        commit = git("commit-tree", git("write-tree", **own), "-p", head, "-m", "working tree", **own, **who)
    print(f"the working tree differs from {head[:10]}: it is measured as {commit[:10]}, which is on no branch")
    return commit


def git(*arguments: str, **environ: str) -> str:
    """Return what git prints."""
    done = subprocess.run(
        ("git", *arguments), cwd=ROOT, check=True, capture_output=True, text=True, env={**os.environ, **environ}
    )
    return done.stdout.strip()


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
    from qwenperf.asv_plugin import TRACKED
    from qwenperf.workloads.case import ENGINES

    problems = []
    for tracked in TRACKED:
        values = saved.get(f"ladder.Ladder.{tracked.function}", {})
        wanted = ("cached",) if tracked.name == "cache_bytes" else ENGINES
        problems += [f"{tracked.name} of {engine}" for engine in wanted if not finite(values.get(engine))]
    if problems:
        sys.exit(f"asv saved no number for: {', '.join(problems)}")


def complain_about_versions(benchmarks: dict[str, dict[str, str]]) -> None:
    """End with the benchmarks whose version asv made from their code, which ends a series when code is moved."""
    names = [name for name, one in benchmarks.items() if name != "version" and len(one["version"]) >= 64]
    if names:
        sys.exit(f"no version of their own: {', '.join(names)}")


def finite(value: float | None) -> bool:
    """Tell whether asv saved a number."""
    return value is not None and math.isfinite(value)


if __name__ == "__main__":
    main()
