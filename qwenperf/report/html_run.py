"""A run as a page shows it, by what a terminal shows of it. Pure: the record in, blocks, rows and texts out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from qwenperf.report.claims import claims_report
from qwenperf.report.html_blocks import Block, Note, attempt, attempted, table
from qwenperf.report.html_case import CaseView, FindingRow, Href, VerdictRow, case_view, finding_rows, verdict_rows
from qwenperf.report.html_facts import Fact, facts
from qwenperf.report.html_headline import Headline, run_headline
from qwenperf.report.html_signs import BAD, DOUBT, Sign, of_case
from qwenperf.report.ladder import ladder_report
from qwenperf.report.speedup import speedup_lines
from qwenperf.report.terminal import all_findings, case_table, group_title, legend
from qwenperf.report.unjudged import unjudged
from qwenperf.schema.metrics import REGISTRY, MetricDefinition
from qwenperf.schema.records import CaseRecord, RunRecord
from qwenperf.workloads.ladder import PLATFORMS


@dataclass(frozen=True, kw_only=True)
class Group:
    """Cases of one model and workload: their tables, and the signs of the rows of one that has a row a case."""

    title: str
    blocks: tuple[Block, ...]
    signs: Mapping[int, Sign] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Attention:
    """What is not green about one case."""

    id: str
    anchor: str
    rows: tuple[VerdictRow, ...]
    error: str


@dataclass(frozen=True, kw_only=True)
class RunView:
    """All that the page of a run shows."""

    headline: Headline
    about: tuple[Fact, ...]
    groups: tuple[Group, ...]
    attention: tuple[Attention, ...]
    missing: tuple[str, ...]
    remarks: tuple[str, ...]
    findings: tuple[FindingRow, ...]
    cases: tuple[CaseView, ...]
    environment: tuple[Fact, ...]
    definitions: tuple[MetricDefinition, ...]


def run_view(run: RunRecord, href: Href) -> RunView:
    """Return what a page shows of ``run``."""
    anchors = {case.id: f"case-{number}" for number, case in enumerate(run.cases, start=1)}
    names = {name for case in run.cases for name in case.metrics}
    return RunView(
        headline=run_headline(run),
        about=tuple(_about(run)),
        groups=tuple(_groups(run, anchors)),
        attention=tuple(_attention(run, anchors)),
        missing=tuple(sorted({*run.declared} - anchors.keys())),
        remarks=attempt("a remark", lambda: tuple(_remarks(run)), lambda note: (note.text,)),
        findings=finding_rows(tuple(all_findings(run))),
        cases=tuple(case_view(case, anchors[case.id], href) for case in run.cases),
        environment=facts({**run.environment, **{f"commit.{name}": one for name, one in run.commit.items()}}),
        definitions=tuple(definition for name, definition in REGISTRY.items() if name in names),
    )


def _about(run: RunRecord) -> Iterator[Fact]:
    yield Fact(name="suite", text=run.suite)
    yield Fact(name="measured", text=run.created_at)
    yield from about_machine(run.environment)
    yield from about_commit(run.commit)


def about_machine(environment: Mapping[str, object]) -> Iterator[Fact]:
    """Yield the few words that say where something was measured."""
    device, processor, jax = (environment.get(name) for name in ("device_kind", "cpu_model", "jax"))
    if device or processor:
        cores = f", {environment['cores']} cores" if environment.get("cores") else ""
        # A tuple: what a record names here may have no hash.
        machine = f"{processor or device}{cores}" if device in (None, "cpu") else f"{device} ({processor}{cores})"
        yield Fact(name="machine", text=machine)
    if jax:
        yield Fact(name="JAX", text=f"{jax} on {environment.get('platform', '?')}")


def about_commit(commit: Mapping[str, object]) -> Iterator[Fact]:
    """Yield the commit that was measured, where it is known."""
    if commit.get("sha"):
        branch = f" on {commit['branch']}" if commit.get("branch") else ""
        changed = ", with changes" if commit.get("dirty") else ""
        yield Fact(name="commit", text=f"{str(commit['sha'])[:12]}{branch}{changed}")


def _groups(run: RunRecord, anchors: Mapping[str, str]) -> Iterator[Group]:
    found: dict[str, list[CaseRecord]] = {}
    for case in run.cases:
        found.setdefault(_title(case), []).append(case)
    for title, cases in found.items():
        signs = {number: of_case(case) for number, case in enumerate(cases)} if run.suite not in PLATFORMS else {}
        yield Group(title=title, blocks=tuple(_tables(run, title, cases, anchors)), signs=signs)
    claims = tuple(attempted("the claims", lambda: claims_report(run)))
    if claims:
        yield Group(title="Claims", blocks=claims)


def _title(case: CaseRecord) -> str:
    return attempt("a case", lambda: group_title(case), lambda _: case.id)


def _tables(run: RunRecord, title: str, cases: Sequence[CaseRecord], anchors: Mapping[str, str]) -> Iterator[Block]:
    if run.suite in PLATFORMS:
        yield from attempted("the ladder", lambda: ladder_report(run.suite, cases), title)
        return
    links = [f"#{anchors[case.id]}" for case in cases]
    yield attempt("the table", lambda: _rungs(title, cases, links), _told)
    told = attempt("the legend", lambda: legend(cases), lambda why: why.text)
    yield from [Note(text=told)] if told else []


def _rungs(title: str, cases: Sequence[CaseRecord], links: Sequence[str]) -> Block:
    return table(case_table(cases), title, links)


def _told(why: Note) -> Block:
    return why


def _attention(run: RunRecord, anchors: Mapping[str, str]) -> Iterator[Attention]:
    for case in run.cases:
        rows = tuple(row for row in verdict_rows(case.verdicts) if row.sign.kind in {BAD, DOUBT})
        if rows or case.error:
            yield Attention(id=case.id, anchor=anchors[case.id], rows=rows, error=case.error or "")


def _remarks(run: RunRecord) -> Iterator[str]:
    yield from speedup_lines(run)
    yield from (str(line) for line in unjudged(run))
