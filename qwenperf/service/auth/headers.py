"""Security headers on every answer, also on errors: nothing of ours runs inline, nothing of others runs at all."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # No proxy may hand what one may see to another.
    "Cache-Control": "private, no-cache",
    "Vary": "Cookie, Authorization",
}
_A_YEAR_S = 365 * 24 * 3600


def set_missing(headers: MutableHeaders, *, encrypted: bool) -> None:
    """Add the headers that an answer does not set itself; ``encrypted`` adds HSTS."""
    for name, value in _HEADERS.items():
        headers.setdefault(name, value)
    if encrypted:
        headers.setdefault("Strict-Transport-Security", f"max-age={_A_YEAR_S}")


class SecurityHeaders:
    """Adds the headers to every answer that does not set its own; ``encrypted`` adds HSTS."""

    def __init__(self, app: ASGIApp, *, encrypted: bool = False) -> None:
        self._app, self._encrypted = app, encrypted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the application does, with the headers."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if scope["path"].startswith("/static/") and message["status"] == 200:
                    headers.setdefault("Cache-Control", "public, max-age=86400")
                set_missing(headers, encrypted=self._encrypted)
            await send(message)

        await self._app(scope, receive, send_with_headers)
