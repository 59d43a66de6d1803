"""Where the folders of a store lie: what is asked of a place, and which driver answers for a URL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from qwenperf.errors import QwenperfError, StoreError, nearest_advice

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem  # type: ignore[import-untyped]

LIST = "list the store"


class Place(Protocol):
    """Folders of runs, each with a record that is written last: a folder without one is no run yet.

    ``shared``: other processes see it too.
    """

    url: str
    shared: bool

    @property
    def key(self) -> str:
        """The place, written in one way."""
        ...

    def listing(self) -> Mapping[str, str]:
        """Return the folders that may be runs, and a stamp of each that changes when its record does."""
        ...

    def records(self, folders: Sequence[str]) -> Iterator[tuple[str, bytes | str | None]]:
        """Yield each folder's record; ``None`` where it has none, and the reason where it cannot be read."""
        ...

    def put(self, folder: str, data: bytes, files: Mapping[str, Path]) -> None:
        """Make a folder of a record and files, whole or not at all.

        Raises:
          FileExistsError: it is there already.
        """
        ...

    def complete(self, folder: str, files: Mapping[str, Path]) -> int:
        """Add the files that a folder lacks, and return how many."""
        ...

    def note(self, name: str) -> bytes | None:
        """Return a file beside the folders."""
        ...

    def write_note(self, name: str, data: bytes) -> None:
        """Write a file beside the folders, whole or not at all."""
        ...

    def unfinished(self) -> Sequence[str]:
        """Name what writers that were killed have left."""
        ...

    def remove_unfinished(self, name: str) -> None:
        """Remove one of these."""
        ...


def open_place(url: str) -> Place:
    """Return the place at ``url``: a path, or any URL of which fsspec knows a driver.

    Raises:
      StoreError: no such kind of URL, or its driver is not installed; names the package.
    """
    from qwenperf.store.local_place import LocalPlace
    from qwenperf.store.object_place import ObjectPlace

    scheme, mark, rest = url.partition("://")
    scheme = scheme.lower() if mark else scheme
    if not mark or scheme in {"file", "local"}:
        return LocalPlace(_folder(rest if mark else url))
    url = f"{scheme}://{rest}"
    filesystem, path = _driver(url, scheme)
    return ObjectPlace(filesystem, path, url.rstrip("/"), scheme)


def _folder(path: str) -> Path:
    """Return the folder that a path means.

    Raises:
      StoreError: it means none that can be a store.
    """
    if not path:
        raise StoreError("the name of the store is empty.", advice="Give a folder or a URL.")
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):/", path)
    if scheme is not None:
        raise StoreError(f"{path} is no URL.", advice=f"Write {scheme[1]}://, or ./{path} for a folder of this name.")
    try:
        path.encode()
        return Path(path).expanduser()
    except UnicodeEncodeError:
        raise StoreError(f"the store's name {path!a} is not UTF-8.", advice="Rename the folder.") from None
    except RuntimeError as error:
        raise StoreError(f"cannot find {path}: {error}") from error


def _driver(url: str, scheme: str) -> tuple[AbstractFileSystem, str]:
    import fsspec
    from fsspec.registry import known_implementations, registry  # type: ignore[import-untyped]

    schemes = (*known_implementations, *registry)
    if scheme.rsplit("::", maxsplit=1)[-1] not in schemes:
        advice = nearest_advice(scheme, schemes)
        raise StoreError(f"{url}: no driver knows URLs of the kind {scheme}://.", advice=advice)
    try:
        filesystem, path = fsspec.url_to_fs(url, use_listings_cache=False)
    except ImportError as error:
        package = str(known_implementations.get(scheme, {}).get("class", "")).partition(".")[0]
        named = f"Install {package} beside qwenperf." if package and package != "fsspec" else ""
        reason = str(error).rstrip(".")
        raise StoreError(f"{url}: the driver of {scheme}:// is not here: {reason}.", advice=named) from error
    except Exception as error:
        raise StoreError(f"{url}: the driver does not start: {said(error)}.") from error
    if not path.strip("/"):
        raise StoreError(f"{url} names no place at {scheme}://.", advice="Add a bucket, or a folder.")
    return filesystem, path.rstrip("/")


@contextmanager
def asking(url: str, doing: str) -> Iterator[None]:
    """Turn whatever a driver raises into an error that names the store; drivers have no error in common.

    Raises:
      StoreError: the driver refused, or could not.
    """
    try:
        yield
    except (QwenperfError, FileExistsError):
        raise
    except FileNotFoundError as error:
        advice = "`qwenperf store add` makes a store, and `qwenperf run` a folder that is one." if doing == LIST else ""
        raise StoreError(f"cannot {doing} {url}: there is no {error.filename or error}.", advice=advice) from error
    except Exception as error:
        raise StoreError(f"cannot {doing} {url}: {said(error)}.") from error


def said(error: BaseException) -> str:
    """Say in one line what a driver says."""
    text: Any = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split()).rstrip(".")
