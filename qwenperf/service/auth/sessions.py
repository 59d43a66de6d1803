"""People's sessions: a cookie that scripts cannot read, and a second secret in every form that other sites cannot know.

The form's secret is derived from the cookie's. Before somebody signs in, a cookie without rights plays the part, so
that no other site can sign a person in under another name.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from urllib.parse import urlsplit

from starlette.datastructures import FormData
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from qwenperf.service.problems import Problem
from qwenperf.service.settings import ServiceSettings

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
CSRF_FIELD, CSRF_HEADER = "csrf", "x-csrf-token"
_MOST_FIELDS, _MOST_FIELD_BYTES = 50, 64 * 1024
_SESSION, _VISIT = "qwenperf_session", "qwenperf_visit"


def secure(settings: ServiceSettings) -> bool:
    """Return whether cookies go over encrypted connections only."""
    return settings.secure_cookies or settings.public_url.startswith("https://")


def _name(settings: ServiceSettings, name: str) -> str:
    """Return the cookie's name; the prefix makes browsers refuse one that a neighbouring host has planted."""
    return f"__Host-{name}" if secure(settings) else name


def session_secret(connection: HTTPConnection, settings: ServiceSettings) -> str:
    """Return what the session's cookie holds, or nothing."""
    return connection.cookies.get(_name(settings, _SESSION), "")


def new_secret() -> str:
    """Return a secret for a cookie."""
    return secrets.token_urlsafe(32)


def csrf_of(secret: str) -> str:
    """Return what forms of the cookie's holder must carry; it does not give the cookie away."""
    return hashlib.sha256(b"csrf:" + secret.encode()).hexdigest()


def form_secret(request: Request, settings: ServiceSettings) -> str:
    """Return the cookie that binds this browser's forms, of the session or of the visit; nothing where it has none."""
    return session_secret(request, settings) or request.cookies.get(_name(settings, _VISIT), "")


def keep(response: Response, settings: ServiceSettings, secret: str, *, session: bool) -> None:
    """Hand the browser a cookie: of a session, or of a visit that has no rights."""
    response.set_cookie(
        _name(settings, _SESSION if session else _VISIT),
        secret,
        max_age=settings.session_s if session else None,
        path="/",
        secure=secure(settings),
        httponly=True,
        samesite="lax",
    )


def drop(response: Response, settings: ServiceSettings) -> None:
    """Take the session's cookie back."""
    response.delete_cookie(_name(settings, _SESSION), path="/", secure=secure(settings), httponly=True, samesite="lax")


def same_origin(connection: HTTPConnection, settings: ServiceSettings) -> bool:
    """Return whether the browser says that the request comes from a page of ours; silence is no objection."""
    site, origin = connection.headers.get("sec-fetch-site"), connection.headers.get("origin")
    if site not in {None, "same-origin", "none"}:
        return False
    if origin is None:
        return True
    ours = {connection.headers.get("host", ""), urlsplit(settings.public_url).netloc}
    try:
        return urlsplit(origin).netloc in ours - {""}
    except ValueError:
        return False


def csrf_holds(secret: str, given: str) -> bool:
    """Return whether a form carries what its browser's cookie asks for."""
    return bool(secret) and hmac.compare_digest(csrf_of(secret).encode(), given.encode("utf-8", "replace"))


async def checked_form(request: Request, settings: ServiceSettings) -> FormData:
    """Return a form that one of our own pages sent, and let the request change things.

    Raises:
      Problem: 403 for any other.
    """
    form = await request.form(max_files=0, max_fields=_MOST_FIELDS, max_part_size=_MOST_FIELD_BYTES)
    given = form.get(CSRF_FIELD)
    held = isinstance(given, str) and csrf_holds(form_secret(request, settings), given)
    if not held or not same_origin(request, settings):
        raise Problem(
            403, "This form is not from this session, or has grown old.", "Open the page again and send it anew."
        )
    request.state.csrf_checked = True
    return form
