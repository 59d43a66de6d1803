"""Requests to a service that may be away for a moment: tried again with growing, random pauses, then given up in words.

What a service refuses (4xx) is not tried again: it would refuse it again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from qwenperf.errors import StoreError

if TYPE_CHECKING:
    import httpx

_LATER = frozenset({408, 425, 429, 500, 502, 503, 504})
_FIRST_S, _LONGEST_S = 0.5, 30.0
_CONNECT_S, _READ_S = 10.0, 90.0

Content = bytes | Callable[[], Iterator[bytes]] | None
"""A body, or what makes one anew for each try."""


class UnreachableError(StoreError):
    """The service did not answer, or not sensibly, however often it was asked."""

    exit_code = 4
    default_advice = "Is it running, and can this machine reach it?"


class RefusedError(StoreError):
    """The service answered that it will not."""

    def __init__(
        self, message: str, *, status: int, advice: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message, advice=advice)
        self.status = status
        self.headers = dict(headers or {})


@dataclass(kw_only=True)
class Service:
    """A service at ``url``, asked with ``token`` for up to ``patience_s`` seconds a request.

    ``say`` hears of every pause; ``sleep``, ``clock`` and ``transport`` are the outside world.
    """

    url: str
    token: str = ""
    patience_s: float = 60.0
    say: Callable[[str], None] = lambda _: None
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    transport: httpx.BaseTransport | None = None
    _client: httpx.Client | None = field(default=None, init=False, repr=False)

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
        """
        import httpx

        ends = self.clock() + self.patience_s
        for attempt in range(1_000_000):
            why, pause = "", 0.0
            try:
                answer = self._once(method, path, content, headers or {}, query or {})
            except httpx.InvalidURL as error:
                raise StoreError(f"{self.url} is no address: {error}.", advice="Give http://HOST:PORT.") from error
            except httpx.UnsupportedProtocol as error:
                raise StoreError(f"{self.url} is no address of the web.", advice="Give https://HOST.") from error
            except httpx.HTTPError as error:  # also an answer that is cut short or garbled
                why = str(error) or type(error).__name__
            else:
                if answer.status_code not in _LATER:
                    return self._checked(answer)
                why, pause = f"{answer.status_code} {_error_of(answer)}".strip(), _asked_pause(answer)
            pause = max(pause, random.uniform(0, min(_LONGEST_S, _FIRST_S * 2**attempt)))  # noqa: S311  (spreads clients)
            if self.clock() + pause > ends:
                raise UnreachableError(f"{self.url} does not answer: {why.rstrip('.')}.")
            self.say(f"{self.url}: {why}; trying again in {pause:.1f} s")
            self.sleep(pause)
        raise AssertionError  # pragma: no cover

    def _once(
        self, method: str, path: str, content: Content, headers: Mapping[str, str], query: Mapping[str, Any]
    ) -> httpx.Response:
        if self._client is None:
            self._client = self._open()
        body = content() if callable(content) else content
        asked = {name: value for name, value in query.items() if value is not None}
        return self._client.request(
            method, f"{self.url.rstrip('/')}{path}", content=body, headers=headers, params=asked
        )

    def _open(self) -> httpx.Client:
        import httpx

        # Redirects are not followed: a token goes to the address that somebody typed and to no other.
        return httpx.Client(
            transport=self.transport,
            timeout=httpx.Timeout(_READ_S, connect=_CONNECT_S),
            headers={"Authorization": f"Bearer {self.token}"} if self.token else {},
        )

    def _checked(self, answer: httpx.Response) -> httpx.Response:
        if answer.is_success:
            return answer
        told = _problem_of(answer)
        raise RefusedError(
            f"{self.url} answers {answer.status_code}: {told.get('error') or answer.reason_phrase}",
            status=answer.status_code,
            advice=told.get("advice", ""),
            headers=answer.headers,
        )


def _problem_of(answer: httpx.Response) -> dict[str, str]:
    try:
        told = answer.json()
    except ValueError:
        return {}
    return {key: str(value) for key, value in told.items()} if isinstance(told, dict) else {}


def _error_of(answer: httpx.Response) -> str:
    return _problem_of(answer).get("error", answer.reason_phrase)


def _asked_pause(answer: httpx.Response) -> float:
    text = answer.headers.get("retry-after", "")
    return min(_LONGEST_S, float(text)) if text.isdigit() else 0.0
