"""Where somebody's own engine, ``package.module:factory``, is looked for: the working folder too, as pytest does.

Measuring processes start without the working folder on Python's path, so that nothing which lies there replaces a
package. It is put there for those that import an engine of somebody's, behind whatever ``PYTHONPATH`` says.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from qwenperf.workloads.factory import is_factory

engine_here_option = click.option(
    "--no-engine-here",
    "engine_here",
    flag_value=False,
    default=True,
    help="Do not look for package.module of an engine in the working folder.",
)

_PATH = "PYTHONPATH"


@contextmanager
def engine_found_here(engines: Iterable[str], *, here: bool) -> Iterator[None]:
    """Let processes that are started within find a factory among ``engines`` in the working folder."""
    before = os.environ.get(_PATH)
    if here and any(map(is_factory, engines)):
        os.environ[_PATH] = os.pathsep.join([*filter(None, [before]), str(Path.cwd())])
    try:
        yield
    finally:
        os.environ.pop(_PATH, None)
        os.environ |= {} if before is None else {_PATH: before}
