"""What the service is told when it starts. It reads no file and no variable itself: the command hands everything in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from qwenperf.errors import ConfigError

DATABASE_FILE = "qwenperf.sqlite"
_SCHEMES = ("sqlite", "postgresql", "postgresql+psycopg", "postgres")


@dataclass(frozen=True, kw_only=True)
class ServiceSettings:
    """Where data lies and how much of it is taken.

    Attributes:
      data: folder of the service; holds the database and the files unless URLs say otherwise.
      database: URL of the database, or empty for SQLite in ``data``.
      files: fsspec URL of traces and other files, or empty for a folder in ``data``.
      files_options: options of that file system, such as an endpoint.
      public_url: address that people and badges use, or empty for the one it listens on.
      record_limit: bytes of a record (``run.json``) at most.
      file_limit: bytes of one file at most.
      quota_bytes: bytes of records, their rows and files in a project made without a quota of its own.
      upload_expires_s: seconds after which an upload that nobody goes on with is forgotten.
      pool_size: connections to the database at most, for each process.
      sweep_s: seconds between two rounds of retention and tidying up; 0 is never.
      judge: judge series when new points arrive.
      secure_cookies: cookies for encrypted connections only; also so where ``public_url`` is https.
      oidc_issuer: who signs the identity tokens of CI jobs.
      oidc_audience: the audience that those tokens name, or empty for ``public_url``.
      oidc_jwks_url: address of the issuer's keys, or empty for the one that the issuer publishes.
      oidc_token_s: seconds for which a job's push token is good.
      session_s: seconds for which a person stays signed in.
      rate_per_s: requests a second that one token may go on making.
      rate_burst: requests that one token may make at once.
      anonymous_per_s: requests a second that one address may go on making without a token.
      anonymous_burst: requests that such an address may make at once.
      viewers: XProf on traces, of so many runs at once in each process; 0 is never.
      private_webhooks: webhooks may go to this network's own addresses, and without encryption.
      github_api_url: GitHub's API, which linked projects are told of at.
      github_app_id: the GitHub App as which the service asks there, or empty.
      github_app_key: file with the private key of that app.
      github_token: a token instead of an app.
      trust_forwarded: ``X-Forwarded-For`` says who asks: only behind a proxy that sets it.
    """

    data: Path
    database: str = ""
    files: str = ""
    files_options: Mapping[str, Any] | None = None
    host: str = "127.0.0.1"
    port: int = 8765
    workers: int = 1
    public_url: str = ""
    record_limit: int = 64_000_000
    file_limit: int = 8_000_000_000
    quota_bytes: int = 50_000_000_000
    upload_expires_s: int = 24 * 3600
    pool_size: int = 16
    sweep_s: float = 60.0
    judge: bool = True
    secure_cookies: bool = False
    oidc_issuer: str = "https://token.actions.githubusercontent.com"
    oidc_audience: str = ""
    oidc_jwks_url: str = ""
    oidc_token_s: int = 900
    session_s: int = 12 * 3600
    rate_per_s: float = 200.0
    rate_burst: int = 1000
    anonymous_per_s: float = 20.0
    anonymous_burst: int = 200
    viewers: int = 2
    private_webhooks: bool = False
    github_api_url: str = "https://api.github.com"
    github_app_id: str = ""
    github_app_key: str = ""
    github_token: str = field(default="", repr=False)
    trust_forwarded: bool = False

    @property
    def database_url(self) -> str:
        """URL of the database as SQLAlchemy reads it.

        Raises:
          ConfigError: another kind of database.
        """
        if not self.database:
            return f"sqlite:///{self.data / DATABASE_FILE}"
        scheme, found, rest = self.database.partition("://")
        if not found or scheme not in _SCHEMES:
            seen = scheme if found else self.database
            raise ConfigError(
                f"the database is {seen!r}, which the service cannot use.",
                advice="Give sqlite:///FILE or postgresql://USER@HOST/NAME.",
            )
        return self.database if scheme in {"sqlite", "postgresql+psycopg"} else f"postgresql+psycopg://{rest}"

    @property
    def files_url(self) -> str:
        """The fsspec URL under which files are kept."""
        return self.files or (self.data / "files").absolute().as_uri()


def to_text(settings: ServiceSettings) -> str:
    """Write settings for the worker processes of one service."""
    return json.dumps(asdict(settings) | {"data": str(settings.data)})


def from_text(text: str) -> ServiceSettings:
    """Read what ``to_text`` wrote."""
    values = json.loads(text)
    return ServiceSettings(**values | {"data": Path(values["data"])})
