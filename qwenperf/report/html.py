"""A run or a comparison as one page of HTML that needs nothing else: no script, no network, no file beside it.

Whatever a record holds is escaped, and the page forbids itself everything but its own style: a hostile name of a case
stays a name. Pure: records in, text out; files and links are the caller's business.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from qwenperf.report.html_case import Href
from qwenperf.report.html_comparison import comparison_view
from qwenperf.report.html_run import run_view
from qwenperf.report.html_stream import HEIGHT, WIDTH
from qwenperf.report.html_words import FILTERS
from qwenperf.schema.comparison import ComparisonRecord
from qwenperf.schema.records import RunRecord

_CONTROL = re.compile(r"[^\n\r\t -~\xa0-\U0010ffff]|[\ud800-\udfff]")
"""Letters that no page may hold, and half characters, which no file can."""

NAME = "report.html"
"""What the page is called beside its record."""


def nowhere(path: str) -> str:  # noqa: ARG001  (an Href)
    """Link to nothing: the page stands alone."""
    return ""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the record lies: its folder as people type it, and how the page links to what lies in there."""

    folder: str = ""
    record: str = ""
    href: Href = nowhere


@dataclass(frozen=True, kw_only=True)
class Command:
    """A line to type, and what it does."""

    line: str
    does: str


def run_page(run: RunRecord, place: Place | None = None) -> str:
    """Return the page of a run."""
    where = place or Place()
    traced = any(case.trace for case in run.cases)
    return _page("run.html", run, where, view=run_view(run, where.href), commands=_commands(where, traced=traced))


def comparison_page(comparison: ComparisonRecord, place: Place | None = None) -> str:
    """Return the page of a comparison."""
    where = place or Place()
    traced = any(case.extra.get("traces") for case in comparison.cases)
    commands = (*_explaining(where), *_commands(where, traced=traced))
    return _page("comparison.html", comparison, where, view=comparison_view(comparison, where.href), commands=commands)


def _page(template: str, record: RunRecord | ComparisonRecord, place: Place, **known: Any) -> str:
    environment, style, policy = templates()
    page = environment.get_template(template)
    links = {name: place.href(name) for name in (place.record, "logs", "plugins/profile") if name}
    known |= {"style": style, "policy": policy, "chart": {"width": WIDTH, "height": HEIGHT}}
    return written(page.render(record=record, place=place, links=links, **known))


def written(page: str) -> str:
    """Return a page as a file can hold it."""
    return _CONTROL.sub("?", page) + "\n"


@functools.cache
def templates() -> tuple[Environment, Markup, str]:
    """Return the templates, the style sheet, and the policy that allows this one and nothing else."""
    environment = Environment(
        loader=PackageLoader("qwenperf.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= FILTERS
    style = environment.get_template("style.css").render()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    return environment, Markup(style), policy  # noqa: S704  (a file of ours, and nothing of a record)


def _explaining(place: Place) -> Iterator[Command]:
    if place.folder:
        yield Command(line=f"qwenperf explain {shlex.quote(place.folder)}", does="the verdicts in whole sentences")


def _commands(place: Place, *, traced: bool) -> tuple[Command, ...]:
    """Return how the traces are looked at, as lines to type; none without traces."""
    if not place.folder or not traced:
        return ()
    folder, logdir = (shlex.quote(str(path)) for path in (place.folder, PurePath(place.folder).parent))
    return (
        Command(line=f"qwenperf trace show {folder}", does="all operations of a token"),
        Command(line=f"qwenperf trace open {folder}", does="a viewer that is seen to work, on these traces"),
        Command(line=f"xprof --logdir {logdir}", does="XProf by hand; then choose the run"),
        Command(line=f"tensorboard --logdir {logdir}", does="TensorBoard with tensorboard-plugin-profile, tab Profile"),
    )
