"""What all pages share: who asks, which project, and the frame around what is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from sqlalchemy import Row
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from qwenperf.service.auth.access import admitted
from qwenperf.service.auth.credentials import identify
from qwenperf.service.auth.identity import ANONYMOUS, Identity
from qwenperf.service.auth.sessions import checked_form, csrf_of, form_secret, keep, new_secret
from qwenperf.service.auth.tokens import Scope
from qwenperf.service.context import service_of
from qwenperf.service.db import projects
from qwenperf.service.problems import FieldError
from qwenperf.service.texts import is_label, is_line, words
from qwenperf.service.web.templating import environment

SHOWN_ONCE = "no-store"
_HIDDEN = frozenset({"csrf", "secret"})


@dataclass(frozen=True, kw_only=True)
class Refused:
    """A form that was not taken: why, because of which field, and what was ``typed``, but for secrets."""

    form: str
    field: str
    why: str
    typed: Mapping[str, str]

    @classmethod
    def of(cls, form: str, error: FieldError, sent: FormData) -> Self:
        """Return what an error says of a form."""
        typed = {name: text for name, text in sent.items() if isinstance(text, str) and name not in _HIDDEN}
        return cls(form=form, field=error.field, why=words(f"{error.message} {error.advice}".strip()), typed=typed)


def opened(request: Request, scope: Scope = Scope.READ) -> tuple[Identity, Row[Any]]:
    """Return who asks and the project of the address.

    Raises:
      Problem: they may not do there what needs ``scope``; a private project and none are answered alike.
    """
    identity, name = identify(request), request.path_params["project"]
    with service_of(request).database.read() as connection:
        row = projects.by_name(connection, name)
    return identity, admitted(identity, row, name, scope)


def page(
    request: Request, template: str, *, status: int = 200, cache: str = "private, no-cache", **shown: Any
) -> Response:
    """Return a page; ``shown`` is what its template shows, besides who asks and the project."""
    service = service_of(request)
    secret = form_secret(request, service.settings)
    fresh = "" if secret else new_secret()
    identity = getattr(request.state, "identity", ANONYMOUS)
    project = shown.setdefault("project", None)
    shown.setdefault("here", "")
    html = (
        environment()
        .get_template(template)
        .render(
            identity=identity,
            manages=project is not None and identity.may(Scope.ADMIN, project.id, public=False),
            csrf=csrf_of(secret or fresh),
            now=service.clock(),
            **shown,
        )
    )
    # A record may hold half a character, which JSON can write and UTF-8 cannot.
    content = html.encode("utf-8", "replace")
    response = HTMLResponse(content, status, {"Cache-Control": cache, "Vary": "Cookie, Authorization"})
    if fresh and 'name="csrf"' in html:
        keep(response, service.settings, fresh, session=False)
    return response


def address(request: Request) -> str:
    """Return where people and programs reach this service, without a slash at its end."""
    return (service_of(request).settings.public_url or str(request.base_url)).rstrip("/")


def form(work: Callable[[Request, FormData], Response]) -> Callable[[Request], Any]:
    """Return a handler of a form that one of our pages sent; others are refused before ``work`` sees them."""

    async def handler(request: Request) -> Response:
        sent = await checked_form(request, service_of(request).settings)
        return await run_in_threadpool(work, request, sent)

    return handler


def field(sent: FormData, name: str) -> str:
    """Return a text of a form; empty where it lacks."""
    value = sent.get(name)
    return value.strip() if isinstance(value, str) else ""


def back(path: str) -> Response:
    """Return the answer to a form that is done: look at ``path``, and sending it again by reloading is no danger."""
    return RedirectResponse(path, 303)


def line(sent: FormData, name: str, most: int = 200, *, optional: bool = False, exact: bool = False) -> str:
    """Return a line of a form, without the spaces around it unless it is the ``exact`` name of a case or metric.

    Raises:
      FieldError: it lacks, is too long, or holds what is no text.
    """
    found = sent.get(name)
    value = found if exact and isinstance(found, str) else field(sent, name)
    taken = is_label(value) if exact and value else is_line(value)
    if (not value and not optional) or len(value) > most or not taken:
        raise FieldError(name, f"The field {name!r} is no line of {'0' if optional else '1'} to {most} characters.")
    return value


def whole(sent: FormData, name: str, most: int) -> int | None:
    """Return a whole number from 1 on; ``None`` where the field was left empty.

    Raises:
      FieldError: it is anything else.
    """
    value = field(sent, name)
    if not value:
        return None
    if not (value.isascii() and value.isdigit() and len(value) <= 15 and 1 <= int(value) <= most):
        raise FieldError(name, f"The field {name!r} is no whole number from 1 to {most}.")
    return int(value)
