"""What is found today and what was known before: one list of regressions, with what people said of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from qwenperf.errors import UnknownNameError, UsageError
from qwenperf.gate.history import Judged
from qwenperf.schema.metrics import Kind
from qwenperf.schema.regressions import Form, Regression, RegressionStatus

FAMILY_ALPHA = 0.05
"""Chance that any of all unchanged histories that are looked at together has a change reported."""

_APART = 3
"""Points by which a place may move when the history grows, and still be the same change."""


def confirmed(judged: Sequence[Judged], alpha: float = FAMILY_ALPHA) -> tuple[Judged, ...]:
    """Drop the changes that so many histories have by chance: what is looked at together errs together.

    Each timed history counts by its least likely change, by Holm's steps: with 200 of them the first needs a p of
    alpha / 200. Holm, "A simple sequentially rejective multiple test procedure" (1979). Numbers without noise have no
    chance to err.
    """
    p_values = {
        index: min((one.p_value for one in (*each.regressions, *each.improvements)), default=1.0)
        for index, each in enumerate(judged)
        if each.series.kind is Kind.TIMED
    }
    stands = {index for index, each in enumerate(judged) if each.series.kind is not Kind.TIMED}
    for rank, index in enumerate(sorted(p_values, key=lambda index: p_values[index])):
        if p_values[index] > alpha / (len(p_values) - rank):
            break
        stands.add(index)
    return tuple(
        each if index in stands else replace(each, regressions=(), improvements=(), crept=None)
        for index, each in enumerate(judged)
    )


def merged(stored: Sequence[Regression], judged: Sequence[Judged]) -> tuple[Regression, ...]:
    """Return the regressions of the store as they now are, in the order of the series and of their places.

    One that is found again keeps its name and when it was found. Accepted ones stay. Others that are not found again
    are dropped where their run was looked at, for then they no longer stand, and kept where it was not: it is of
    another branch, so old that a long history no longer shows it, or of an environment that has become rare.
    """
    left = list(stored)
    now = []
    for each in judged:
        for one in each.regressions:
            before = next((old for old in left if _is_same(old, one, each)), None)
            if before is None:
                now.append(one)
            else:
                left.remove(before)
                now.append(_again(before, one))
    return (*now, *_unseen(left, judged))


def _is_same(old: Regression, new: Regression, judged: Judged) -> bool:
    """Say whether two records tell of one change: the old place is where the new one may be, and it goes that way."""
    if (old.case, old.metric, old.form) != (new.case, new.metric, new.form) or (old.size > 0) != (new.size > 0):
        return False
    if old.run == new.run:
        return True
    places = _places(judged)
    if _seen_by(old) not in places or old.status is RegressionStatus.ACCEPTED:
        return False
    # A drift of a long history is counted from its first point, which falls out of sight while more points come.
    at = places.get(old.run, 0)
    first, end = (places.get(run, places[new.run]) for run in (new.first_run, new.end_run))
    return first - _APART <= at <= end + _APART


def _seen_by(one: Regression) -> str:
    """Return the run without which a change cannot be found: a drift goes on, a step is at its place."""
    return one.end_run or one.run if one.form is Form.DRIFT else one.run


def _places(judged: Judged) -> Mapping[str, int]:
    return {run: place for place, run in enumerate(judged.runs)}


def _again(old: Regression, new: Regression) -> Regression:
    if old.status is RegressionStatus.ACCEPTED:
        return old
    return replace(new, id=old.id, found_at=old.found_at or new.found_at, extra=old.extra)


def _unseen(left: Sequence[Regression], judged: Sequence[Judged]) -> Iterator[Regression]:
    """Yield the records to keep of those that were not found."""
    looked_at = {(each.series.case, each.series.metric): each for each in judged}
    for old in left:
        each = looked_at.get((old.case, old.metric))
        place = -1 if each is None else _places(each).get(_seen_by(old), -1)
        if old.status is RegressionStatus.ACCEPTED or each is None or place < each.settled:
            yield old


def kept_meanwhile(
    found: Sequence[Regression], known: Sequence[Regression], stored: Sequence[Regression]
) -> tuple[Regression, ...]:
    """Return what was found with what somebody else kept while it was looked for.

    Looking takes minutes: ``known`` is the record from before, ``stored`` the one of now. Acceptances of today win.
    """
    accepted = {one.id: one for one in stored if one.status is RegressionStatus.ACCEPTED}
    names, before = {one.id for one in found}, {one.id for one in known}
    more = (one for one in stored if one.id not in names and (one.id in accepted or one.id not in before))
    return (*(accepted.get(one.id, one) for one in found), *more)


def accept(known: Sequence[Regression], name: str, reason: str, accepted_at: str) -> tuple[Regression, ...]:
    """Return the regressions, the one called ``name`` (or a beginning that only it has) accepted for a reason.

    Raises:
      UnknownNameError: there is none of that name.
      UsageError: the reason is empty, or several names begin so.
    """
    if not reason.strip():
        raise UsageError(
            "the reason is empty.", advice="Say why the change is accepted: whoever looks later asks that."
        )
    found = [one for one in known if name and one.id.startswith(name)]
    if not found:
        raise UnknownNameError("regression", name, [one.id for one in known])
    if len(found) > 1:
        raise UsageError(f"{name!r} begins {', '.join(one.id for one in found)}.", advice="Give the whole name.")
    status = RegressionStatus.ACCEPTED
    done = replace(found[0], status=status, reason=reason.strip(), accepted_at=accepted_at)
    return tuple(done if one is found[0] else one for one in known)
