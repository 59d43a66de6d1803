"""A project of a service, asked as a history: with the aliases of whoever asks, which the service does not know."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from qwenperf.errors import StoreError, UnknownNameError
from qwenperf.schema.series import Point, Series
from qwenperf.store.aliases import Aliases
from qwenperf.store.base import Problem, Store, Window

_ADDRESS = re.compile(r"(https?://[^?#]+?)/p/([^/?#]+)/?")
_ALL = Window()


def service_address(url: str) -> tuple[str, str] | None:
    """Return the service and the project that an address such as ``https://HOST/p/PROJECT`` means, if it means one."""
    found = _ADDRESS.fullmatch(url)
    return None if found is None else (found[1], found[2])


def open_service(url: str, token: str, aliases: Aliases) -> ServiceHistory | None:
    """Return the history at the address of a project; ``None`` where it is no such address."""
    address = service_address(url)
    if address is None:
        return None
    from qwenperf.store.http import Service
    from qwenperf.store.remote import RemoteStore

    return ServiceHistory(RemoteStore(Service(url=address[0], token=token), address[1]), aliases)


class ServiceHistory:
    """What ``qwenperf history`` asks of a store, asked of a service."""

    def __init__(self, store: Store, aliases: Aliases) -> None:
        self._store, self.aliases = store, aliases
        self._known: Mapping[str, Sequence[str]] | None = None

    @property
    def url(self) -> str:
        """Address of the project."""
        return self._store.url

    def cases(self) -> Mapping[str, Sequence[str]]:
        """Return the metrics of each case, by its present name."""
        found: dict[str, set[str]] = {}
        for case, metrics in self._there().items():
            found.setdefault(self.aliases.name(case), set()).update(metrics)
        return {case: sorted(metrics) for case, metrics in sorted(found.items())}

    def series(self, case: str, metric: str, window: Window = _ALL) -> Series:
        """Return one metric of one case over time, under all names that it has had; errors as ``Store.series``."""
        names = self.aliases.names(case)
        known = self._there()
        found = [self._store.series(name, metric, window) for name in names if metric in known.get(name, ())]
        if not found:
            if names[0] not in self.cases():
                raise UnknownNameError("case", names[0], self.cases())
            raise UnknownNameError(f"metric of {names[0]}", metric, self.cases()[names[0]])
        units = dict.fromkeys(one.unit for one in found if one.points)
        if len(units) > 1:
            raise StoreError(f"{metric} of {names[0]} is in {' and '.join(map(repr, units))} in {self.url}.")
        points = sorted((point for one in found for point in one.points), key=_order)
        if len({point.run for point in points}) < len(points):
            raise StoreError(f"one run has two of the cases that the aliases say are {names[0]}.")
        return replace(found[0], case=names[0], points=tuple(points if window.last is None else points[-window.last :]))

    def _there(self) -> Mapping[str, Sequence[str]]:
        """Return the cases as the service names them, asked once."""
        if self._known is None:
            self._known = self._store.cases()
        return self._known

    def committed(self, prefix: str) -> list[tuple[str, float]]:
        """Return the commits that begin so, and when each was made in seconds since 1970."""
        found: dict[str, float] = {}
        for run in self._store.runs():
            if run.committed_at and run.commit.startswith(prefix):
                found[run.commit] = min(run.at, found.get(run.commit, run.at))
        return list(found.items())

    def problems(self) -> list[Problem]:
        """Return nothing: a service takes in no run that it cannot read."""
        return []


def _order(point: Point) -> tuple[float, str]:
    at = point.extra.get("at", 0.0)
    return (at if isinstance(at, float) else 0.0), point.measured_at
