"""``qwenperf db``: the service's database: bring it to this version, back it up, restore it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qwenperf import units
from qwenperf.cli.output import debug_option, json_option, write_json, write_lines
from qwenperf.cli.service_options import make_folder, service_extra, service_options
from qwenperf.errors import UsageError

if TYPE_CHECKING:
    from qwenperf.service.settings import ServiceSettings


@click.group("db")
def command() -> None:
    """Bring the service's database to this version, back it up, restore it, or get in again."""


@command.command("upgrade")
@service_options
@json_option
@debug_option
def upgrade_command(as_json: bool, **options: Any) -> int:  # noqa: FBT001
    """Make the tables that this version needs, all or none. Every record is kept."""
    settings = _settings(options)
    from qwenperf.service.db.upgrade import upgrade

    # Whoever mistypes a name gets no empty service; a folder that was made for one may be empty.
    if settings.database or not settings.data.is_dir():
        _see_that_it_is_there(settings)
    if not settings.database:
        make_folder(settings.data)
    before, after = upgrade(settings.database_url)
    if as_json:
        write_json({"before": before, "after": after})
    else:
        write_lines([f"at version {after} already" if before == after else f"from {before or 'nothing'} to {after}"])
    return 0


@command.command("backup")
@click.argument("folder", type=click.Path(path_type=Path))
@service_options
@click.option("--without-files", is_flag=True, help="Leave traces and other files out.")
@json_option
@debug_option
def backup_command(folder: Path, without_files: bool, as_json: bool, **options: Any) -> int:  # noqa: FBT001
    """Write a backup to FOLDER, which must be new: one moment of the service, while it runs.

    It is a folder with SQLite, whatever the original was on. `qwenperf serve --data FOLDER` shows it and changes
    nothing there; `qwenperf db restore FOLDER` makes a service of it again.
    """
    settings = _settings(options)
    _see_that_it_is_there(settings)
    from qwenperf.service.backup import backup

    _tell("backed up to", folder, backup(settings, folder, with_files=not without_files), as_json=as_json)
    return 0


@command.command("restore")
@click.argument("folder", type=click.Path(path_type=Path))
@service_options
@json_option
@debug_option
def restore_command(folder: Path, as_json: bool, **options: Any) -> int:  # noqa: FBT001
    """Restore the backup in FOLDER into a service that has no data yet, on SQLite or PostgreSQL."""
    settings = _settings(options)
    from qwenperf.service.backup import restore

    _tell("restored", folder, restore(settings, folder), as_json=as_json)
    return 0


@command.command("token")
@click.argument("name")
@service_options
@json_option
@debug_option
def token_command(name: str, as_json: bool, **options: Any) -> int:  # noqa: FBT001
    """Make another admin token, called NAME, for whoever lost the first. It is shown this once."""
    settings = _settings(options)
    _see_that_it_is_there(settings)
    from qwenperf.service.app import make_service
    from qwenperf.service.auth import new_admin_token

    service = make_service(settings)
    try:
        token = new_admin_token(service, name)
    finally:
        service.database.close()
    if as_json:
        write_json({"name": name, "token": token})
    else:
        write_lines([token])
    return 0


def _settings(options: dict[str, Any]) -> ServiceSettings:
    service_extra()
    from qwenperf.service.settings import ServiceSettings

    return ServiceSettings(**{name: options[name] for name in ("data", "database", "files")})


def _see_that_it_is_there(settings: ServiceSettings) -> None:
    """See that a service on SQLite has its file: opening one would make it.

    Raises:
      UsageError: it has none.
    """
    from sqlalchemy.engine import make_url

    url = make_url(settings.database_url)
    if url.get_backend_name() == "sqlite" and url.database and not Path(url.database).is_file():
        advice = "Give its --data or --database; `qwenperf serve` makes a new one."
        raise UsageError(f"there is no service in {Path(url.database).parent}.", advice=advice)


def _tell(what: str, folder: Path, done: dict[str, int], *, as_json: bool) -> None:
    if as_json:
        write_json({"folder": str(folder), **done})
        return
    size = units.byte_count(done["file_bytes"])
    line = f"{what} {folder}: {done['rows']} rows, of them {done['runs']} runs; {done['files']} files, {size}"
    write_lines([line])
