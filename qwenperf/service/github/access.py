"""How the service asks GitHub: as an app or with a token, both from its settings, and never from the database."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from qwenperf.errors import ConfigError, EnvironmentUnfitError, QwenperfError, UsageError
from qwenperf.forge.api import ForgeError, GitHub, check_address, is_token, understood
from qwenperf.forge.app import as_app
from qwenperf.forge.target import Target
from qwenperf.service.settings import ServiceSettings

PATIENCE_S = 10.0
"""For one request: what takes longer is tried again later, so that other projects get their turn."""

_FRESH_S = 1800.0
"""For so long a token of an installation, which lives an hour, is used, and a repository's number believed."""

_NOBODY = "0" * 40


class WrongRepositoryError(QwenperfError):
    """The repository of a link is another one by now."""


class CredentialsError(QwenperfError):
    """The service's own credentials are of no use; an operator can mend that."""


@dataclass(kw_only=True)
class Access:
    """GitHub for the repositories of links, each under its own token; ``clock`` in seconds."""

    settings: ServiceSettings
    clock: Callable[[], float] = time.monotonic
    _known: dict[tuple[str, str], tuple[float, GitHub]] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def to(self, repository: str, number: str) -> GitHub:
        """Return GitHub as whoever may write to ``repository``, whose number is ``number``.

        Raises:
          ForgeError: GitHub does not answer, or lets nobody in.
          CredentialsError: the service has none, or its key cannot be read.
          WrongRepositoryError: the repository of this name has another number.
        """
        key = (repository.lower(), number)
        with self._lock:
            found = self._known.get(key)
        if found is not None and self.clock() - found[0] < _FRESH_S:
            return found[1]
        api = self._made(repository, number)
        with self._lock:
            self._known[key] = (self.clock(), api)
        return api

    def forget(self, repository: str, number: str) -> None:
        """Make a new token, and look at the repository, before the next request: this one was refused."""
        with self._lock:
            self._known.pop((repository.lower(), number), None)

    def _made(self, repository: str, number: str) -> GitHub:
        settings = self.settings
        if not has_credentials(settings):
            raise CredentialsError(
                "the service has no credentials for GitHub.", advice="Start it with an app or a token."
            )
        api = GitHub(url=settings.github_api_url, token=settings.github_token.strip(), patience_s=PATIENCE_S)
        target = Target(repository=repository, sha=_NOBODY)
        try:
            if settings.github_app_id:
                api = as_app(api, target, settings.github_app_id, _key(settings), repository_id=int(number))
            with understood():
                seen = str(api.ask("GET", target.path)["id"])
        except ForgeError as error:
            if error.status == 301:
                raise _wrong(repository, "it was renamed") from error
            raise
        except (UsageError, EnvironmentUnfitError) as error:
            raise CredentialsError(error.message, advice=error.advice) from error
        if seen != number:
            raise _wrong(repository, f"the one of this name has the id {seen}, and not {number}")
        return api


def _wrong(repository: str, why: str) -> WrongRepositoryError:
    return WrongRepositoryError(f"{repository} is not the repository that was linked: {why}.", advice="Link it again.")


def _key(settings: ServiceSettings) -> str:
    path = Path(settings.github_app_key)
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise UsageError(f"cannot read the app's private key {path}: {reason}.") from error


def check_credentials(settings: ServiceSettings) -> None:
    """Refuse to start with half of what it takes, or with a key that cannot be read.

    Raises:
      ConfigError: an app without its key, or a key without its app, or a token that is none.
      UsageError: the file of the key cannot be read, or the API's address is none.
    """
    if bool(settings.github_app_id) != bool(settings.github_app_key):
        lacks = "--github-app-key FILE" if settings.github_app_id else "--github-app-id ID"
        raise ConfigError("half of a GitHub App is not enough.", advice=f"Give {lacks}, too.")
    if settings.github_app_key:
        _key(settings)
    if not is_token(settings.github_token.strip()):
        raise ConfigError("the token for GitHub has a character that no token has.", advice="Was it copied whole?")
    check_address(settings.github_api_url, "an API", "GitHub's is https://api.github.com.")


def has_credentials(settings: ServiceSettings) -> bool:
    """Say whether the service can ask GitHub at all."""
    return bool(settings.github_token.strip() or settings.github_app_id)
