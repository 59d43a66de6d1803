"""How outcomes and alerts look: a word and a mark always, a colour besides. As in the reports, and alerts' own."""

from __future__ import annotations

from contextlib import suppress

from qwenperf.report.html_signs import BAD, DOUBT, GOOD, QUIET, UNKNOWN, Sign, of_outcome
from qwenperf.schema.records import Outcome

_STATES = {
    "open": Sign(word="to be confirmed", mark="?", kind=DOUBT),
    "confirmed": Sign(word="confirmed", mark="\N{MULTIPLICATION X}", kind=BAD),
    "accepted": Sign(word="accepted", mark="\N{CHECK MARK}", kind=QUIET),
    "dismissed": Sign(word="dismissed", mark="\N{EN DASH}", kind=QUIET),
    "resolved": Sign(word="resolved", mark="\N{CHECK MARK}", kind=GOOD),
}


def of(outcome: str) -> Sign:
    """Return the sign of an outcome as the database holds it; empty is none."""
    with suppress(ValueError):
        return of_outcome(Outcome(outcome)) if outcome else UNKNOWN
    return Sign(word=outcome, mark="", kind=QUIET)


def of_state(state: str) -> Sign:
    """Return the sign of an alert's state."""
    return _STATES.get(state, Sign(word=state, mark="", kind=QUIET))


def of_run(outcome: str, failed: int) -> Sign:
    """Return the sign of a run: cases that were not measured are never green, whatever the gates said of the others."""
    if failed and outcome != Outcome.FAIL:
        return Sign(word=f"{failed} not measured", mark="\N{MULTIPLICATION X}", kind=BAD)
    return of(outcome)
