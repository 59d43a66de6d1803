"""Whether a glob is of programs that are compiled for a target, or of cases that are measured.

``<case>@<target>/<program>`` is a program, and a case may have an ``@`` as well: that of a revision of a model
(``owner/name@main/...``), or of a folder's name. What is behind the last one tells them apart.
"""

from __future__ import annotations

import re
from functools import cache

from qwenperf.program.chips import chip, known

MARK = "@"
_PLATFORMS = ("cpu", "cuda")
_ALSO = ("v5lite", "v5litepod", "v6", "v7")
_SIZED = re.compile(r"(?P<chips>.+?)[-:][\dx]*")
_LIKE_CHIPS = re.compile(r"(?:tpu-)?v\d+[a-z]*")
"""A chip that nobody knows, such as one that was mistyped, is told as a glob that matches nothing."""

_WILD = re.compile(r"[*?\[]")


def is_of_programs(pattern: str) -> bool:
    """Say whether a glob is of compiled programs: what is behind its last ``@`` can be a target."""
    _, mark, behind = pattern.rpartition(MARK)
    target, _, program = behind.partition("/")
    if not mark:
        return False
    if not target.strip("*?"):
        # A case goes on with an engine and a workload there, a program with its own name.
        return "/" not in program
    wild = _WILD.search(target)
    written = (target if wild is None else target[: wild.start()]).lower()
    sized = _SIZED.fullmatch(written)
    if sized and (sized["chips"] in _names() or _LIKE_CHIPS.fullmatch(sized["chips"])):
        return True
    return written in _whole_names() if wild is None else any(name.startswith(written) for name in _names())


@cache
def _names() -> tuple[str, ...]:
    """Return what names of targets begin with."""
    chips = [name for generation in known() for name in (generation, *chip(generation).aliases)]
    return (*_PLATFORMS, *chips, *(f"tpu-{name}" for name in chips), *_ALSO)


@cache
def _whole_names() -> tuple[str, ...]:
    """Return names that are targets, or that lack only their number; what ends in a digit may be any revision."""
    return tuple(name for name in _names() if not name[-1].isdigit())
