"""Words on a page: where a long key may be broken, and what is code in a sentence. Everything is escaped. Pure."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

_CODE = re.compile(r"`([^`\n]+)`")


def breakable(text: object) -> Markup:
    """Return a key that a narrow column may break after an underscore, and nowhere inside its words."""
    return escape(text).replace("_", Markup("_<wbr>"))


def coded(text: object) -> Markup:
    """Return a sentence of ours for people, whose `commands` are code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704  (it is escaped)


FILTERS = {"breakable": breakable, "coded": coded}
