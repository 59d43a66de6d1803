"""An ASV plugin for ``asv publish``: a number that rises when it improves is shown, and not judged.

ASV takes lower for better. Its list paints a rise red, and its finder reports one as a regression; both are kept away
from benchmarks that say ``direction = "higher"``. ``asv.conf.json`` loads it:
``"plugins": [".qwenperf.asv_plugin.publishing"]``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asv.publishing import OutputPublisher  # type: ignore[import-untyped]


class Directions(OutputPublisher):  # type: ignore[misc]
    """Runs after ASV has written its list and before it looks for regressions."""

    name = "directions"
    button_label = "Directions"
    description = "Which benchmarks rise when they improve"
    order = 2

    @classmethod
    def publish(cls, conf: Any, repo: Any, benchmarks: Any, graphs: Any, revisions: Any) -> None:  # noqa: ARG003
        """Leave the change of shown benchmarks out of the list, and keep the finder away from them."""
        names = shown(benchmarks)
        conf.regressions_first_commits = {**conf.regressions_first_commits, **{pattern(name): None for name in names}}
        for file in Path(conf.html_dir).rglob("summary.json"):
            rows = json.loads(file.read_text(encoding="utf-8"))
            file.write_text(json.dumps([unjudged(row) if row["name"] in names else row for row in rows]), "utf-8")


def shown(benchmarks: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Return the names of benchmarks that say that higher is better."""
    return {name for name, benchmark in benchmarks.items() if benchmark.get("direction") == "higher"}


def pattern(name: str) -> str:
    """Return what ASV's finder matches its names with: the benchmark, with any parameters and on any branch."""
    return rf"{re.escape(name)}(\(|@|$)"


def unjudged(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of ASV's list with its last value and without a change."""
    return {**row, "prev_value": None, "change_rev": None}
