"""Where the comparisons of each machine lie: a log and a table of pairs apiece, named after processor and cores.

Noise is a machine's own. What was measured on several is therefore kept, shown and replayed by machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.verdicts.live_log import LiveLog
from qwenperf.measure.environment import cpu_model, usable_cores

HERE = Path(__file__).parent
LINES = HERE / "results" / "live"
PAIRS = HERE / "data" / "pairs"

_NOISE = re.compile(r"\((?:r|tm)\)|\b(?:processor|cpu)\b|@", re.IGNORECASE)


def this_machine() -> dict[str, Any]:
    """Return what tells this machine from others."""
    return {"cpu_model": cpu_model(), "cores": usable_cores()}


def name_of(machine: Mapping[str, Any]) -> str:
    """Return the name of a machine's files: ``intel-xeon-2.50ghz-2-cores``."""
    words = f"{_NOISE.sub(' ', str(machine['cpu_model']))} {machine['cores']} cores"
    return re.sub(r"[^a-z0-9.]+", "-", words.lower()).strip("-")


def log_of(name: str, lines: Path = LINES, pairs: Path = PAIRS) -> LiveLog:
    """Return the log of the machine called ``name``, whether there is one already or not."""
    return LiveLog(lines=lines / f"{name}.jsonl", pairs=pairs / f"{name}.csv")


def logs(lines: Path = LINES, pairs: Path = PAIRS) -> dict[str, LiveLog]:
    """Return the logs that there are, by name."""
    return {path.stem: log_of(path.stem, lines, pairs) for path in sorted(lines.glob("*.jsonl"))}
