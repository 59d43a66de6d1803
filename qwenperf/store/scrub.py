"""Takes secrets out of a record before it leaves the machine: by names of fields and variables, and by their look."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

REMOVED = "[removed]"

_NAMES = re.compile(
    r"token|secret|passw|passphrase|credential|authori[sz]ation|cookie|(?:api|access|private|auth|signing)[_-]?key"
    r"|(?:^|_)key$|(?:^|_)pat$",
    re.IGNORECASE,
)
"""Fields of an environment whose value nobody else needs to see."""

_VARIABLE = re.compile(r"\b([A-Z][A-Z0-9_]*(?:TOKEN|SECRET|PASSW|KEY|CREDENTIAL)[A-Z0-9_]*)=(\"[^\"]*\"|'[^']*'|\S+)")

_LOOKS = re.compile(
    r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{20,}|hf_[A-Za-z0-9]{20,}"
    r"|qpf_[A-Za-z0-9_-]{16,}|sk-[A-Za-z0-9_-]{20,}|xox[abeprs]-[A-Za-z0-9-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16}"
    r"|ya29\.[A-Za-z0-9_-]{20,}|AIza[A-Za-z0-9_-]{30,}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{40,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)

_IN_ADDRESS = re.compile(r"(\b[a-z][a-z0-9+.-]*://)(?:[^\s/@:]*:[^\s/@]+|(?!git@)[^\s/@:?#]+)@")
_BEARER = re.compile(r"\b((?:Bearer|Basic)\s+)[A-Za-z0-9._~+/=-]{12,}")

_OPTION = re.compile(
    r"(--?(?:(?:api|auth|access|hf|hub|github|gitlab|bearer)[_-]?)?(?:token|key|secret|passw(?:or)?d))(=\S+)?",
    re.IGNORECASE,
)
"""Of a command line in a list; ``--new-tokens`` is none."""

_WHERE_NAMES_COUNT = ("environment", "env", "environ", "env_vars")
"""Only there is a field with such a name a secret: elsewhere tokens are what a model reads and writes."""

_FOREIGN = ("source", "params")
"""Where asv keeps the environment of a run of its own: a field below another."""


def scrub(document: Any) -> tuple[Any, int]:
    """Return JSON data without secrets, and how many places were changed."""
    counted = _Counted()
    return counted.clean(document, named=False), counted.removed


class _Counted:
    def __init__(self) -> None:
        self.removed = 0

    def clean(self, data: Any, *, named: bool, below: str = "") -> Any:
        if isinstance(data, Mapping):
            return {key: self._entry(key, value, named=named, below=below) for key, value in data.items()}
        if isinstance(data, list):
            return self._words([self.clean(value, named=named) for value in data])
        return self._text(data) if isinstance(data, str) else data

    def _words(self, data: list[Any]) -> list[Any]:
        """Take what follows an option for secrets out of a command line."""
        clean = [*data]
        for place, word in enumerate(data):
            option = _OPTION.fullmatch(word) if isinstance(word, str) else None
            if option is None:
                continue
            at = place if option[2] else place + 1
            if at < len(data) and isinstance(data[at], str):
                clean[at] = f"{option[1]}={REMOVED}" if option[2] else REMOVED
                self.removed += clean[at] != data[at]
        return clean

    def _entry(self, key: str, value: Any, *, named: bool, below: str) -> Any:
        if named and value and isinstance(value, str | list | dict) and _NAMES.search(key):
            self.removed += 1
            return REMOVED
        named = named or key.lower() in _WHERE_NAMES_COUNT or (below, key) == _FOREIGN
        return self.clean(value, named=named, below=key)

    def _text(self, text: str) -> str:
        if len(text) < 8:
            return text
        clean = _VARIABLE.sub(rf"\1={REMOVED}", text)
        clean = _LOOKS.sub(REMOVED, clean)
        clean = _IN_ADDRESS.sub(rf"\1{REMOVED}@", clean)
        clean = _BEARER.sub(rf"\1{REMOVED}", clean)
        self.removed += clean != text
        return clean
