"""Which comparisons outlive their age: those that something refers to which is still there."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Table, exists, or_

from qwenperf.service.db.alerts import CONFIRMED, OPEN
from qwenperf.service.db.github import REFUSED, SENT, WAITING
from qwenperf.service.db.tables import accepted, alerts, comparisons, github_posts, runs


def is_referred_to(since: int) -> ColumnElement[bool]:
    """Return what is true of a comparison that something refers to.

    That is an alert which waits for an answer, or an accepted change, if it begins at a run of the comparison's head
    commit; and a report on GitHub with its verdict that was written at ``since`` or later, or is still to be.
    """
    waits = alerts.c.state.in_((OPEN, CONFIRMED))
    return or_(_begins_at_head(alerts, waits), _begins_at_head(accepted), *_are_reported(since))


def _begins_at_head(table: Table, *more: ColumnElement[bool]) -> ColumnElement[bool]:
    of_project = (table.c.project_id == comparisons.c.project_id) & (runs.c.id == table.c.run_id)
    return exists().where(of_project, runs.c.commit == comparisons.c.head_commit, runs.c.commit != "", *more)


def _are_reported(since: int) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    own, newest = github_posts.alias("own"), github_posts.alias("newest")
    mine = own.c.comparison_id == comparisons.c.id
    # All records of a commit are in one report, which is written anew whenever one of them arrives.
    same = (own.c[name] == newest.c[name] for name in ("project_id", "repository_id", "sha"))
    written = exists().where(
        mine, own.c.state != REFUSED, own.c.sha != "", *same, newest.c.state == SENT, newest.c.updated_at >= since
    )
    return exists().where(mine, own.c.state == WAITING), written
