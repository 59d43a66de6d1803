"""What the processes of a comparison said before it was cut short, put back: later pairs are held to the same."""

from __future__ import annotations

from typing import Any

from qwenperf.lab.pairs import Pairs
from qwenperf.schema.comparison import ComparisonRecord, SideEvidence
from qwenperf.schema.writing import encode


def restore(pairs: Pairs, record: ComparisonRecord) -> None:
    """Have ``pairs`` know what those of ``record`` found out: tokens, environments, requests in a trial, profiles."""
    environments = {"base": record.base.environment, "head": record.head.environment}
    pairs.environments |= {side: told for side, told in environments.items() if told}
    for case in record.cases:
        for side, seen in (("base", case.base), ("head", case.head)):
            if seen is not None:
                pairs.evidence[side][case.id] = _told(seen)
        if record.pairs:
            pairs.repeats[case.id] = case.repeats
        for name, place in (
            ("traces", pairs.traces.files), ("trace_summaries", pairs.traces.summaries),
            ("trace_remarks", pairs.traces.remarks),
        ):  # fmt: skip
            known: Any = case.extra.get(name)
            if known:
                place[case.id] = known


def _told(seen: SideEvidence) -> dict[str, Any]:
    """Return evidence as a process tells it: what it does not know, such as an error, is not there."""
    told = encode(seen, SideEvidence, "", [])
    return {name: value for name, value in told.items() if value is not None}
