"""Takes secrets out of a record before it leaves the machine: by names of fields and variables, and by their look."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

REMOVED = "[removed]"

_NAMES = re.compile(
    r"token|secret|passw|passphrase|credential|authori[sz]ation|cookie|(?:api|access|private|auth|signing)[_-]?key"
    r"|(?:^|_)key$|(?:^|_)pat$|_pwd$|(?<!by)(?<!com)pass$|(?:^|_)auth(?:$|_config)",
    re.IGNORECASE,
)
"""Fields of an environment whose value nobody else needs to see; ``PWD`` is a folder."""

_NAMES_ANYWHERE = re.compile(r"(?:\w+_)?(?:api_key|password)", re.IGNORECASE)
"""Fields that are secrets wherever they are: SGLang tells all that a server was started with, its key among it."""

_NAMES_OF_NUMBERS = re.compile(r"(?:token|secret|passw(?:or)?d|_pwd|pass|(?:^|_)key|(?:^|_)pat)$", re.IGNORECASE)
"""Of those, where a number is one too: tokens in the plural are counted."""

_VARIABLE = re.compile(
    r"\b(?=[A-Z0-9_]*(?:TOKEN|SECRET|PASSW|KEY|CREDENTIAL|AUTH_CONFIG)|[A-Z0-9_]*(?:_PWD|(?<!BY)PASS|_PAT|_AUTH)=)"
    r"([A-Z][A-Z0-9_]*)=(\"[^\"]*\"|'[^']*'|\S+)"
)

_WORDS = r"(?:[a-z0-9]+[_-]){0,8}"
_NAMED = (
    rf"{_WORDS}(?:passw(?:or)?d|passphrase|secret)|{_WORDS}(?<=[_-])pwd|x-amz-(?:signature|credential|security-token)"
    rf"|{_WORDS}(?:api|auth|access|hf|hub|git(?:hub|lab)|bearer|refresh|private|session|id)[_-]?(?:token|(?<!id.)key)"
)
"""Names in any letters; ``token`` alone, ``eos_token`` and ``key`` are words of what is measured."""

_GIVEN = rf"(?!{re.escape(REMOVED)})(?:\"[^\"]+\"|'[^']+'|[^\s&;,'\")}}\]]+)"
_ASSIGNED = re.compile(rf"(?<![\w-])(-{{0,2}}(?:{_NAMED}|token(?==(?!\d+\b)[^\s&;,]{{6}})))={_GIVEN}", re.IGNORECASE)
_FOLLOWED = re.compile(rf"(?<!\S)(--?(?:{_NAMED}|token)\s+)(?!-){_GIVEN}", re.IGNORECASE)
_IN_JSON = re.compile(rf"(\"(?:{_NAMED}|auth)\"\s*:\s*)(?!\"{re.escape(REMOVED)})\"[^\"]+\"", re.IGNORECASE)
_OF_CURL = re.compile(r"(\bcurl\b[^\n]{0,200}?\s(?:-u|--user|--proxy-user)[ =]\s*['\"]?[^\s:'\"]+:)(?!\[)[^\s'\"]+")
_OF_NETRC = re.compile(r"(\blogin\s+\S+\s+password\s+)(?!\[)\S+")

_OF_HEADER = re.compile(
    r"\b((?:(?:(?:x-)?(?:[a-z]+-)?(?:api|access|auth)-(?:key|token)|(?:private|job|deploy)-token)\s*:"
    rf"|(?:proxy-)?authorization\s*:(?:\s*\w+(?=\s))?)\s*)(?!{re.escape(REMOVED)})[^\s'\"]{{6,}}",
    re.IGNORECASE,
)
_OF_COOKIE = re.compile(r"\b((?:Set-)?Cookie:\s+)(?!\[)[^\n'\"]+", re.IGNORECASE)
_OF_MYSQL = re.compile(r"(\b(?:mysql|mysqldump|mariadb)\b[^\n]{0,200}?\s-p)(?!\[)\S+")
_AFTER_COLON = re.compile(
    rf"(\b(?:{_WORDS}passw(?:or)?d|passphrase|(?:client|api)[_-]?(?:secret|key))\s*:\s+)(?!{re.escape(REMOVED)})[^\s'\",;]{{6,}}",
    re.IGNORECASE,
)
_AS_TOKEN = re.compile(
    r"(\btoken[\"']?\s*:\s*[\"']?)(?=[A-Za-z_.-]*\d)(?=[\d_.-]*[A-Za-z])[A-Za-z0-9_.-]{16,}", re.IGNORECASE
)
"""Long, with letters and digits: what a model reads and writes is not."""

_OF_AZURE = re.compile(r"\b((?:Account|SharedAccess)Key=|(?<=[?&])sig=)(?!\[)[^;&\s\"']+")
_OF_HOOK = re.compile(
    r"(\bhttps://(?:hooks\.slack\.com/[a-z]+|(?:\w+\.)?discord(?:app)?\.com/api/webhooks)/)(?!\[)[^\s\"']+"
)

_LOOKS = re.compile(
    r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|gl(?:pat|rt|dt|ft|soat|cbt|ptt)-[A-Za-z0-9_-]{20,}|hf_[A-Za-z0-9]{20,}"
    r"|qpf_[A-Za-z0-9_-]{16,}|sk-[A-Za-z0-9_-]{20,}|xox[abeprs]-[A-Za-z0-9-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16}"
    r"|ya29\.[A-Za-z0-9_-]{20,}|AIza[A-Za-z0-9_-]{30,}|xapp-[A-Za-z0-9-]{10,}|[rs]k_(?:live|test)_[A-Za-z0-9]{16,}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"
    r"|do[opr]_v1_[a-f0-9]{40,}|hv[bs]\.[A-Za-z0-9_-]{20,}|dapi[a-f0-9]{32}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{40,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)

_IN_ADDRESS = re.compile(
    r"((?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,40}://)(?:[^\s/@:]*:[^\s/]+|[^\s/@:]*:(?!\d+(?:[/?#]|$))[^\s@]{1,200}|(?!git@)[^\s/@:?#]+)@",
    re.IGNORECASE,
)
"""With a user, a password or both; also where a slash in the password makes it no address."""

_BEARER = re.compile(r"\b((?:Bearer|Basic)\s+)[A-Za-z0-9._~+/=-]{12,}")

_BEFORE = (
    _FOLLOWED, _OF_CURL, _OF_NETRC, _OF_MYSQL, _OF_COOKIE, _OF_HEADER, _AFTER_COLON, _AS_TOKEN, _OF_AZURE, _OF_HOOK,
)  # fmt: skip
"""What stands before a secret, and stays."""

_OPTION = re.compile(
    r"(--?(?:(?:api|auth|access|hf|hub|github|gitlab|bearer)[_-]?)?(?:token|key|secret|passw(?:or)?d))(=\S+)?",
    re.IGNORECASE,
)
"""Of a command line in a list; ``--new-tokens`` is none."""

_WHERE_NAMES_COUNT = re.compile(r"env(?:iron(?:ment)?)?(?:_?var(?:iable)?s)?", re.IGNORECASE)
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
        hidden = isinstance(value, str) and _NAMES_ANYWHERE.fullmatch(key) is not None
        if value and (hidden or (named and _is_secret(key, value))):
            self.removed += 1
            return REMOVED
        named = named or _WHERE_NAMES_COUNT.fullmatch(key) is not None or (below, key) == _FOREIGN
        return self.clean(value, named=named, below=key)

    def _text(self, text: str) -> str:
        if len(text) < 8:
            return text
        clean = _VARIABLE.sub(rf"\1={REMOVED}", text)
        clean = _ASSIGNED.sub(rf"\1={REMOVED}", clean)
        clean = _IN_JSON.sub(rf'\1"{REMOVED}"', clean)
        for before in _BEFORE:
            clean = before.sub(rf"\1{REMOVED}", clean)
        clean = _LOOKS.sub(REMOVED, clean)
        clean = _IN_ADDRESS.sub(rf"\1{REMOVED}@", clean)
        clean = _BEARER.sub(rf"\1{REMOVED}", clean)
        self.removed += clean != text
        return clean


def _is_secret(key: str, value: Any) -> bool:
    """Return whether a field of an environment is one that nobody else needs to see."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _NAMES_OF_NUMBERS.search(key) is not None
    return isinstance(value, str | list | dict) and _NAMES.search(key) is not None
