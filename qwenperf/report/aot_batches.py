"""How a program's estimate changes with the batch, as people read it: a table a program; all of it is an *estimate*."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from qwenperf import units
from qwenperf.schema.analysis import AotCase, SweepPoint

_COLUMNS = ("batch", "~time", "~tok/s", "~MFU", "~MBU", "~bound", "~fits")
_FITS = {True: "yes", False: "no", None: "-"}


def batches_report(case: AotCase) -> Iterator[RenderableType]:
    """Yield the sweep over the batch of one program and what it takes for granted; nothing of one that has none."""
    if case.estimate is None or not case.estimate.sweep:
        return
    yield Text(f"\n{case.id}", style="bold")
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for name in _COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    for point in case.estimate.sweep:
        table.add_row(*_cells(point))
    yield table
    yield from (Text(f"  ~ {assumption}", style="dim") for assumption in case.estimate.assumptions)


def _cells(point: SweepPoint) -> Iterator[str]:
    yield f"{point.batch:,}"
    yield units.seconds(point.seconds)
    yield units.significant(point.tokens_per_s)
    yield from (f"{share:.1%}" for share in (point.mfu, point.mbu))
    yield point.bound
    yield _FITS[point.fits]
