"""Profiles of either side of a comparison: of whole requests, as they are timed, or of steps where that cannot be.

Both sides are traced alike, for the difference of a request and a step says nothing. What goes wrong costs traces
alone, and is kept as a remark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qwenperf.errors import MeasurementError
from qwenperf.lab.options import Options
from qwenperf.lab.run_folder import session_name
from qwenperf.lab.subject import Subject
from qwenperf.measure.capture_limits import longest_s


@dataclass(kw_only=True)
class PairTraces:
    """Files of profiles by case and side, ``summaries`` of what took the time in them, and ``remarks`` on them.

    ``able`` are the sides that can save them, which an older one cannot; ``whole`` those that can of whole requests.
    """

    files: dict[str, dict[str, str]] = field(default_factory=dict)
    summaries: dict[str, dict[str, Any]] = field(default_factory=dict)
    remarks: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    able: set[str] = field(default_factory=set)
    whole: set[str] = field(default_factory=set)

    def hear(self, side: str, told: Mapping[str, Any]) -> None:
        """Keep what a side says of itself when it is ready."""
        self.able |= {side} if told.get("traces") else set()
        self.whole |= {side} if told.get("whole") else set()

    def take(self, cases: Sequence[str], subjects: Mapping[str, Subject], folder: Path, trial_limit_s: float) -> None:
        """Save profiles of ``cases`` below ``folder``; a side that fails to answer is asked no more."""
        asking, limit_s = set(self.able), longest_s(Options().trace_deadline_s) + trial_limit_s
        for case in cases:
            kinds = ("requests", "steps") if asking <= self.whole else ("steps",)
            for number, of in enumerate(kinds):
                asked = {"case": case, "trace": str(folder.resolve()), "of": of}
                name = session_name(case) + (f"-{of}" if number else "")
                if self._take(name, asked, asking, subjects, limit_s):
                    break

    def _take(
        self, name: str, asked: Mapping[str, str], asking: set[str], subjects: Mapping[str, Subject], limit_s: float
    ) -> bool:
        """Save the profiles of one case; say whether there is one of each side that answers."""
        case, folder = asked["case"], Path(asked["trace"])
        files: dict[str, str] = {}
        summaries: dict[str, Any] = {}
        for side in sorted(asking):
            try:
                seen = subjects[side].ask({**asked, "session": f"{name}-{side}"}, limit_s)
            except MeasurementError as error:
                self._remark(case, side, error.message)
                asking.discard(side)
                continue
            for text in seen.get("lost") or ():
                self._remark(case, side, text)
            if seen["trace"]:
                files[side] = str(Path(seen["trace"]).relative_to(folder))
                summaries[side] = seen.get("summary")
        if files:
            self.files[case], self.summaries[case] = files, summaries
        return asking <= set(files)

    def _remark(self, case: str, side: str, text: str) -> None:
        told = self.remarks.setdefault(case, {}).setdefault(side, [])
        if text not in told:
            told.append(text)
