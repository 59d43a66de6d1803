"""Verdicts as JUnit XML, which every CI system shows. Out only: a verdict in words cannot be judged again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from xml.etree import ElementTree as ET  # only written here, never parsed

from qwenperf.formats.place import Document
from qwenperf.schema.records import CaseRecord, Outcome, RunRecord, Status, Verdict

TOOL = "junit"
_UNSPEAKABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write(runs: Sequence[RunRecord]) -> tuple[Document, ...]:
    """Return one file: a suite a run, a test a verdict, and one for each case that was not measured.

    Inconclusive and skipped verdicts are skipped tests with their reason; a case without verdicts is one that passed.
    """
    top = ET.Element("testsuites", name="qwenperf")
    for run in runs:
        suite = ET.SubElement(
            top, "testsuite", name=_clean(run.suite), id=_clean(run.id), timestamp=_clean(run.created_at)
        )
        missing = [name for name in run.declared if name not in {case.id for case in run.cases}]
        for case in run.cases:
            suite.extend(_tests(case))
        suite.extend(_failed(name, "error", "declared, and never measured") for name in missing)
        _count(suite)
    _count(top, deep=True)
    ET.indent(top)
    return (Document(name="", text=ET.tostring(top, encoding="unicode", xml_declaration=True) + "\n"),)


def _tests(case: CaseRecord) -> Iterator[ET.Element]:
    if case.status is not Status.MEASURED:
        yield _failed(case.id, "error", case.error or str(case.status))
    elif not case.verdicts:
        yield _test(case.id, "measured", case.wall_s)
    for verdict in case.verdicts:
        yield _judged(case, verdict)


def _judged(case: CaseRecord, verdict: Verdict) -> ET.Element:
    test = _test(case.id, verdict.gate, None)
    words = "\n".join(_clean(line) for line in (verdict.summary, *verdict.detail, verdict.advice) if line)
    if verdict.outcome is Outcome.FAIL:
        ET.SubElement(test, "failure", message=_clean(verdict.summary), type=_clean(verdict.gate)).text = words
    elif verdict.outcome in {Outcome.SKIPPED, Outcome.INCONCLUSIVE}:
        ET.SubElement(test, "skipped", message=_clean(f"{verdict.outcome}: {verdict.summary}"))
    return test


def _failed(case: str, kind: str, why: str) -> ET.Element:
    test = _test(case, "measured", None)
    ET.SubElement(test, kind, message=_clean(why), type=kind)
    return test


def _test(case: str, name: str, seconds: float | None) -> ET.Element:
    return ET.Element("testcase", classname=_clean(case), name=_clean(name), time=f"{seconds or 0:.3f}")


def _count(element: ET.Element, *, deep: bool = False) -> None:
    for key, path in (
        ("tests", "testcase"),
        ("failures", "*/failure"),
        ("errors", "*/error"),
        ("skipped", "*/skipped"),
    ):
        element.set(key, str(len(element.findall(f"*/{path}" if deep else path))))


def _clean(text: str) -> str:
    """Leave out what no XML may hold."""
    return _UNSPEAKABLE.sub("?", text)
