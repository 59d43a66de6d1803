"""Keeps secrets out of logs: our tokens, bearer headers, cookies, JSON web tokens and passwords in addresses."""

from __future__ import annotations

import logging
import re

HIDDEN = "[hidden]"
_SECRETS = (
    (re.compile(r"qpf_([0-9a-f]{12})_[A-Za-z0-9_-]+"), rf"qpf_\1_{HIDDEN}"),
    (re.compile(r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"), HIDDEN),
    (re.compile(r"\b(gh[pousr]_|github_pat_)[A-Za-z0-9_]{20,}"), HIDDEN),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"), rf"\1 {HIDDEN}"),
    (re.compile(r"(?i)\b((?:set-)?cookie|x-csrf-token)(['\"]?\s*[:=]\s*)[^\r\n]+"), rf"\1\2{HIDDEN}"),
    (re.compile(r"(\w+://[^\s:/@]*):[^\s/@]+@"), rf"\1:{HIDDEN}@"),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)", re.DOTALL), HIDDEN),
)


def redact(text: str) -> str:
    """Return ``text`` without what opens a door. A token keeps its id, so that its row can be found."""
    for pattern, shown in _SECRETS:
        text = pattern.sub(shown, text)
    return text


class Redacting(logging.Formatter):
    """Formats as another formatter does, then hides secrets, those in tracebacks too."""

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        """Return the line to be written."""
        return redact(self._inner.format(record))


def install(logger: logging.Logger | None = None) -> None:
    """Make every handler of ``logger``, of uvicorn's and of last resort hide secrets; safe to call again."""
    loggers = [logger or logging.getLogger(), *map(logging.getLogger, ("uvicorn", "uvicorn.error", "uvicorn.access"))]
    handlers = [one for each in loggers for one in each.handlers]
    for handler in (*handlers, *filter(None, (logging.lastResort,))):
        if not isinstance(handler.formatter, Redacting):
            handler.setFormatter(Redacting(handler.formatter or logging.Formatter()))
