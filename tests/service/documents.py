"""Records for tests: small, and as the codec wants them."""

from datetime import UTC, datetime, timedelta

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
ENVIRONMENT = {"platform": "cpu", "cpu_model": "a", "cores": 2}


def run(number=0, *, value=1.0, cases=("tiny/cached",), environment=None, branch="main", **metrics):
    """Return a run measured ``number`` hours after the first, with one metric unless others are given."""
    at = (FIRST + timedelta(hours=number)).isoformat()
    found = metrics or {"tpot_s": value}
    return {
        "id": f"run-{number:06d}",
        "created_at": at,
        "suite": "smoke",
        "schema": "qwenperf.run.v1",
        "environment": dict(ENVIRONMENT if environment is None else environment),
        "commit": {"sha": f"{number:040x}", "branch": branch, "committed_at": at},
        "declared": list(cases),
        "cases": [{"id": name, "spec": {}, "metrics": {key: metric(key, one) for key, one in found.items()},
                   "verdicts": [verdict()]} for name in cases],
    }  # fmt: skip


def metric(name, value):
    """Return one metric; one that the registry does not know is a timed one in seconds."""
    from qwenperf.schema.metrics import REGISTRY

    known = REGISTRY.get(name)
    unit, direction, kind = (known.unit, known.direction, known.kind) if known else ("s", "lower", "timed")
    return {"value": value, "unit": unit, "direction": direction, "kind": kind, "samples": [value, value]}


def verdict(outcome="pass"):
    return {"gate": "shapes", "outcome": outcome, "summary": "0 compiles after warm-up"}


def comparison(name="compare-1"):
    return {
        "id": name,
        "created_at": FIRST.isoformat(),
        "schema": "qwenperf.comparison.v1",
        "base": {"label": "main", "kind": "revision", "commit": {"sha": "a" * 40}},
        "head": {"label": "HEAD", "kind": "revision", "commit": {"sha": "b" * 40}, "environment": ENVIRONMENT},
        "cases": [{"id": "tiny/cached", "verdicts": [verdict("fail")]}],
    }
