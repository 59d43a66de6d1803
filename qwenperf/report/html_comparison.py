"""A comparison as a page shows it: what was decided of all cases, and a section for each. Pure: the record in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from qwenperf.report.comparison import comparison_table
from qwenperf.report.html_blocks import Block, attempt, table
from qwenperf.report.html_case import FindingRow, Href, VerdictRow, finding_rows, verdict_rows
from qwenperf.report.html_compared import SIDES, ComparedView, compared_view, listed
from qwenperf.report.html_facts import Both, Fact, both, facts
from qwenperf.report.html_headline import Headline, comparison_headline
from qwenperf.report.html_run import about_commit, about_machine
from qwenperf.report.html_signs import Sign, of_compared
from qwenperf.schema.comparison import ComparedCase, ComparisonRecord, SideRecord
from qwenperf.schema.metrics import REGISTRY, MetricDefinition


@dataclass(frozen=True, kw_only=True)
class ComparisonView:
    """All that the page of a comparison shows."""

    headline: Headline
    about: tuple[Fact, ...]
    results: tuple[Block, ...]
    signs: Mapping[int, Sign]
    verdicts: tuple[VerdictRow, ...]
    new: tuple[str, ...]
    renamed: tuple[str, ...]
    broken: tuple[str, ...]
    findings: tuple[FindingRow, ...]
    cases: tuple[ComparedView, ...]
    environment: tuple[Both, ...]
    plan: tuple[Fact, ...]
    definitions: tuple[MetricDefinition, ...]


def comparison_view(comparison: ComparisonRecord, href: Href) -> ComparisonView:
    """Return what a page shows of ``comparison``."""
    numbered = [(case, f"case-{number}") for number, case in enumerate(comparison.cases, start=1)]
    known = {name for case in comparison.cases for side in (case.base, case.head) if side for name in side.metrics}
    return ComparisonView(
        headline=comparison_headline(comparison),
        about=tuple(_about(comparison)),
        results=attempt("the table", lambda: (_results(comparison, numbered),), lambda note: (note,)),
        signs={number: of_compared(case) for number, case in enumerate(comparison.cases)},
        verdicts=verdict_rows(comparison.verdicts),
        new=tuple(str(name) for name in listed(comparison.extra.get("new"))),
        renamed=tuple(_renamed(comparison)),
        broken=tuple(_broken(comparison)),
        findings=finding_rows(comparison.findings),
        cases=tuple(compared_view(comparison, case, anchor, href) for case, anchor in numbered),
        environment=both(comparison.base.environment, comparison.head.environment),
        plan=facts(comparison.plan),
        definitions=tuple(definition for name, definition in REGISTRY.items() if name in known),
    )


def _about(comparison: ComparisonRecord) -> Iterator[Fact]:
    yield Fact(name="measured", text=comparison.created_at)
    for name, side in zip(SIDES, (comparison.base, comparison.head), strict=True):
        yield Fact(name=name, text=", ".join(filter(None, (side.label, *_made_of(side)))))
    yield from about_machine(comparison.head.environment)


def _made_of(side: SideRecord) -> Iterator[str]:
    yield from (fact.text for fact in about_commit(side.commit))
    if side.extra.get("engine"):
        yield f"engine {side.extra['engine']}"


def _results(comparison: ComparisonRecord, numbered: Sequence[tuple[ComparedCase, str]]) -> Block:
    links = [f"#{anchor}" for _, anchor in numbered]
    seen = table(comparison_table(comparison), "head over base", links)
    # A terminal folds an id over two lines; a page does not need to.
    rows = tuple((case.id, *row[1:]) for (case, _), row in zip(numbered, seen.rows, strict=True))
    return replace(seen, rows=rows)


def _renamed(comparison: ComparisonRecord) -> Iterator[str]:
    told = comparison.extra.get("renamed")
    if isinstance(told, Mapping):
        yield from (f"{old} in base is {new} in head" for old, new in told.items())


def _broken(comparison: ComparisonRecord) -> Iterator[str]:
    for pair in comparison.pairs:
        if pair.failed:
            yield f"pair {pair.number} (stage {pair.stage}): {pair.failed}"
