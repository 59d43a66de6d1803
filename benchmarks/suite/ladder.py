"""History of the ladder: each rung on the small model, measured once and tracked in several quantities.

``qwenperf.asv_plugin`` makes the benchmarks; the package that is measured has to be the commit's.
"""

from __future__ import annotations

from qwenperf.asv_plugin import check_commit, measure, tracks
from qwenperf.workloads.case import ENGINES, Workload
from qwenperf.workloads.suites import ladder

MODEL = "4x128"
WORKLOAD = Workload(prompt_length=16, new_tokens=20)
TRIALS = 5
CASE_LIMIT_S = 300
CASES = {case.engine: case for case in ladder(MODEL, WORKLOAD, trials=TRIALS, time_limit_s=CASE_LIMIT_S)}


@tracks(CASES, title=f"{MODEL}, {WORKLOAD.label}")
class Ladder:
    """All rungs on one model and workload."""

    def setup_cache(self):
        """Measure each rung once, in a process of its own; every benchmark reads from here."""
        check_commit("qwenperf", __file__)
        return measure(CASES)

    setup_cache.timeout = CASE_LIMIT_S * len(ENGINES)
