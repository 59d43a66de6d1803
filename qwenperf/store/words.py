"""What may be shown of an address and of what a stranger says: no password, and one line that steers no terminal."""

from __future__ import annotations

import re

_MOST = 500
_USER = re.compile(r"^((?:[a-z][a-z0-9+.-]*:)?//)?(?:[^/?#]*@|[^/?#@]*:(?!\d*(?:[/?#]|$))[^@]*@)", re.IGNORECASE)
"""User and password of an address; also where a slash in the password makes it none."""


def bare(url: str) -> str:
    """Return an address without user and password, and without the slash at its end."""
    return _USER.sub(r"\1", url).rstrip("/")


def one_line(text: str) -> str:
    """Return foreign words as one printable line, not too long."""
    shown = "".join(
        letter if letter.isprintable() else " " if letter.isspace() else "?" for letter in text[: 2 * _MOST]
    )
    joined = " ".join(shown.split())
    return joined if len(joined) <= _MOST else f"{joined[:_MOST]} ..."
