"""What a culprit spends more time in than the commit before it, from one traced run of either: where no pairs told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from qwenperf.errors import MeasurementError
from qwenperf.lab.side_command import case_of, run_side
from qwenperf.lab.sides import Side
from qwenperf.traces.diff import top_lines


@dataclass(frozen=True, kw_only=True)
class Traces:
    """Compares traces of ``case``. ``arguments`` of ``qwenperf run`` choose it; ``side`` makes that of a commit."""

    case: str
    arguments: Sequence[str]
    side: Callable[[str], Side]
    say: Callable[[str], None] = lambda _text: None

    def __call__(self, base: str, head: str) -> tuple[str, ...]:
        """Return what takes longer in ``head``; nothing where a side cannot be traced, which costs no answer."""
        self.say(f"tracing {head[:10]} and {base[:10]}")
        summaries = []
        try:
            for name, sha in (("base", base), ("head", head)):
                run = run_side(replace(self.side(sha), name=name), self.arguments, traced=True)
                summaries.append(case_of(run, self.case).evidence.trace_summary)
        except MeasurementError as error:
            self.say(f"  no trace: {error.message}")
            return ()
        old, new = summaries
        return top_lines(old, new) if old and new else ()
