"""Requests to a service that may be away for a moment: tried again with growing, random pauses, then given up in words.

What a service refuses (4xx) is not tried again: it would refuse it again. But where only the token has ended, another
is asked for, once a request. Nothing here shows a token or a password.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from qwenperf.errors import StoreError
from qwenperf.store.words import bare, one_line

if TYPE_CHECKING:
    import httpx

_LATER = frozenset({408, 425, 429, 500, 502, 503, 504})
_FIRST_S, _LONGEST_S = 0.5, 30.0
_CONNECT_S, _READ_S = 10.0, 90.0
_AHEAD_S, _AHEAD_SHARE = 60.0, 0.2
"""A token is changed so long before it ends, or for this share of its time where that is shorter."""

Content = bytes | Callable[[], Iterator[bytes]] | None
"""A body, or what makes one anew for each try."""


class UnreachableError(StoreError):
    """The service did not answer, or not sensibly, however often it was asked."""

    exit_code = 4
    default_advice = "Is it running, and can this machine reach it?"


class UnsendableTokenError(StoreError):
    """A token that no request can carry. What is wrong is told, and never the token."""

    default_advice = "Set QWENPERF_TOKEN again, to the token alone."


class RefusedError(StoreError):
    """The answer is that it will not. ``own``: the service says so in its own words, and nobody who stands between."""

    def __init__(self, message: str, *, status: int, advice: str = "", own: bool = False) -> None:
        super().__init__(message, advice=advice)
        self.status = status
        self.own = own


@dataclass(frozen=True, kw_only=True)
class Token:
    """A token that ends by itself after ``lasts_s`` seconds: ``inf`` is where nobody says when."""

    text: str = field(repr=False)
    lasts_s: float = math.inf


@dataclass(kw_only=True)
class Service:
    """A service at ``url``, asked with ``token`` for up to ``patience_s`` seconds a request.

    ``renew`` makes another token where that one ends. ``say`` hears of every pause; ``sleep``, ``clock`` and
    ``transport`` are the outside world.
    """

    url: str
    token: str = field(default="", repr=False)
    renew: Callable[[Service], Token] | None = None
    patience_s: float = 60.0
    say: Callable[[str], None] = lambda _: None
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    transport: httpx.BaseTransport | None = None
    _client: httpx.Client | None = field(default=None, init=False, repr=False)
    _renew_at: float = field(default=math.inf, init=False, repr=False)

    @property
    def shown(self) -> str:
        """The address as it may be shown and kept: without user and password."""
        return bare(self.url)

    def close(self) -> None:
        """End the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | int | None] | None = None,
        content: Content = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Return the answer to a request.

        Raises:
          UnreachableError: no answer, or 5xx, until patience ended.
          RefusedError: any other answer that is none of success.
          StoreError: no such request can be sent.
        """
        ends, may_renew = self.clock() + self.patience_s, self.renew is not None
        for attempt in range(1_000_000):
            if may_renew and self.clock() >= self._renew_at:
                may_renew = False
                self._renewed()
            answer = self._tried(method, path, content, headers or {}, query or {})
            if may_renew and _has_expired(answer):
                may_renew = False
                if self._renewed():
                    continue
            if isinstance(answer, str):
                why, pause = answer, 0.0
            elif answer.status_code in _LATER:
                why, pause = f"{answer.status_code} {_error_of(answer)}".strip(), _asked_pause(answer)
            else:
                return self._checked(answer)
            pause = max(pause, random.uniform(0, min(_LONGEST_S, _FIRST_S * 2**attempt)))  # noqa: S311  (spreads clients)
            if self.clock() + pause > ends:
                raise UnreachableError(f"{self.shown} does not answer: {why.rstrip('.')}.")
            self.say(f"{self.shown}: {why}; trying again in {pause:.1f} s")
            self.sleep(pause)
        raise AssertionError  # pragma: no cover

    def is_ready(self) -> bool:
        """Say whether the service, asked once, says that it could take something in."""
        answer = self._tried("GET", "/readyz", None, {}, {})
        return not isinstance(answer, str) and answer.status_code == 200

    def hold(self, token: Token) -> None:
        """Ask with this token from now on, and with another shortly before it ends."""
        self.token = token.text
        self._renew_at = self.clock() + token.lasts_s - min(_AHEAD_S, _AHEAD_SHARE * token.lasts_s)

    def _renewed(self) -> bool:
        """Get another token; where there is none, say why and go on with the one that is there."""
        assert self.renew is not None
        try:
            self.hold(self.renew(self))
        except StoreError as error:
            self.say(f"{self.shown}: the token ends, and there is no other: {error}")
            return False
        return True

    def _tried(
        self, method: str, path: str, content: Content, headers: Mapping[str, str], query: Mapping[str, Any]
    ) -> httpx.Response | str:
        """Return the answer to one try, or why there is none."""
        import httpx

        try:
            return self._once(method, path, content, headers, query)
        except (httpx.InvalidURL, ValueError) as error:  # also one that Python cannot take apart
            # What is wrong may be a part of the password.
            why = "" if "@" in self.url else f": {one_line(str(error))}"
            raise StoreError(f"{self.shown} is no address{why}.", advice="Give http://HOST:PORT.") from None
        except httpx.UnsupportedProtocol as error:
            raise StoreError(f"{self.shown} is no address of the web.", advice="Give https://HOST.") from error
        except httpx.LocalProtocolError:
            # Its words are the header, whose value may be a secret.
            raise StoreError(f"no request to {self.shown} can be sent: a header is none.") from None
        except httpx.HTTPError as error:  # also an answer that is cut short or garbled
            return one_line(str(error)) or type(error).__name__

    def _once(
        self, method: str, path: str, content: Content, headers: Mapping[str, str], query: Mapping[str, Any]
    ) -> httpx.Response:
        if self._client is None:
            self._client = self._open()
        token = _sendable(self.token)
        held = {"Authorization": f"Bearer {token}"} if token else {}
        body = content() if callable(content) else content
        asked = {name: value for name, value in query.items() if value is not None}
        return self._client.request(
            method, f"{self.url.rstrip('/')}{path}", content=body, headers={**held, **headers}, params=asked
        )

    def _open(self) -> httpx.Client:
        import httpx

        # Redirects are not followed: a token goes to the address that somebody typed and to no other.
        return httpx.Client(transport=self.transport, timeout=httpx.Timeout(_READ_S, connect=_CONNECT_S))

    def _checked(self, answer: httpx.Response) -> httpx.Response:
        if answer.is_success:
            return answer
        told = _problem_of(answer)
        raise RefusedError(
            f"{self.shown} answers {answer.status_code}: {_error_of(answer)}{_points_to(answer)}",
            status=answer.status_code,
            advice="Give that address with --url, if you trust it."
            if answer.has_redirect_location
            else told.get("advice", ""),
            own="error" in told,
        )


def _sendable(token: str) -> str:
    """Return a token without the blanks and the newline that it was pasted with.

    Raises:
      UnsendableTokenError: another character that no header holds.
    """
    token = token.strip()
    wrong = next((place for place, letter in enumerate(token, 1) if not "!" <= letter <= "~"), None)
    if wrong is not None:
        raise UnsendableTokenError(f"the token's character {wrong} of {len(token)} is none that a token has.")
    return token


def _problem_of(answer: httpx.Response) -> dict[str, str]:
    try:
        told = answer.json()
    except (ValueError, RecursionError):
        return {}
    return {key: one_line(str(value)) for key, value in told.items()} if isinstance(told, dict) else {}


def _error_of(answer: httpx.Response) -> str:
    return _problem_of(answer).get("error") or one_line(answer.reason_phrase)


def _points_to(answer: httpx.Response) -> str:
    """Say where a redirect points, without what only that address should hear."""
    place = answer.headers["location"].partition("?")[0] if answer.has_redirect_location else ""
    place = bare(place).removesuffix(answer.request.url.path.rstrip("/"))
    return f", and points to {one_line(place)}." if place else ""


def _has_expired(answer: httpx.Response | str) -> bool:
    """Say whether a service refused a request because its token has ended, and for nothing else."""
    if isinstance(answer, str) or answer.status_code != 401:
        return False
    return "has expired" in _problem_of(answer).get("error", "")


def _asked_pause(answer: httpx.Response) -> float:
    text = answer.headers.get("retry-after", "")
    return min(_LONGEST_S, float(text)) if text.isascii() and text.isdigit() else 0.0
