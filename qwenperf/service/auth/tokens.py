"""Tokens as text and as hash: ``qpf_ID_SECRET``. Pure; where they are kept is ``storage``'s business.

The id finds the row, the secret proves the holder. A secret has 256 random bits, so that one round of SHA-256 is as
good as a slow hash: there is nothing to guess from a dictionary, and checking must not cost a request its time.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from enum import StrEnum

PREFIX = "qpf_"
_SHAPE = re.compile(r"(qpf_[0-9a-f]{12})_([A-Za-z0-9_-]{43})")


class Scope(StrEnum):
    """What a token may do; each scope contains the ones before it."""

    READ = "read"
    PUSH = "push"
    ADMIN = "admin"

    @property
    def held(self) -> frozenset[str]:
        """This scope and all that it contains."""
        order = list(Scope)
        return frozenset(str(one) for one in order[: order.index(self) + 1])


@dataclass(frozen=True, kw_only=True)
class Minted:
    """A new token. ``text`` is shown once and kept nowhere; the database holds ``prefix`` and ``hash``."""

    prefix: str
    hash: str
    text: str = field(repr=False)


def mint() -> Minted:
    """Return a token that nobody has seen."""
    number, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    return Minted(prefix=f"{PREFIX}{number}", hash=digest(secret), text=f"{PREFIX}{number}_{secret}")


def split(text: str) -> tuple[str, str] | None:
    """Return prefix and secret of a token, or ``None`` where the text is none."""
    found = _SHAPE.fullmatch(text)
    return (found[1], found[2]) if found else None


def digest(secret: str) -> str:
    """Return the hash under which a secret is kept."""
    return hashlib.sha256(secret.encode()).hexdigest()


def matches(secret: str, kept: str) -> bool:
    """Return whether ``secret`` has the hash ``kept``, in a time that does not tell how much of it agrees."""
    return hmac.compare_digest(digest(secret), kept)
