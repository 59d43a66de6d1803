"""Sets whom a project tells, its webhook and its repository on GitHub: the rules that the API and the pages share."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, Row

from qwenperf.errors import UsageError
from qwenperf.forge.target import Target
from qwenperf.schema.hints import show
from qwenperf.service.auth import audit, require
from qwenperf.service.auth.identity import Identity
from qwenperf.service.context import Service
from qwenperf.service.db import github, notices
from qwenperf.service.github.wanted import Link
from qwenperf.service.notify import PING, ping
from qwenperf.service.notify_sending import check_url, shown
from qwenperf.service.problems import in_field

SECRET_LEAST, SECRET_MOST = 16, 200
REPOSITORY_MOST = 201
_ANY_COMMIT = "0" * 40


def set_webhook(
    service: Service, identity: Identity, project: Row[Any], *, url: str, secret: str | None
) -> tuple[Row[Any], str | None]:
    """Set the webhook of a project, whose first message is a ping; return it, and its secret where that was made here.

    Raises:
      FieldError: messages must not go to ``url``, or ``secret`` is none.
    """
    url = url.strip()
    with in_field("url"):
        check_url(url, private_too=service.settings.private_webhooks)
    made = secrets.token_urlsafe(32) if secret is None else None
    key = made or secret or ""
    with in_field("secret"):
        _check_secret(key)
    at = service.clock()

    def work(connection: Connection) -> Row[Any] | None:
        notices.set_webhook(connection, project.id, url=url, secret=key, by=identity.name, at=at)
        notices.add(connection, project.id, PING, ping(project.name, service.settings.public_url, at), at)
        audit(connection, identity, "webhook.set", shown(url), {"secret": "made" if made else "given"}, at, project.id)
        return notices.webhook(connection, project.id)

    row = service.database.write(work)
    assert row is not None
    return row, made


def _check_secret(secret: str) -> None:
    if not SECRET_LEAST <= len(secret) <= SECRET_MOST or not secret.isprintable() or not secret.isascii():
        raise UsageError(
            f"the secret has {len(secret)} characters.",
            advice=f"{SECRET_LEAST} to {SECRET_MOST} printable ones of ASCII; or leave it out, and one is made.",
        )


def remove_webhook(service: Service, identity: Identity, project: Row[Any]) -> None:
    """Remove the webhook of a project, if it has one; what waits for it is given up."""
    _remove(
        service, identity, project,
        find=notices.webhook, remove=notices.remove_webhook,
        action="webhook.remove", subject=lambda row: shown(row.url),
    )  # fmt: skip


def set_link(service: Service, identity: Identity, project: Row[Any], link: Link) -> Row[Any]:
    """Link a project to a repository on GitHub, instead of the one before, and return the link.

    Raises:
      Problem: 403, who asks does not look after the whole service.
      FieldError: the repository, or the id of that, is none.
    """
    # The service speaks there under a name of its own: a project's admin must not choose whose pull requests it is on.
    require(identity, None, "admin")
    _check_link(link)
    at = service.clock()

    def work(connection: Connection) -> Row[Any] | None:
        github.set_link(connection, project.id, link, by=identity.name, at=at)
        detail = {"repository_id": link.repository_id, "tokens": link.tokens}
        audit(connection, identity, "github.link", link.repository, detail, at, project.id)
        return github.link_of(connection, project.id)

    row = service.database.write(work)
    assert row is not None
    return row


def _check_link(link: Link) -> None:
    with in_field("repository", "Give OWNER/NAME, as in its address on GitHub."):
        Target(repository=link.repository, sha=_ANY_COMMIT)
    number = link.repository_id
    with in_field("repository_id"):
        if not (number.isascii() and number.isdigit() and len(number) <= 18 and number[0] != "0"):
            raise UsageError(
                f"the repository's id is {show(number)}; a name can be taken over by others, and an id cannot.",
                advice="Ask GitHub: gh api repos/OWNER/NAME --jq .id",
            )


def remove_link(service: Service, identity: Identity, project: Row[Any]) -> None:
    """Remove the link of a project to GitHub, if it has one; what waits is given up."""
    _remove(
        service, identity, project,
        find=github.link_of, remove=github.remove_link,
        action="github.unlink", subject=lambda row: row.repository,
    )  # fmt: skip


def _remove(
    service: Service,
    identity: Identity,
    project: Row[Any],
    *,
    find: Callable[[Connection, int], Row[Any] | None],
    remove: Callable[[Connection, int, int], bool],
    action: str,
    subject: Callable[[Row[Any]], str],
) -> None:
    at = service.clock()

    def work(connection: Connection) -> None:
        row = find(connection, project.id)
        if remove(connection, project.id, at):
            audit(connection, identity, action, subject(row) if row is not None else "", {}, at, project.id)

    service.database.write(work)
