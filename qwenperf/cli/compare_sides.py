"""From the flags of ``qwenperf compare`` to the two sides that it measures."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qwenperf.cli.streams import say
from qwenperf.errors import UsageError
from qwenperf.gate.excuses import TRAILER, from_trailers

if TYPE_CHECKING:
    from qwenperf.lab.sides import Side


def make_sides(base: str | None, head: str, flags: dict[str, Any]) -> tuple[Side, Side]:
    """Return base and head; acceptances in the commits between two revisions are added to ``flags["excuses"]``.

    Raises:
      UsageError: flags that exclude each other, or a revision that is none.
    """
    from qwenperf.lab.revisions import WORKING_TREE, Repository, own_code
    from qwenperf.lab.sides import Side
    from qwenperf.lab.version_sides import Version, code_alone, version_side

    if sum(map(bool, (base, flags["engines"], flags["aa"], flags["jax"]))) > 1:
        raise UsageError("revisions, --engines, --jax and --aa exclude each other.")
    if flags["jax"]:
        say(f"making or finding environments with jax {' and '.join(flags['jax'])}")
        old, new = (Version(jax=version) for version in flags["jax"])
        code = code_alone(package_root())
        return version_side("base", code, old, tpu=False), version_side("head", code, new, tpu=False)
    if flags["engines"] or flags["aa"]:
        here = Side(name="base", label="this code", kind="same", root=own_code(package_root()), python=sys.executable)
        labels = flags["engines"] or (None, None)
        first, second = (replace(here, engine=_checked(engine), label=engine or here.label) for engine in labels)
        return first, replace(second, name="head")
    repository = Repository.find(Path.cwd())
    start = base or repository.merge_base()
    say(f"comparing with {base or 'where this was forked from the main branch'}")
    if start != WORKING_TREE:
        flags["excuses"] += from_trailers(repository.trailers(start, TRAILER, head or WORKING_TREE))
    return repository.side("base", start), repository.side("head", head or WORKING_TREE)


def package_root() -> Path:
    """Return the folder that this package was imported from."""
    import qwenperf

    return Path(qwenperf.__file__).resolve().parent.parent


def _checked(engine: str | None) -> str | None:
    """Return an engine that a side can measure: one whose settings are not its process's.

    Raises:
      UsageError: it asks for XLA flags, or for programs that an earlier process left.
    """
    from qwenperf.cli.select import check_engine
    from qwenperf.lab.process import needs_first_process
    from qwenperf.workloads.engine import parse_engine
    from qwenperf.workloads.factory import is_factory

    if engine is None or is_factory(check_engine(engine)):
        return engine
    settings = parse_engine(engine)
    if needs_first_process(settings) or settings.xla_flags != "none":
        raise UsageError(
            f"{engine} asks for another process (start=saved, compile_cache or xla_flags), which pairs do not have.",
            advice="Measure it with `qwenperf run`.",
        )
    return engine
