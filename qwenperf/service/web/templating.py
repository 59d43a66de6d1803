"""Templates: everything is escaped, a name that is not there is an error, and quantities are written as everywhere."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from urllib.parse import quote, urlencode

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, StrictUndefined

from qwenperf import units
from qwenperf.report.html_words import FILTERS
from qwenperf.schema.metrics import REGISTRY
from qwenperf.service.times import iso
from qwenperf.service.web import links, signs

_HERE = Path(__file__).parent
STATIC = _HERE / "static"
_REPORT = _HERE.parents[1] / "report" / "templates"
REPORT_STYLE = _REPORT / "style.css"
_STEPS = ((86_400, "day"), (3600, "hour"), (60, "minute"))


@cache
def environment() -> Environment:
    """Return the environment of all pages; the bodies of runs and comparisons are those of the report."""
    found = Environment(
        loader=ChoiceLoader([FileSystemLoader(_HERE / "templates"), FileSystemLoader(_REPORT)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= FILTERS
    found.filters |= {
        "quantity": units.quantity,
        "bytes": units.byte_count,
        "seconds": units.seconds,
        "day": lambda at: iso(at)[:10],
        "minute": lambda at: f"{iso(at)[:16].replace('T', ' ')} UTC",
        "iso": iso,
        "percent": percent,
        "segment": lambda text: quote(str(text), safe=""),
        "short": lambda commit: str(commit)[:10],
    }
    found.globals |= {
        "static": static_url,
        "query": lambda **values: urlencode({name: value for name, value in values.items() if value not in {None, ""}}),
        "definition": REGISTRY.get,
        "links": links,
        "ago": ago,
        "sign": signs.of,
        "run_sign": signs.of_run,
        "state_sign": signs.of_state,
    }
    return found


@cache
def static_url(name: str) -> str:
    """Return the address of a file of ours, which changes with its content."""
    content = (REPORT_STYLE if name == "report.css" else STATIC / name).read_bytes()
    return f"/static/{name}?v={hashlib.sha256(content).hexdigest()[:12]}"


def ago(at: int, now: int) -> str:
    """Write how long ago a time is: ``3 hours ago``."""
    passed = max(0, (now - at) // 1_000_000)
    for size, word in _STEPS:
        if passed >= size:
            count = passed // size
            return f"{count} {word}{'s' if count != 1 else ''} ago"
    return "just now"


def percent(ratio: float | None) -> str:
    """Write a ratio of two values as a change: 1.25 -> ``+25%``."""
    if ratio is None:
        return "-"
    return f"{ratio - 1:+.1%}" if abs(ratio - 1) < 10 else f"{ratio:.3g} times"
