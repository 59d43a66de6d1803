"""What is written and never read back: OpenMetrics for a scrape, JUnit for a CI system."""

from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from qwenperf.errors import FormatError
from qwenperf.formats import github_action, junit, openmetrics
from qwenperf.schema.metrics import Direction, Kind
from qwenperf.schema.records import CaseRecord, Metric, Outcome, RunRecord, Status, Verdict, metric


def a_run(*cases, **more):
    told = {"id": "r1", "created_at": "2026-01-01T00:00:00+00:00", "suite": "quick", "environment": {}}
    return RunRecord(**told, cases=cases, **more)


def test_prometheus_reads_what_is_exposed():
    """By its own parser: names, labels with quotes and line breaks, values, times."""
    odd = Metric(value=1e-7, unit="a\\b", direction=Direction.NONE, kind=Kind.TIMED)
    first = CaseRecord(id='m/"x"\n/cached', spec={}, metrics={"tpot_s": metric("tpot_s", 0.25), "own p99.9": odd})
    second = CaseRecord(id="m/naive", spec={}, metrics={"tpot_s": metric("tpot_s", 0.5)})
    (document,) = openmetrics.write([a_run(first, second, commit={"sha": "abc"})])
    families = {one.name: one for one in text_string_to_metric_families(document.text)}
    assert families.keys() == {"qwenperf_tpot_s", "qwenperf_own_p99_9"}
    sample = families["qwenperf_tpot_s"].samples[0]
    assert sample.labels == {"case": 'm/"x"\n/cached', "suite": "quick", "run": "r1", "commit": "abc"}
    assert (sample.value, float(sample.timestamp)) == (0.25, 1767225600.0)
    assert families["qwenperf_own_p99_9"].samples[0].value == 1e-7
    assert families["qwenperf_tpot_s"].documentation.endswith("In s.")


def test_names_that_would_become_one_are_refused():
    """Two metrics under one name would be one line in every graph."""
    one = Metric(value=1.0, unit="s", direction=Direction.NONE, kind=Kind.TIMED)
    case = CaseRecord(id="a", spec={}, metrics={"p-99": one, "p.99": one})
    with pytest.raises(FormatError, match=r"'p\.99' in 's' and 'p-99' in 's' would both be qwenperf_p_99"):
        openmetrics.write([a_run(case)])
    with pytest.raises(FormatError, match="no metric to write"):
        openmetrics.write([a_run()])


def test_verdicts_are_tests_and_what_was_not_measured_is_an_error():
    """Fail is a failure, inconclusive and skipped are skipped, a case that is missing is never green."""
    verdicts = [
        Verdict(gate="tokens", outcome=Outcome.PASS, summary="equal"),
        Verdict(gate="speed", outcome=Outcome.FAIL, summary="8% \x00slower", detail=("pair 1",), advice="look"),
        Verdict(gate="scaling", outcome=Outcome.INCONCLUSIVE, summary="noisy"),
        Verdict(gate="shapes", outcome=Outcome.SKIPPED, summary="no steps"),
    ]
    cases = (
        CaseRecord(id="a", spec={}, verdicts=tuple(verdicts)),
        CaseRecord(id="b", spec={}, status=Status.TIMED_OUT, error="killed after 3 s"),
        CaseRecord(id="c", spec={}, wall_s=1.5),
    )
    (document,) = junit.write([a_run(*cases, declared=("a", "b", "c", "d"))])
    top = ET.fromstring(document.text)
    assert {key: top.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "7", "failures": "1", "errors": "2", "skipped": "2",
    }  # fmt: skip
    tests = {(one.get("classname"), one.get("name")): one for one in top.iter("testcase")}
    failure = tests["a", "speed"].find("failure")
    assert failure.get("message") == "8% ?slower"
    assert failure.text.splitlines() == ["8% ?slower", "pair 1", "look"]
    assert tests["b", "measured"].find("error").get("message") == "killed after 3 s"
    assert "never measured" in tests["d", "measured"].find("error").get("message")
    assert tests["a", "scaling"].find("skipped").get("message") == "inconclusive: noisy"
    assert tests["c", "measured"].get("time") == "1.500"


def test_a_run_whose_time_is_none_is_told():
    """By its id and key, for every format that writes a time; a time without a zone is in UTC."""
    case = CaseRecord(id="a", spec={}, metrics={"tpot_s": metric("tpot_s", 0.25)})
    (document,) = openmetrics.write([replace(a_run(case), created_at="2026-01-01T00:00:00")])
    assert " 0.25 1767225600.000" in document.text
    for write in (openmetrics.write, github_action.write_dashboard):
        with pytest.raises(FormatError, match="run r1: created_at is 'soon', which is no time"):
            write([replace(a_run(case, commit={"sha": "a"}), created_at="soon")])


def test_no_letter_of_a_record_breaks_the_xml():
    """Neither in the name of a gate nor in a time."""
    verdict = Verdict(gate="a\x1b", outcome=Outcome.FAIL, summary="s")
    run = replace(a_run(CaseRecord(id="a", spec={}, verdicts=(verdict,))), created_at="\x00")
    (document,) = junit.write([run])
    assert ET.fromstring(document.text).find(".//failure").get("type") == "a?"
