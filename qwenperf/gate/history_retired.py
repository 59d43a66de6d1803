"""Cases that were dropped from a suite: nobody is told any more that they no longer come, until one comes again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from qwenperf.errors import UsageError
from qwenperf.gate.history_input import seconds
from qwenperf.schema.regressions import Retired


def named_cases(name: str, cases: Iterable[str]) -> tuple[str, ...]:
    """Return the cases that a name means: the one that is called so, or else all that match it as a pattern."""
    known = tuple(cases)
    return (name,) if name in known else tuple(case for case in known if fnmatchcase(case, name))


def retire(known: Sequence[Retired], cases: Sequence[str], reason: str, at: str) -> tuple[Retired, ...]:
    """Return the retired cases with ``cases`` among them, each for this reason from now on.

    Raises:
      UsageError: the reason is empty.
    """
    if not reason.strip():
        raise UsageError("the reason is empty.", advice="Say why no run comes any more: whoever looks later asks that.")
    others = (one for one in known if one.case not in cases)
    return (*others, *(Retired(case=case, reason=reason.strip(), retired_at=at) for case in cases))


def is_retired(known: Iterable[Retired], case: str, last: str) -> bool:
    """Say whether a case that was last measured at ``last`` is retired: what came later is measured after all."""
    return any(one.case == case and not seconds(last) > seconds(one.retired_at) for one in known)
