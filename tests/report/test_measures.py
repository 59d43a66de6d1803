"""Runs of other tools, and of anything but engines at a workload: their tables show what was measured."""

import json
from dataclasses import replace

import pytest

from qwenperf.formats import bencher
from qwenperf.formats.foreign import Told
from qwenperf.formats.place import Document
from qwenperf.report.html import run_page
from qwenperf.report.markdown import summary
from qwenperf.report.measures import shown
from qwenperf.report.terminal import Places, render, run_report

MEASURES = {
    "tests/test_parse.py::test_small": {"latency": {"value": 1500.0}, "throughput": {"value": 2000.0}},
    "tests/test_parse.py::test_large": {
        "latency": {"value": 2.5e6, "lower_value": 2.4e6, "upper_value": 2.6e6},
        **{f"odd-{number}": {"value": number} for number in range(5)},
    },
}


@pytest.fixture(scope="module")
def imported():
    """A run that another tool measured."""
    told = Told(modified_at="2026-11-28T00:00:00+00:00")
    (run,) = bencher.read([Document(name="bmf.json", text=json.dumps(MEASURES))], told)
    return run


def test_an_imported_run_is_one_table_of_what_it_measured(imported, parse):
    page = parse(run_page(imported))
    (table,) = [one for one in page.all("table") if one.all("caption")[0].text == "measurements"]
    rows = [[cell.text for cell in row.all("th", "td")] for row in table.all("tr")]
    assert rows[0] == ["case", "latency", "throughput", "odd-0", "odd-1", "verdict"]
    assert [row[1:3] for row in rows[1:]] == [["1,500 ns", "2,000 ops/s"], ["2,500,000 ns", "-"]]
    assert [row[0].endswith(name) for row, name in zip(rows[1:], MEASURES, strict=True)] == [True, True]
    assert "3 more metrics are in the record." in page.text
    assert "tokens/s" not in page.text
    assert "no trace" not in page.text


def test_the_first_sentence_says_whose_run_it_is_and_not_the_name_of_a_case(imported, parse):
    page = parse(run_page(imported))
    box = next(node for node in page.all("div") if node.attributes.get("class", "").startswith("verdict"))
    first, second = [one.text for one in box.all("p")]
    assert first == "i imported 2 cases of bencher, as it measured them."
    assert second.startswith("No gate judges another tool's numbers")
    assert page.one("head").one("title").text == f"imported: {imported.id} - qwenperf"
    one = replace(imported, cases=imported.cases[:1], declared=imported.declared[:1])
    assert "imported 1 case of bencher, as it measured it." in parse(run_page(one)).text


def test_the_terminal_shows_the_same(imported):
    text = render(run_report(imported, Places(record="run.json")), width=120)
    assert "latency" in text
    assert "1,500 ns" in text
    assert "cold" not in text


def test_so_does_a_report_on_github_and_a_stranger_s_name_is_no_markup(imported, samples):
    text = summary(imported).text
    assert "| 1,500 ns |" in text
    odd = bencher.read(
        [Document(name="bmf.json", text=json.dumps({"case": {"<b>|x": {"value": 1}}}))],
        Told(modified_at="2026-11-28T00:00:00+00:00"),
    )[0]
    assert "<b>|x" not in summary(odd).text
    assert "tokens" in summary(samples.run()).text


def test_metrics_that_can_be_good_or_bad_and_are_common_come_first(imported):
    assert shown(imported.cases)[0] == "latency"
    assert shown([]) == ()


def test_engines_keep_their_table_beside_what_is_none(imported, samples, parse):
    """A run may hold both."""
    page = parse(run_page(samples.run(samples.case(), *imported.cases)))
    captions = [table.all("caption")[0].text for table in page.all("table")]
    assert captions.count("measurements") == 1
    assert any(caption.startswith("4x128, f32, batch 1") for caption in captions)
