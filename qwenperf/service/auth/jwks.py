"""The keys of an issuer of identity tokens: fetched over HTTP, kept for an hour, asked for again when a key is new."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import httpx
import jwt

_FRESH_S = 3600.0
"""Keys are asked for again after this time; GitHub changes its own every few weeks."""

_USABLE_S = 24 * 3600.0
"""Keys of an issuer that does not answer are good for so long."""

_AGAIN_S = 30.0
"""A key that is not among those known makes us ask at most so often: strangers choose the key's name."""

_MOST_BYTES = 256 * 1024
Fetch = Callable[[str], Mapping[str, Any]]


class KeysUnavailableError(Exception):
    """The issuer's keys could not be had: it did not answer, or not as an issuer does."""


@cache
def _client() -> httpx.Client:
    return httpx.Client(timeout=5.0, follow_redirects=False, headers={"Accept": "application/json"})


def fetch_json(url: str) -> Mapping[str, Any]:
    """Return the JSON object at ``url``; redirects are not followed.

    Raises:
      KeysUnavailableError: no answer within 5 s, too large a one, or none that is an object.
    """
    try:
        with _client().stream("GET", url) as response:
            response.raise_for_status()
            body = bytearray()
            for chunk in response.iter_bytes():
                body += chunk
                if len(body) > _MOST_BYTES:
                    raise KeysUnavailableError(f"{url} answered with more than {_MOST_BYTES} bytes")
        data = json.loads(body)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise KeysUnavailableError(f"{url}: {error}") from error
    if not isinstance(data, dict):
        raise KeysUnavailableError(f"{url} answered with no JSON object")
    return data


@dataclass
class _Known:
    keys: dict[str, jwt.PyJWK] = field(default_factory=dict)
    fetched_at: float = float("-inf")
    tried_at: float = float("-inf")


class Jwks:
    """The keys of one issuer, by their id. ``fetch`` and ``clock`` are passed in."""

    def __init__(self, issuer: str, url: str, *, clock: Callable[[], float], fetch: Fetch = fetch_json) -> None:
        self._issuer, self._url, self._clock, self._fetch = issuer, url, clock, fetch
        self._known = _Known()
        self._lock = threading.Lock()

    def key(self, key_id: str) -> jwt.PyJWK | None:
        """Return the key with this id, or ``None`` where the issuer has none.

        Raises:
          KeysUnavailableError: the issuer does not answer and its last keys are too old.
        """
        with self._lock:
            now = self._clock()
            stale = now - self._known.fetched_at > _FRESH_S
            if (stale or key_id not in self._known.keys) and now - self._known.tried_at > _AGAIN_S:
                self._refresh(now)
            if now - self._known.fetched_at > _USABLE_S:
                raise KeysUnavailableError(f"the keys of {self._issuer} are not known yet; try again in a minute")
            return self._known.keys.get(key_id)

    def _refresh(self, now: float) -> None:
        self._known.tried_at = now
        try:
            found = self._fetch(self._url or self._discovered())
        except KeysUnavailableError:
            if now - self._known.fetched_at > _USABLE_S:
                raise
            return
        self._known.keys, self._known.fetched_at = _usable(found), now

    def _discovered(self) -> str:
        """Return the address of the keys, as the issuer's own discovery document names it."""
        where = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
        found = self._fetch(where)
        url = found.get("jwks_uri")
        if found.get("issuer") != self._issuer or not isinstance(url, str):
            raise KeysUnavailableError(f"{where} is not the document of {self._issuer}")
        if self._issuer.startswith("https://") and not url.startswith("https://"):
            raise KeysUnavailableError(f"{where} names keys that are not served over https")
        return url


def _usable(found: Mapping[str, Any]) -> dict[str, jwt.PyJWK]:
    """Return the asymmetric signing keys by id; a key that cannot be read is left out, not an error for the others."""
    keys: dict[str, jwt.PyJWK] = {}
    listed = found.get("keys")
    for one in listed if isinstance(listed, list) else []:
        if not isinstance(one, dict) or one.get("kty") not in {"RSA", "EC"} or one.get("use", "sig") != "sig":
            continue
        try:
            keys[str(one.get("kid", ""))] = jwt.PyJWK(one)
        except jwt.PyJWTError:
            continue
    return keys
