"""What a bisection is measured with, beside the commits: readings of before and after an upgrade say nothing together.

Commits whose lock is the checkout's, and all commits of somebody's own repository, are measured in the environment that
this package is installed in. A search takes hours, and may go on weeks later: what is installed is told at its
beginning, and has to be the same with every reading.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from qwenperf.aot.remembered import code_digest
from qwenperf.errors import EnvironmentUnfitError
from qwenperf.lab.revisions import LOCK
from qwenperf.schema.bisection import BisectionRecord

Found = Mapping[str, str]
"""Versions by name."""

KEY = "environment"
"""What ``extra`` of a bisection calls what is installed, and that of an answer its digest."""

_INSTALLERS = frozenset({"pip", "uv", "wheel"})
"""What puts packages there and measures nothing."""

_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class Unchanged:
    """What a search began with. ``found`` says what is there now."""

    began: Found
    found: Callable[[], Found]

    @property
    def key(self) -> str:
        """A short name of it, kept with each answer."""
        return hashlib.sha256(json.dumps(self.began, sort_keys=True).encode()).hexdigest()[:10]

    def check(self) -> None:
        """See that nothing has changed.

        Raises:
          EnvironmentUnfitError: names what has.
        """
        told = list(_differences(self.began, self.found()))
        if told:
            more = f" and {len(told) - _SHOWN} more" if len(told) > _SHOWN else ""
            raise EnvironmentUnfitError(
                f"the environment is another than when this search began: {', '.join(told[:_SHOWN])}{more}. Readings "
                "of before and after cannot be compared.",
                advice="Begin anew with --restart, or install again what was there.",
            )


def unchanged(record: BisectionRecord, found: Callable[[], Found]) -> tuple[BisectionRecord, Unchanged]:
    """Return ``record`` with what it is measured with, and the guard of that.

    What an older version began did not say it, and goes on with what is there.

    Raises:
      EnvironmentUnfitError: it began with something else.
    """
    known = record.extra.get(KEY)
    began = dict(known) if isinstance(known, Mapping) else dict(found())
    guard = Unchanged(began=began, found=found)
    guard.check()
    return replace(record, extra={**record.extra, KEY: began}), guard


def installed(checkout: Path, package: Path | None = None) -> dict[str, str]:
    """Return what measures commits of ``checkout``: Python, all packages, and the lock or our own code.

    ``package`` is the copy of ours that measures somebody's own repository; without one each commit has its own, and
    the checkout's lock decides on the environments.
    """
    found = {"python": platform.python_version(), "interpreter": str(Path(sys.executable).absolute())}
    if package is not None:
        found["code of qwenperf"] = code_digest(package / "qwenperf")[:10]
    lock = checkout / LOCK
    if package is None and lock.is_file():
        found[LOCK] = hashlib.sha256(lock.read_bytes()).hexdigest()[:10]
    for name, version in _packages(checkout.resolve()):
        found.setdefault(name, version)
    return found


def _packages(checkout: Path) -> Iterator[tuple[str, str]]:
    """Yield installed packages, the first of each name; not the checkout itself, whose commits are measured.

    By the names of their folders: every pair of processes asks, and reading what is in them takes far longer.
    """
    own = Path(sys.prefix).resolve()
    for place in [Path(entry).resolve() for entry in sys.path if entry]:
        if place.is_relative_to(checkout) and not place.is_relative_to(own):
            continue
        for folder in sorted(place.glob("*.dist-info")):
            stem, _, version = folder.stem.rpartition("-")
            name = stem.lower().replace("_", "-")
            if name not in _INSTALLERS and not _is_editable_of(folder, checkout):
                yield name, version


def _is_editable_of(folder: Path, checkout: Path) -> bool:
    """Say whether an installed package is the checkout itself."""
    with suppress(ValueError, AttributeError, OSError):
        told = json.loads((folder / "direct_url.json").read_text(encoding="utf-8"))
        place = Path(unquote(urlsplit(str(told.get("url", ""))).path)).resolve()
        return bool(told.get("dir_info", {}).get("editable")) and place.is_relative_to(checkout)
    return False


def _differences(before: Found, now: Found) -> Iterator[str]:
    """Yield what differs, JAX first."""
    for name in sorted({*before, *now}, key=lambda name: (name not in {"jax", "jaxlib", "libtpu", "python"}, name)):
        old, new = before.get(name), now.get(name)
        if old != new:
            yield f"{name} {old or 'was not there'} -> {new or 'is gone'}"
