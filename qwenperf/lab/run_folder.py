"""The folder of one run: its name, its layout, and writes that are whole or absent.

::

    profiles/<run id>/run.json                                  the record
                      cases/<session>.json                      one measured case each, before it is judged
                      logs/<session>.log                        what the case's process printed
                      plugins/profile/<session>/*.xplane.pb     traces; profiles/ is TensorBoard's logdir
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from qwenperf.errors import EnvironmentUnfitError, OutputError, QwenperfError

_NAME_LIMIT = 120
_CREATE_TRIES = 100


@dataclass(frozen=True, kw_only=True)
class RunFolder:
    """Paths of one run. ``create`` makes the folder; nothing else does."""

    path: Path

    @property
    def id(self) -> str:
        """The run's id."""
        return self.path.name

    @property
    def record(self) -> Path:
        """The record of the whole run."""
        return self.path / "run.json"

    def case(self, session: str) -> Path:
        """The record that the case's process writes."""
        return self.path / "cases" / f"{session}.json"

    def log(self, session: str) -> Path:
        """What the case's process printed."""
        return self.path / "logs" / f"{session}.log"


def create_run_folder(out: Path, now: datetime) -> RunFolder:
    """Create a new folder below ``out``; never one that exists.

    Raises:
      OutputError: ``out`` cannot be made or written to.
    """
    check_writable(out)
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        for _ in range(_CREATE_TRIES):
            folder = RunFolder(path=out / new_run_id(now))
            try:
                folder.path.mkdir()
            except FileExistsError:
                continue
            (folder.path / "cases").mkdir()
            (folder.path / "logs").mkdir()
            return folder
    raise OutputError(f"cannot find a free run id below {out}.")


def discard(folder: Path) -> None:
    """Remove a folder in which nothing was measured; what cannot be removed stays."""
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def discarded_if_unfit(record: Path) -> Iterator[None]:
    """Remove the folder of ``record`` where nothing can be measured here, or the block ends before that is written."""
    try:
        yield
    except (KeyboardInterrupt, QwenperfError) as error:
        if isinstance(error, EnvironmentUnfitError) or not record.exists():
            discard(record.parent)
        raise


def check_writable(out: Path) -> None:
    """Find out whether a run folder could be made below ``out``, leaving nothing behind.

    Raises:
      OutputError: it could not.
    """
    with writing(out):
        there = out
        while not there.exists() and there != there.parent:
            if there.is_symlink():
                raise FileNotFoundError(errno.ENOENT, f"{there} is a link to nothing")
            there = there.parent
        with tempfile.TemporaryDirectory(dir=there, prefix=".qwenperf-"):
            pass


def new_run_id(now: datetime) -> str:
    """Return a name that sorts by time and is new: ``20261127T220537Z-3fa9c1``."""
    return f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def session_name(case_id: str) -> str:
    """Return a case id as a file name; ids that differ get names that differ."""
    name = re.sub(r"[^A-Za-z0-9._-]", "-", case_id.replace("/", "__")).strip("-.") or "case"
    if name.replace("__", "/") == case_id and len(name) <= _NAME_LIMIT:
        return name
    return f"{name[:_NAME_LIMIT]}-{hashlib.sha256(case_id.encode()).hexdigest()[:8]}"


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all: a reader, or a crash, never sees half of it.

    Raises:
      OutputError: no space, no permission, or any other refusal of the system; names the file.
    """
    with writing(path):
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn the system's refusals into an ``OutputError`` that names ``path``."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}.") from error
