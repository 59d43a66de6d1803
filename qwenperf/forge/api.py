"""Requests to GitHub: tried again where GitHub asks for it or is away, never where it refuses. Pure but for ``httpx``.

A rate limit is the one refusal (403 or 429) that ends: https://docs.github.com/rest/using-the-rest-api/best-practices
"""

from __future__ import annotations

import random
import re
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from qwenperf.errors import QwenperfError, RecordError, UsageError

if TYPE_CHECKING:
    import httpx

Json = Any
Query = Mapping[str, str | int]
_AWAY = frozenset({500, 502, 503, 504})
_FIRST_S, _LONGEST_S, _SECONDARY_S = 1.0, 30.0, 60.0
_CONNECT_S, _READ_S = 10.0, 60.0
_LIMITS = ("retry-after", "x-ratelimit-remaining", "x-ratelimit-reset")
_TOKEN = re.compile(r"[\x21-\x7e]*")
_SHOWN = 20
_SECONDS = re.compile(r"[0-9]{1,12}")

_ADVICE = {
    401: "Is the token right, and not expired?",
    403: "The job needs `checks: write` and `pull-requests: write`; a pull request of a fork never has them.",
    404: "Is the repository right, and may the token see it?",
}


class ForgeError(QwenperfError):
    """GitHub, or another receiver, did not do what was asked.

    ``is_away``: it gave no answer, or 5xx, to the end. ``again_s``: seconds after which a limit of requests ends.
    """

    exit_code = 4

    def __init__(
        self, message: str, *, advice: str = "", status: int = 0, is_away: bool = False, again_s: float | None = None
    ) -> None:
        super().__init__(message, advice=advice)
        self.status, self.is_away, self.again_s = status, is_away, again_s


class Api(Protocol):
    """Whoever takes requests: GitHub, or what only writes them down."""

    def ask(
        self, method: str, path: str, *, query: Query | None = None, body: Json = None, repeatable: bool = True
    ) -> Json:
        """Return the answer's JSON. ``repeatable``: doing it twice, after an answer that was lost, does no harm."""


@dataclass(kw_only=True)
class GitHub:
    """GitHub's REST API at ``url``, asked for up to ``patience_s`` seconds a request.

    ``say`` hears of every pause; ``sleep``, ``clock`` and ``now`` (seconds since the epoch) are the outside world.
    """

    url: str = "https://api.github.com"
    token: str = field(default="", repr=False)
    patience_s: float = 120.0
    say: Callable[[str], None] = lambda _: None
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time

    def ask(
        self, method: str, path: str, *, query: Query | None = None, body: Json = None, repeatable: bool = True
    ) -> Json:
        """Return the answer's JSON.

        Raises:
          ForgeError: no answer, or 5xx or a rate limit until patience ended, or a refusal; or the token is none.
          UsageError: ``url`` is no address.
        """
        what = f"{method} {path}"
        with self._client() as client:
            answer = self._until(
                what, lambda: client.request(method, path, params=query, json=body), repeatable=repeatable
            )
        if not answer.is_success:
            raise _refused(what, answer)
        try:
            return answer.json()
        except ValueError:
            raise ForgeError(f"{what}: the answer is not JSON.", advice=f"Is {self.url} GitHub's API?") from None

    def download(self, path: str, most: int) -> bytes:
        """Return the file that GitHub refers to, of ``most`` bytes at the most. The token stays with GitHub.

        Raises:
          ForgeError: as ``ask``.
          RecordError: the file is larger.
        """
        import httpx

        what = f"GET {path}"
        with self._client() as client:
            answer = self._until(what, lambda: client.get(path))
        place = answer.headers.get("location", "")
        if not answer.is_redirect or httpx.URL(place).scheme not in {"https", httpx.URL(self.url).scheme}:
            raise _refused(what, answer)
        with httpx.Client(verify=trust(), timeout=_READ_S) as bare:
            found = self._until(what, lambda: _bounded(bare, place, most))
        if not found.is_success:
            raise _refused(what, found)
        return found.content

    def _client(self) -> httpx.Client:
        import httpx

        check_address(self.url, "an API", "GitHub's is https://api.github.com.")
        if not is_token(self.token):
            # Whoever builds the header would say so, too, and repeat the token.
            advice = "Was it copied whole, and without blanks or newlines?"
            raise ForgeError("the token has a character that no token has.", advice=advice)
        # Redirects are not followed: a token goes to the address that was told and to no other.
        return httpx.Client(
            verify=trust(),
            base_url=self.url,
            timeout=httpx.Timeout(_READ_S, connect=_CONNECT_S),
            headers={
                "Accept": "application/vnd.github+json",
                "User-Agent": "qwenperf",
                "X-GitHub-Api-Version": "2022-11-28",
                **({"Authorization": f"Bearer {self.token}"} if self.token else {}),
            },
        )

    def _until(self, what: str, once: Callable[[], httpx.Response], *, repeatable: bool = True) -> httpx.Response:
        """Return the first answer that will not change; a growing, random pause lies between two tries."""
        import httpx

        ends = self.clock() + self.patience_s
        for attempt in range(1_000):
            status, asked_s = 0, 0.0
            try:
                answer = once()
            except httpx.RequestError as error:
                why = str(error) or type(error).__name__
            else:
                pause_s = asked_pause(answer, self.now())
                if pause_s is None:
                    return answer
                status, asked_s, why = answer.status_code, pause_s, _told(answer)
            if not repeatable and status not in {403, 429}:
                raise ForgeError(f"{what}: {why}.", status=status, is_away=True)
            pause_s = max(asked_s, random.uniform(0.5, 1) * min(_LONGEST_S, _FIRST_S * 2**attempt))  # noqa: S311
            if self.clock() + pause_s > ends:
                is_limit = status in {403, 429}
                again_s = asked_s if is_limit else None
                raise ForgeError(f"{what}: {why}; gave up.", status=status, is_away=not is_limit, again_s=again_s)
            self.say(f"{what}: {why}; trying again in {pause_s:.1f} s")
            self.sleep(pause_s)
        raise AssertionError  # pragma: no cover


def is_final(error: ForgeError) -> bool:
    """Say whether asking again later would change nothing."""
    return not error.is_away and error.again_s is None


def is_token(text: str) -> bool:
    """Say whether a header can hold this as a token."""
    return _TOKEN.fullmatch(text) is not None


def check_address(url: str, what: str, advice: str) -> None:
    """Refuse what no request can be sent to.

    Raises:
      UsageError: ``url`` is no address of the web.
    """
    import httpx

    try:
        found = httpx.URL(url)
    except (httpx.InvalidURL, ValueError):
        found = httpx.URL()
    if found.scheme not in {"https", "http"} or not found.host:
        # The rest may be a secret: whoever knows the address of a webhook may post to it.
        shown = url if len(url) <= _SHOWN else f"{url[:_SHOWN]}..."
        raise UsageError(f"{shown.partition('/')[0]!r} is no address of {what}.", advice=advice)


@contextmanager
def understood() -> Iterator[None]:
    """Turn an answer that is not shaped like GitHub's into an error of ours.

    Raises:
      ForgeError: something is missing, or is of another kind.
    """
    try:
        yield
    except (LookupError, TypeError, AttributeError) as error:
        raise ForgeError("the answer is none of GitHub's.", advice="Is the API's address right?") from error


@cache
def trust() -> ssl.SSLContext:
    """Return whom we believe to be who they say; reading the list takes longer than a request."""
    import httpx

    return httpx.create_ssl_context()


def asked_pause(answer: httpx.Response, now: float) -> float | None:
    """Return the seconds after which to try again, ``None`` where that would change nothing."""
    after, left, reset = (answer.headers.get(name, "") for name in _LIMITS)
    asked_s = float(after) if _SECONDS.fullmatch(after) else None
    if answer.status_code in _AWAY:
        return asked_s or 0.0
    if answer.status_code not in {403, 429}:
        return None
    if asked_s is not None:
        return asked_s
    if left == "0" and _SECONDS.fullmatch(reset):
        return max(0.0, float(reset) - now)
    is_limit = answer.status_code == 429 or "rate limit" in _told(answer).lower()
    return _SECONDARY_S if is_limit else None


def _bounded(client: httpx.Client, place: str, most: int) -> httpx.Response:
    """Return an answer that is read no further than ``most`` bytes."""
    import httpx

    with client.stream("GET", place) as answer:
        parts, size = [], 0
        for part in answer.iter_bytes():
            size += len(part)
            if size > most:
                raise RecordError(f"the artifact is larger than {most:,} bytes.", advice="Upload the record alone.")
            parts.append(part)
        return httpx.Response(answer.status_code, content=b"".join(parts))


def _told(answer: httpx.Response) -> str:
    """Return status and message of an answer in one line."""
    try:
        found = answer.json()
    except ValueError:
        found = None
    message = found.get("message") if isinstance(found, dict) else None
    return f"{answer.status_code} {' '.join(str(message or answer.reason_phrase).split())[:300]}".strip().rstrip(".")


def _refused(what: str, answer: httpx.Response) -> ForgeError:
    advice = _ADVICE.get(answer.status_code, "")
    return ForgeError(f"{what}: {_told(answer)}.", advice=advice, status=answer.status_code)
