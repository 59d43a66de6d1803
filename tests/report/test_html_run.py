"""The page of a run: what failed comes first, and all that the terminal shows is there."""

from dataclasses import replace

import pytest

from qwenperf.errors import EnvironmentUnfitError
from qwenperf.models.weights import unavailable_finding
from qwenperf.report.html import Place, run_page
from qwenperf.report.terminal import Places, render, run_report, rung_table
from qwenperf.schema.records import Finding, Outcome, Severity, Verdict


@pytest.fixture
def page(parse):
    """Make the tree of a run's page."""

    def made(record, place=None):
        return parse(run_page(record, place))

    return made


def rows(page, caption):
    """Return the texts of the cells of the only table with a caption that begins so."""
    (table,) = [one for one in page.all("table") if one.all("caption")[0].text.startswith(caption)]
    return [[cell.text for cell in row.all("th", "td")] for row in table.all("tr")][1:]


def headline(page):
    """Return the first sentence, and what explains it."""
    box = next(node for node in page.all("div") if node.attributes.get("class", "").startswith("verdict"))
    return [one.text for one in box.all("p")]


def test_the_first_sentence_names_case_size_and_operation(page, samples):
    """Nobody has to scroll to know what to do."""
    first, second = headline(page(samples.run()))
    assert first == (
        f"✕ FAIL 1 of 2 cases failed: {samples.CASE},"
        " throughput: decode_tokens_per_s 812 tokens/s misses its budget of at least 1,000 tokens/s"
    )
    assert second.startswith(
        "The longest part of a token: dot (matmul) f32[1,128] from models/layers.py:31: 4.00 ms of 6.00 ms"
    )


def test_the_title_says_how_it_ended(page, samples):
    """A row of tabs is a row of verdicts."""
    assert page(samples.run()).one("head").one("title").text == "FAIL: 20261128T081521Z-3f3847 - qwenperf"


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (Outcome.PASS, "✓ pass All 2 cases passed."),
        (Outcome.INCONCLUSIVE, "? inconclusive 2 of 2 cases inconclusive: 4x128/cached/b1-p16-n64-f32, g: seen"),
        (Outcome.IMPROVED, "▲ improved 2 of 2 cases improved: 4x128/cached/b1-p16-n64-f32, g: seen"),
        (Outcome.SKIPPED, "○ skipped 2 of 2 cases skipped: 4x128/cached/b1-p16-n64-f32, g: seen"),
    ],
)
def test_every_outcome_has_a_word(page, samples, outcome, told):
    """Colour is never the only sign."""
    verdicts = (Verdict(gate="g", outcome=outcome, summary="seen"),)
    record = samples.run(samples.case(verdicts=verdicts), samples.case(samples.OTHER, verdicts=verdicts))
    assert headline(page(record)) == [told]


def test_a_run_that_measured_nothing_is_no_pass(page, samples):
    """Neither without a case, nor with one that is missing, not judged or broken."""
    empty = samples.run(cases=(), declared=(), findings=(), environment={}, commit={})
    assert headline(page(empty)) == ["✕ nothing measured Nothing was measured."]
    missing = samples.run(samples.case(), declared=(samples.CASE, samples.OTHER))
    assert headline(page(missing)) == [f"✕ missing 1 of 2 cases asked for and not measured: {samples.OTHER}"]
    assert f"{samples.OTHER}: asked for and not measured." in page(missing).text
    dead = page(samples.run(samples.case(), samples.broken()))
    assert headline(dead) == [
        f"✕ not measured 1 of 2 cases not measured: {samples.OTHER}: the process died of signal 9"
    ]
    assert "last words" in dead.one("section", aria_labelledby="attention").text
    unjudged = Verdict(gate="memory", outcome=Outcome.SKIPPED, summary="no peak", data={"budget": "not judged"})
    assert headline(page(samples.run(samples.case(verdicts=(unjudged,))))) == [
        f"✕ not judged {samples.CASE}, memory: no peak"
    ]
    nobody = Finding(code="budget-unmatched", severity=Severity.ERROR, message="budget x matches no case.")
    told = headline(page(samples.run(samples.case(), findings=(nobody,))))
    assert told == ["✕ not judged A budget is not judged: budget x matches no case."]
    alone, other = samples.case(verdicts=()), samples.case(samples.OTHER, verdicts=())
    assert headline(page(samples.run(alone))) == ["not judged The case was measured, and no gate has judged it."]
    assert headline(page(samples.run(alone, other))) == [
        "not judged All 2 cases were measured, and no gate has judged them."
    ]


def test_weights_that_could_not_be_had_are_said_in_headline_and_table(page, samples):
    """A table of seeded weights must not be read as one of the real ones, whatever passed."""
    lost = unavailable_finding(EnvironmentUnfitError("no index.", advice="Configure one."))
    record = samples.run(samples.case(findings=(lost,)), findings=())
    seen = page(record)
    first, second = headline(seen)
    assert first == "✓ pass The case passed."
    assert second == "Measured on seeded weights: the real ones could not be had, see the finding weights-unavailable."
    findings = seen.one("section", aria_labelledby="findings").text
    assert "warning no index. Seeded weights of the same shape are used" in findings
    assert "Configure one. weights-unavailable" in findings
    assert rows(seen, "4x128 (SEEDED WEIGHTS), f32, batch 1")
    text = render(run_report(record, Places(record="run.json")))
    assert text.startswith("4x128 (SEEDED WEIGHTS), f32")
    assert "warning: no index." in text


def test_an_interrupted_run_says_so(page, samples):
    """And shows what was measured before."""
    record = samples.run(samples.case(), declared=(samples.CASE,), interrupted=True)
    assert headline(page(record))[1] == "The run was interrupted; 1 of 1 cases had begun."


def test_the_table_is_the_terminal_s(page, samples):
    """Cell by cell; each row leads to its case."""
    record = samples.run()
    shown = rows(page(record), "4x128, f32, batch 1, prompt 16, 64 new tokens")
    terminal = rung_table(record.cases)
    cells = [[str(cell) for cell in column.cells] for column in terminal.columns]
    assert [[cell.removeprefix("✕ ").removeprefix("✓ ") for cell in row] for row in shown] == list(
        map(list, zip(*cells, strict=True))
    )


def test_all_that_the_terminal_remarks_is_there(page, samples):
    """Findings with their advice, the speed-up, the legend, what a broken case said."""
    record = samples.run()
    text = page(record).text
    assert "load average 2.1. Stop other work. load-high" in text
    assert "Compare the traces before lowering the budget." in text
    report = render(run_report(record, Places(record="run.json")), width=200)
    legend = next(line for line in report.splitlines() if line.startswith("tokens/s: steady decode"))
    assert legend in text


def test_a_token_s_time_is_told_by_category_and_operation(page, samples):
    """With the host's gap, the place on the roofline and the source line."""
    seen = page(samples.run())
    assert rows(seen, "Where a token's time goes") == [
        ["matmul", "4.00 ms", "67%", ""],
        ["host gap", "2.00 ms", "33%", ""],
        ["the host in Python", "1.33 ms", "22%", ""],
    ]
    (row,) = rows(seen, "Operations")
    assert row == ["dot", "4.00 ms", "67%", "", "4", "25% memory", "matmul", "f32[1,128] from models/layers.py:31"]


def test_the_steps_of_a_trace_are_drawn_to_scale(page, samples):
    """The slow one says that it is left out of the rest."""
    seen = page(samples.run())
    assert [row[0:1] + row[2:] for row in rows(seen, "Steps")] == [
        *([str(number), "6.00 ms", "4.00 ms", "2.00 ms", "1", ""] for number in (1, 2, 3)),
        ["4", "30.0 ms", "8.00 ms", "22.0 ms", "2", "slow, left out"],
    ]
    drawn = [
        [float(bar["width"]) for bar in one.all("rect")]
        for one in seen.all("svg")
        if one.attributes.get("class") == "bar steps"
    ]
    assert drawn == [[20.0, 13.3]] * 3 + [[100.0, 26.7]]


def test_a_summary_of_an_older_version_is_shown(page, samples):
    """Before there were shares of an instant, and steps told apart."""
    old = samples.summary()
    for name in ("typical_s", "typical_steps", "step_busy_s", "categories", "host", "dispatches"):
        del old[name]
    for row in old["operations"]:
        del row["wall_s"], row["flops"], row["bytes"]
    one = samples.case()
    seen = page(samples.run(replace(one, evidence=replace(one.evidence, trace_summary=old))))
    assert [row[0] for row in rows(seen, "Operations")] == ["dot"]
    assert [row[3] for row in rows(seen, "Steps")] == ["-"] * 4


def test_a_case_without_a_trace_says_so(page, samples):
    """Where something was measured at all."""
    assert "This case has no trace." in page(samples.run(samples.case(trace=False))).text
    assert "This case has no trace." not in page(samples.run(samples.broken())).text


def test_the_time_over_position_is_a_line(page, samples):
    """Medians of the trials; a hiccup of one does not bend it."""
    seen = page(samples.run(samples.case()))
    (line,) = seen.all("polyline")
    heights = [float(point.split(",")[1]) for point in line["points"].split()]
    assert heights == [9.1] * 4
    assert "1.00 ms at position 16 to 1.00 ms at position 19; medians of 3 trials" in seen.text


def test_compiles_have_their_causes_and_metrics_their_definitions(page, samples):
    """And intervals the coverage that they have."""
    seen = page(samples.run(samples.case()))
    assert rows(seen, "Compiled programs") == [
        ["step", "cold", "40.0 ms", "tokens shape (1, 16) -> (1, 17)", "loop.py:7"]
    ]
    assert ["decode_tokens_per_s", "812 tokens/s", "810 tokens/s to 814 tokens/s (50%)", "2", "timed"] in rows(
        seen, "Metrics"
    )
    assert any(row[0] == "mbu" and "bytes_per_step / tpot_s" in row[3] for row in rows(seen, "Definitions of"))


def test_a_ladder_has_its_tables(page, samples):
    """One a setting, under the setting's name."""
    base, other = (samples.case(f"4x128/{name}/b1") for name in ("cached", "cached+layers=scanned"))
    seen = page(samples.run(base, other, suite="ladder"))
    (row,) = [row for row in rows(seen, "layers (decode)") if row[0] == "scanned"]
    assert row[1] == "1.00x"


def test_traces_are_opened_by_lines_to_copy(page, samples):
    """With a folder that a shell takes as one word."""
    place = Place(folder="my profiles/RUN", record="run.json", href=lambda path: f"./{path}")
    text = page(samples.run(), place).text
    for line in ("qwenperf trace open 'my profiles/RUN'", "xprof --logdir 'my profiles'"):
        assert line in text
    seen = page(samples.run(), place)
    assert "./plugins/profile/cached" in {node["href"] for node in seen.all("a")}
    assert "xprof" not in page(samples.run(samples.case(trace=False)), place).text
