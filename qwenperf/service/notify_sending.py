"""Sends signed messages to addresses that admins of projects name: by https, and to nobody within this network.

A name is looked up once and the address that was checked is the one that is connected to, so that no name can point
elsewhere in between. Redirects are not followed, proxies and passwords of this machine are not used, and of an answer
nothing but its status is read.
"""

from __future__ import annotations

import ipaddress
import logging
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import anyio
import httpx

from qwenperf.errors import UsageError
from qwenperf.forge.api import trust
from qwenperf.forge.webhook import EVENT, ID, SIGNATURE, TIMESTAMP, signature

# At INFO it writes whole addresses, of which a part may be a secret.
logging.getLogger("httpx").setLevel(logging.WARNING)

MOST_CHARACTERS = 2000
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_LIMIT_S, _STEP_S = 20.0, 10.0
_LATER = frozenset({408, 425, 429})
_WRAPPED = tuple(ipaddress.ip_network(one) for one in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32"))
"""Addresses that have another inside, which a router may unwrap."""

_GIVEN_OUT = ipaddress.ip_network("2000::/3")
"""All that IANA has given out of IPv6 ("Internet Protocol Version 6 Address Space"); what Python takes for public
besides is reserved, or was once of one site."""

_PROTOCOLS = ipaddress.ip_network("192.0.0.0/24")
"""Of protocols (RFC 6890), not of hosts; not all of it is private to every Python."""


@dataclass(frozen=True, kw_only=True)
class Message:
    """A message to one address; ``name`` is the same for each try, ``sent_at`` in seconds since the epoch."""

    url: str = field(repr=False)
    secret: str = field(repr=False)
    event: str
    name: str
    body: bytes
    sent_at: int

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers that say what it is and prove whose."""
        at = str(self.sent_at)
        told = {"Content-Type": "application/json", "User-Agent": "qwenperf", EVENT: self.event, ID: self.name}
        return told | {TIMESTAMP: at, SIGNATURE: signature(self.secret, at, self.body)}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What became of a try: no ``problem`` where it was taken; ``final`` where another try would end alike."""

    problem: str = ""
    final: bool = False


def check_url(text: str, *, private_too: bool) -> httpx.URL:
    """Return an address that messages may go to, as far as its text tells.

    Raises:
      UsageError: it is none; the message repeats no more of it than its host.
    """
    try:
        url = httpx.URL(text) if len(text) <= MOST_CHARACTERS and text.isprintable() else httpx.URL()
    except (httpx.InvalidURL, ValueError):
        url = httpx.URL()
    host = url.raw_host.decode("ascii", "replace")
    if not host or url.scheme not in {"https", "http"}:
        raise UsageError("the webhook's address is none of the web.", advice="Give https://HOST/PATH.")
    if url.scheme == "http" and not private_too:
        raise UsageError("the webhook's address is not encrypted.", advice="Give https://HOST/PATH.")
    if url.userinfo:
        raise UsageError("the webhook's address has a user or password.", advice="Messages are signed: leave it out.")
    try:
        literal = ipaddress.ip_address(host)
    except ValueError:
        if _NAME.fullmatch(host) is None:
            raise UsageError("the webhook's address has no host's name.", advice="Give https://HOST/PATH.") from None
        return url
    if not (private_too or is_public(str(literal))):
        advice = "The operator can allow private ones."
        raise UsageError(f"{literal} is no address of the open internet.", advice=advice)
    return url


def is_public(address: str) -> bool:
    """Say whether an IP address is one of the open internet, and not one that hides another."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        return ip.is_global and ip in _GIVEN_OUT and not any(ip in one for one in _WRAPPED)
    return ip.is_global and not ip.is_multicast and ip not in _PROTOCOLS


def shown(url: str) -> str:
    """Return an address without its path and query, which may be a secret."""
    try:
        parts = httpx.URL(url)
    except (httpx.InvalidURL, ValueError):
        return ""
    return f"{parts.scheme}://{parts.netloc.decode('ascii', 'replace').rpartition('@')[2]}"


def send_all(messages: Sequence[Message], *, private_too: bool) -> list[Answer]:
    """Send messages side by side and return what became of each, after 20 s at most."""
    return anyio.run(_send_all, messages, private_too)


async def _send_all(messages: Sequence[Message], private_too: bool) -> list[Answer]:  # noqa: FBT001  (anyio passes by place)
    answers = [Answer(problem="no answer in time")] * len(messages)

    async def one(place: int, message: Message) -> None:
        with anyio.move_on_after(_LIMIT_S):
            answers[place] = await _send(message, private_too=private_too)

    async with anyio.create_task_group() as group:
        for place, message in enumerate(messages):
            group.start_soon(one, place, message)
    return answers


async def _send(message: Message, *, private_too: bool) -> Answer:
    try:
        url = check_url(message.url, private_too=private_too)
        host = url.raw_host.decode("ascii")
        address = await _looked_up(host, url.port or (443 if url.scheme == "https" else 80))
    except UsageError as error:
        return Answer(problem=error.message.rstrip("."), final=True)
    except (OSError, UnicodeError):
        return Answer(problem="its host has no address")
    if not (private_too or all(map(is_public, address))):
        return Answer(problem="its host is within a private network", final=True)
    try:
        return await _post(message, url, host, address[0])
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, OSError) as error:
        # Its words may repeat what only the receiver should see.
        return Answer(problem=f"no connection or no answer ({type(error).__name__})")


async def _looked_up(host: str, port: int) -> list[str]:
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(one[4][0]) for one in found]


async def _post(message: Message, url: httpx.URL, host: str, address: str) -> Answer:
    headers = {**message.headers, "Host": url.netloc.decode("ascii")}
    async with (
        httpx.AsyncClient(verify=trust(), timeout=_STEP_S, trust_env=False) as client,
        # The certificate is that of the name, whatever address is connected to.
        client.stream(
            "POST", url.copy_with(host=address), content=message.body, headers=headers,
            extensions={"sni_hostname": host},
        ) as answer,
    ):  # fmt: skip
        if answer.is_success:
            return Answer()
        later = answer.status_code >= 500 or answer.status_code in _LATER
        return Answer(problem=f"the receiver answered {answer.status_code}", final=not later)
