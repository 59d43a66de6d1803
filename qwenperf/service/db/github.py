"""Links of projects to repositories on GitHub, and what GitHub is to be told: kept with the record, until it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, and_, bindparam, delete, exists, insert, literal, or_, select, update

from qwenperf.service.db.prepared import Prepared
from qwenperf.service.db.projects import charge
from qwenperf.service.db.tables import comparisons, github_links, github_posts, projects, runs
from qwenperf.service.github.wanted import Link, Sent, wanted
from qwenperf.service.times import SECOND_US

WAITING, SENT, FAILED, REFUSED = "waiting", "sent", "failed", "refused"
STATES = (WAITING, SENT, FAILED, REFUSED)
_LEASE_US = 300 * SECOND_US
"""For so long a project's posts are one worker's; after that the worker has died."""

_JUDGED_US = 60 * SECOND_US
"""A run is told of when it was judged here, or when nobody did so for this long."""

_CANDIDATES = 50

# Asked for every arrival: making a statement takes longer than running it.
_LINK = select(github_links).where(github_links.c.project_id == bindparam("project"))
_IS_LINKED = Prepared(_LINK.with_only_columns(github_links.c.project_id), ("project",))


def link_of(connection: Connection, project_id: int) -> Row[Any] | None:
    """Return the link of a project; ``None`` where it has none."""
    return connection.execute(_LINK, {"project": project_id}).first()


def set_link(connection: Connection, project_id: int, link: Link, *, by: str, at: int) -> None:
    """Link a project to a repository, instead of the one before."""
    values = {"repository_id": link.repository_id, "repository": link.repository, "tokens": link.tokens}
    values |= {"created_at": at, "created_by": by}
    mine = github_links.c.project_id == project_id
    if not connection.execute(update(github_links).where(mine).values(**values)).rowcount:
        connection.execute(insert(github_links).values(project_id=project_id, **values))


def remove_link(connection: Connection, project_id: int, at: int) -> bool:
    """Remove the link of a project, give up what waits, and say whether there was one."""
    mine = (github_posts.c.project_id == project_id) & (github_posts.c.state == WAITING)
    gone = {"state": FAILED, "problem": "the link was removed", "updated_at": at}
    connection.execute(update(github_posts).where(mine).values(**gone))
    return connection.execute(delete(github_links).where(github_links.c.project_id == project_id)).rowcount > 0


def note(connection: Connection, project_id: int, sent: Sent, *, at: int, **of: int) -> None:
    """Keep that GitHub is to hear of a record that arrived, or why not; nothing where the project is not linked.

    ``of`` is ``run_id`` or ``comparison_id``.
    """
    row = link_of(connection, project_id) if _IS_LINKED.ask(connection, project=project_id).rows else None
    if row is None:
        return
    link = Link(repository_id=row.repository_id, repository=row.repository, tokens=row.tokens)
    found = wanted(link, sent)
    values = {
        "sha": found.sha, "pull": found.pull, "merge": found.merge, "head": found.head, "branch": found.branch,
        "state": REFUSED if found.refused else WAITING, "problem": found.refused,
        "repository_id": row.repository_id, "next_at": at, "created_at": at, "updated_at": at,
    }  # fmt: skip
    connection.execute(insert(github_posts).values(project_id=project_id, **values, **of))


def tell_again(connection: Connection, run_id: int, at: int) -> None:
    """Have GitHub told once more of a run whose outcome changed after it was told, or while it is being told."""
    row = of_record(connection, run_id=run_id)
    if row is None or not (row.state == SENT or (row.state == WAITING and row.leased_until)):
        return
    fresh = {"state": WAITING, "problem": "", "tries": 0, "leased_until": 0, "next_at": at, "updated_at": at}
    kept = {name: value for name, value in row._mapping.items() if name != "id"}  # noqa: SLF001  (its public mapping)
    connection.execute(insert(github_posts).values(kept | fresh | {"created_at": at}))


def claim(connection: Connection, now: int, *, judges: bool) -> Row[Any] | None:
    """Return a post that is due, with its link, as the caller's for some minutes; ``None`` where there is none.

    Of one project one is under way at a time: each says all that is known of its commit, and must not be overtaken.
    ``judges``: runs wait until they were judged here.
    """
    other = github_posts.alias()
    busy = exists().where(
        other.c.project_id == github_posts.c.project_id, other.c.state == WAITING, other.c.leased_until > now
    )
    # Whose turn it is not is left out here: a long queue of one project would be all that is looked at.
    due = (
        select(github_posts.c.id, github_posts.c.project_id)
        .outerjoin(runs, runs.c.id == github_posts.c.run_id)
        .where(github_posts.c.state == WAITING, github_posts.c.next_at <= now, ~busy)
        .order_by(github_posts.c.next_at, github_posts.c.id)
        .limit(_CANDIDATES)
    )
    if judges:
        early = github_posts.c.created_at <= now - _JUDGED_US
        due = due.where(or_(github_posts.c.run_id.is_(None), runs.c.judged.is_(True), early))
    passed: set[int] = set()
    for row in connection.execute(due).all():
        if row.project_id not in passed and _take(connection, row, now):
            return by_id(connection, row.id)
        passed.add(row.project_id)
    return None


def _take(connection: Connection, row: Any, now: int) -> bool:
    # Writers of one project take turns: the second sees what the first has taken.
    charge(connection, row.project_id, 0)
    mine = github_posts.c.project_id == row.project_id
    busy = select(github_posts.c.id).where(mine, github_posts.c.state == WAITING, github_posts.c.leased_until > now)
    if connection.execute(busy.limit(1)).first() is not None:
        return False
    this = (github_posts.c.id == row.id) & (github_posts.c.state == WAITING) & (github_posts.c.next_at <= now)
    taken = {"leased_until": now + _LEASE_US, "tries": github_posts.c.tries + 1}
    return connection.execute(update(github_posts).where(this).values(**taken)).rowcount > 0


def by_id(connection: Connection, number: int) -> Row[Any] | None:
    """Return a post with the name of its project and the link that this has now; ``None`` where either is gone."""
    query = (
        select(
            github_posts, projects.c.name.label("project"), projects.c.budgets,
            github_links.c.repository, github_links.c.repository_id.label("linked_id"),
        )
        .join(projects, projects.c.id == github_posts.c.project_id)
        .outerjoin(github_links, github_links.c.project_id == github_posts.c.project_id)
        .where(github_posts.c.id == number)
    )  # fmt: skip
    return connection.execute(query).first()


def is_due(connection: Connection, now: int) -> bool:
    """Say whether something may be due, without writing."""
    query = select(github_posts.c.id).where(github_posts.c.state == WAITING, github_posts.c.next_at <= now)
    return connection.execute(query.limit(1)).first() is not None


def found_sha(connection: Connection, number: int, sha: str) -> None:
    """Write down which commit a post is about, once GitHub has said it."""
    connection.execute(update(github_posts).where(github_posts.c.id == number).values(sha=sha))


def settle(connection: Connection, number: int, *, at: int, **values: Any) -> None:
    """Write down what became of a try; what was given up meanwhile stays so."""
    mine = (github_posts.c.id == number) & (github_posts.c.state == WAITING)
    connection.execute(update(github_posts).where(mine).values(updated_at=at, leased_until=0, **values))


def told_of(connection: Connection, post: Row[Any], sha: str) -> Sequence[Row[Any]]:
    """Return the records of a commit that GitHub is told of, that of ``post`` among them: runs, then comparisons.

    Of one suite in one environment the newest run counts, of one pair of sides in one the newest comparison.
    """
    mine = and_(
        github_posts.c.project_id == post.project_id,
        github_posts.c.repository_id == post.repository_id,
        github_posts.c.sha == sha,
        github_posts.c.state != REFUSED,
    )
    found: list[Row[Any]] = []
    for table, column, parts in (
        (runs, github_posts.c.run_id, ("suite", "environment")),
        (comparisons, github_posts.c.comparison_id, ("base_label", "head_label", "environment")),
    ):
        shown = [table.c[name] for name in ("id", "name", "record_id", *parts)]
        kind = literal(column.name.removesuffix("_id")).label("kind")
        query = select(kind, *shown).join(github_posts, table.c.id == column).where(mine)
        newest: dict[tuple[str, ...], Row[Any]] = {}
        for row in connection.execute(query.order_by(table.c.received_at, table.c.id)):
            newest[tuple(getattr(row, name) for name in parts)] = row
        found += reversed(newest.values())
    return found


def of_record(connection: Connection, **of: int) -> Row[Any] | None:
    """Return what became of telling GitHub of a run (``run_id``) or comparison (``comparison_id``)."""
    query = select(github_posts).order_by(github_posts.c.id.desc()).limit(1)
    for name, value in of.items():
        query = query.where(github_posts.c[name] == value)
    return connection.execute(query).first()


def recent(connection: Connection, project_id: int, limit: int) -> Sequence[Row[Any]]:
    """Return the posts of a project with the names of their records, the latest first."""
    query = (
        select(github_posts, runs.c.name.label("run"), comparisons.c.name.label("comparison"))
        .outerjoin(runs, runs.c.id == github_posts.c.run_id)
        .outerjoin(comparisons, comparisons.c.id == github_posts.c.comparison_id)
        .where(github_posts.c.project_id == project_id)
    )
    return connection.execute(query.order_by(github_posts.c.id.desc()).limit(limit)).all()
