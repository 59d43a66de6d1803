"""What other tools say of the changes that the live run compares.

pytest-benchmark is really run, twice, with ``--benchmark-compare-fail=mean:10%``; so is asv, by ``live_asv``. The other
rules are applied to processes that the comparisons have timed, base and head from different pairs, as two jobs have
them: thresholds to one process a side, and asv's own decision, as ``asv continuous`` calls it (factor 1.1, no samples
kept), to the rounds of two processes a side.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.verdicts.bench_request import CASE
from benchmarks.verdicts.live_kinds import Kind
from benchmarks.verdicts.live_try import Bench, child_environ
from benchmarks.verdicts.others import RULES
from qwenperf.errors import MeasurementError

Array = NDArray[np.float64]

_LIMIT_S = 300
_REGRESSED = "Performance has regressed"


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule on recorded processes: ``processes`` a side, from as many pairs each."""

    name: str
    processes: int
    says: Callable[[Array, Array], bool]

    def asked(self, pairs: Sequence[tuple[Array, Array]]) -> bool | None:
        """Return whether it raises an alarm, base from the first pairs and head from the next; ``None`` of too few."""
        if len(pairs) < 2 * self.processes:
            return None
        base = np.concatenate([one[0] for one in pairs[: self.processes]])
        head = np.concatenate([one[1] for one in pairs[self.processes : 2 * self.processes]])
        return self.says(base, head)


ASV_FACTOR = 1.1


def asv_alarm(base: Array, head: Array) -> bool:
    """Ask asv whether base is better than head by its factor, its intervals of 99% apart."""
    from asv.commands.compare import _is_result_better
    from asv_runner.statistics import compute_stats

    (before, old), (after, new) = (compute_stats(side.tolist(), 1) for side in (base, head))
    return bool(_is_result_better(before, after, (old, None), (new, None), ASV_FACTOR))


ON_RECORDED = (
    Rule(name="10% on single runs", processes=1, says=RULES["10% on single runs"]),
    Rule(name="200% on single runs", processes=1, says=RULES["200% on single runs"]),
    Rule(name="asv continuous, factor 1.1 (its decision)", processes=2, says=asv_alarm),
)


def pytest_benchmark(bench: Bench, kind: Kind) -> dict[str, Any]:
    """Run pytest-benchmark on base and then on head; return whether it failed head, and the seconds of both runs.

    Raises:
      MeasurementError: a run that ended otherwise.
    """
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="qwenperf-peer-") as name:
        folder = Path(name)
        (folder / "pytest.ini").write_text("[pytest]\n")
        base, head = (side.cases([bench.case])[0]["case"] for side in bench.sides(kind))
        plain = child_environ(bench, replace(kind, slowdown=0.0))
        _run(folder, bench.root, {**plain, CASE: json.dumps(base)}, "--benchmark-save=base")
        compared = ("--benchmark-compare", "--benchmark-compare-fail=mean:10%")
        said = _run(folder, bench.root, {**child_environ(bench, kind), CASE: json.dumps(head)}, *compared)
    return {"alarm": _REGRESSED in said, "seconds": round(time.monotonic() - begun, 2)}


def _run(folder: Path, root: Path, environ: Mapping[str, str], *options: str) -> str:
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-c", str(folder / "pytest.ini"), "--rootdir", str(folder)]
    for plugin in ("qwenperf", "xdist", "cacheprovider"):
        command += ["-p", f"no:{plugin}"]
    command += [str(root / "benchmarks" / "verdicts" / "bench_request.py"), f"--benchmark-storage={folder / 'saved'}"]
    done = subprocess.run(
        [*command, *options], capture_output=True, text=True, timeout=_LIMIT_S, check=False,
        env=dict(environ), cwd=folder,
    )  # fmt: skip
    said = done.stdout + done.stderr
    # A regression ends the session before its last line is written.
    if _REGRESSED not in said and ("1 passed" not in said or done.returncode):
        raise MeasurementError(f"pytest-benchmark ended with {done.returncode}: {said.strip()[-400:]}")
    return said
