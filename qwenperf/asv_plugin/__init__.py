"""Benchmarks for airspeed velocity: decode engines measured by the lab, once a case, tracked in several quantities.

ASV's own timer does not know that JAX returns before the device is done; so everything here is a ``track_`` of a number
that the lab measured. What ASV cannot know it is told: direction, version, and which commit's code is really measured.
"""

from qwenperf.asv_plugin.measured import measure
from qwenperf.asv_plugin.provenance import check_commit
from qwenperf.asv_plugin.tracked import TRACKED, Tracked, tracks

__all__ = ["TRACKED", "Tracked", "check_commit", "measure", "tracks"]
