"""The options that say which service is meant: shared by ``serve`` and ``db``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from qwenperf.errors import OutputError, UsageError

Function = TypeVar("Function", bound=Callable[..., Any])

DATA = Path("qwenperf-service")

_DATABASE = "Database instead of SQLite in --data: postgresql://... ($QWENPERF_DATABASE)."
_FILES = "Where traces go instead of --data: any fsspec URL, such as s3://bucket/folder ($QWENPERF_FILES)."


def service_options(function: Function) -> Function:
    """Add ``--data``, ``--database`` and ``--files`` to a command."""
    options = (
        click.option(
            "--data", type=click.Path(path_type=Path), default=DATA, show_default=True, metavar="DIR",
            help="Folder of the service: database and files.",
        ),
        click.option("--database", envvar="QWENPERF_DATABASE", default="", metavar="URL", help=_DATABASE),
        click.option("--files", envvar="QWENPERF_FILES", default="", metavar="URL", help=_FILES),
    )  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


def service_extra() -> None:
    """See that what the service needs is installed.

    Raises:
      UsageError: it is not; says how to install it.
    """
    try:
        import alembic  # noqa: F401
        import sqlalchemy  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"the service needs {error.name}, which is not installed.", advice="pip install 'qwenperf[service]'."
        ) from error


def make_folder(folder: Path) -> None:
    """Make the folder of a service.

    Raises:
      OutputError: the system refuses.
    """
    try:
        # Private runs and hashes of tokens lie there.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make {folder}: {error.strerror or error}.", advice="Give another --data.") from error
