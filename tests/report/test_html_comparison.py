"""The page of a comparison: how much slower, which operation, the pairs, and both sides' traces."""

from dataclasses import replace

import pytest

from qwenperf.report.html import comparison_page
from qwenperf.schema.comparison import ComparedCase
from qwenperf.schema.records import Outcome, Verdict


@pytest.fixture
def page(parse):
    """Make the tree of a comparison's page."""

    def made(record):
        return parse(comparison_page(record))

    return made


def headline(page):
    """Return the first sentence, and what explains it."""
    box = next(node for node in page.all("div") if node.attributes.get("class", "").startswith("verdict"))
    return [one.text for one in box.all("p")]


def table(page, caption):
    """Return the texts of the cells of the first table with a caption that begins so."""
    found = next(one for one in page.all("table") if one.all("caption")[0].text.startswith(caption))
    return [[cell.text for cell in row.all("th", "td")] for row in found.all("tr")][1:]


def test_the_first_sentence_says_how_much_slower_and_where(page, samples):
    """The size with its interval, the confirmation, and the operation that takes the time."""
    first, second = headline(page(samples.comparison()))
    assert first == (f"✕ FAIL {samples.CASE} takes 12.0% longer (+10.0% to +14.0%), confirmed by 12 fresh pairs")
    assert second.startswith("Most of it: dot +720 us a token (4.00 ms -> 4.72 ms): matmul")


def test_the_largest_slowdown_is_told_first(page, samples):
    """And a changed token before any."""
    data = {**samples.SPEED.data, "stage_1": {**samples.SPEED.data["stage_1"], "estimate": 0.5}}
    worse = samples.compared("a/b/c", verdicts=(replace(samples.SPEED, data=data),))
    first, *_ = headline(page(samples.comparison(samples.compared(), worse)))
    assert first.startswith("✕ FAIL 2 of 2 cases failed: a/b/c takes 50.0% longer")
    tokens = Verdict(gate="tokens", outcome=Outcome.FAIL, summary="row 0")
    other = samples.compared("d/e/f", verdicts=(samples.SPEED, tokens))
    first, *_ = headline(page(samples.comparison(worse, other)))
    assert first == "✕ FAIL 2 of 2 cases failed: d/e/f, tokens: row 0"


def test_what_the_traces_do_not_show_is_no_most_of_it(page, samples):
    """Where they leave more than a tenth unexplained, the sentence says how much."""
    summaries = {"base": samples.summary(), "head": samples.summary(dot_s=0.0041)}
    _, second, third = headline(page(samples.comparison(samples.compared(trace_summaries=summaries))))
    assert second.startswith("Most of what the traces show: dot +100 us a token")
    assert third.startswith("+620 us a token of the +720 us that was timed lies outside the steady steps")


def test_whole_requests_tell_their_programs_apart(page, samples):
    """Where the traces are of whole requests, what they leave is unexplained, and prefill and loop are rows."""
    sides = {"base": samples.summary(), "head": samples.summary(dot_s=0.0041)}
    for summary in sides.values():
        summary["of"] = "requests"
        summary["operations"] += [{**summary["operations"][0], "program": "jit_prefill", "wall_s": 0.003}]
    seen = page(samples.comparison(samples.compared(trace_summaries=sides)))
    assert headline(seen)[2] == "the traces leave +620 us a token of the +720 us that was timed unexplained"
    assert [row[0] for row in table(seen, "Programs")] == ["jit_step", "jit_prefill"]


def test_an_excused_failure_is_not_red(page, samples):
    """It is told, with who answers for it."""
    excused = replace(samples.SPEED, data={**samples.SPEED.data, "excused": "accepted: it costs that"})
    seen = page(samples.comparison(samples.compared(verdicts=(samples.SAME, excused))))
    assert headline(seen)[0].startswith(f"✕ FAIL, excused {samples.CASE}, speed: time +12.0%")
    assert [node for node in seen.all("span") if node.attributes.get("class") == "badge bad"] == []


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (Outcome.PASS, "✓ pass The case passed."),
        (Outcome.IMPROVED, "▲ improved 4x128/cached/b1-p16-n64-f32, speed: seen"),
        (Outcome.INCONCLUSIVE, "? inconclusive 4x128/cached/b1-p16-n64-f32, speed: seen"),
        (Outcome.SKIPPED, "✕ not compared 4x128/cached/b1-p16-n64-f32, speed: seen"),
    ],
)
def test_every_outcome_has_a_sentence(page, samples, outcome, told):
    """A case whose time was not judged has not passed."""
    verdicts = (samples.SAME, Verdict(gate="speed", outcome=outcome, summary="seen"))
    assert headline(page(samples.comparison(samples.compared(verdicts=verdicts)))) == [told]


def test_what_concerns_the_whole_comparison_comes_first(page, samples):
    """Two environments are not compared, whatever their cases say."""
    verdict = Verdict(gate="environment", outcome=Outcome.SKIPPED, summary="not comparable: jax is '1' in base")
    seen = page(samples.comparison(samples.compared(verdicts=(samples.SAME,)), verdicts=(verdict,)))
    assert headline(seen) == ["✕ environment Not comparable: jax is '1' in base"]
    assert table(seen, "The comparison as a whole")[0][0] == "environment"


def test_another_gate_that_fails_speaks_for_itself(page, samples):
    """A changed token has no percents."""
    tokens = Verdict(gate="tokens", outcome=Outcome.FAIL, summary="row 0, new token 3: 5 in base, 7 in head")
    seen = page(samples.comparison(samples.compared(verdicts=(tokens,))))
    assert headline(seen) == [f"✕ FAIL {samples.CASE}, tokens: row 0, new token 3: 5 in base, 7 in head"]


def test_pairs_are_drawn_and_told(page, samples):
    """Those that decided and those that confirmed."""
    seen = page(samples.comparison())
    figures = [node for node in seen.all("figure") if node.attributes.get("class") == "pairs"]
    assert [len(one.all("circle")) for one in figures] == [6, 12]
    assert figures[0].text.startswith("Pairs in the order of time: +12.0%, +12.0%")


def test_operations_of_both_sides_stand_beside_each_other(page, samples):
    """With the difference as a number and a bar, and each side's trace below."""
    seen = page(samples.comparison())
    assert table(seen, "Operations")[0][:4] == ["dot", "4.00 ms", "4.72 ms", "+720 us"]
    assert table(seen, "Categories") == [
        ["matmul", "4.00 ms", "4.72 ms", "+720 us", ""],
        ["host gap", "2.00 ms", "2.00 ms", "+0 s", ""],
    ]
    assert [node.text for node in seen.all("summary") if node.text.startswith("All of")] == [
        "All of base's trace",
        "All of head's trace",
    ]


def test_sizes_and_environments_say_what_differs(page, samples):
    """What times depend on comes first and says so."""
    seen = page(samples.comparison())
    assert table(seen, "What does not depend on the clock") == [["temp_bytes", "1.00 kB", "2.00 kB", "+100.0%"]]
    rows = {row[0]: row[1:] for row in table(seen, "Where both sides were measured")}
    assert rows["qwenperf"] == ["-", "0.2.0", "differs"]
    assert rows["jax"] == ["0.10.2", "0.10.2", ""]
    head = replace(samples.SIDE, environment={**samples.ENVIRONMENT, "jax": "0.12"})
    other = page(samples.comparison(head=head))
    assert table(other, "Where both sides were measured")[0] == [
        "jax",
        "0.10.2",
        "0.12",
        "differs: times do not compare",
    ]


def test_an_interrupted_comparison_without_pairs_is_a_page(page, samples):
    """With the sides that never answered, the pairs that broke and the cases that only head has."""
    gone = Verdict(gate="inventory", outcome=Outcome.SKIPPED, summary="not measured: base: its process told nothing")
    pair = replace(samples.pair(1), rounds={}, failed="base did not start")
    record = samples.comparison(
        ComparedCase(id="a/b/c", verdicts=(gone,)), pairs=(pair,), interrupted=True, extra={"new": ["d/e/f"]}
    )
    seen = page(record)
    assert headline(seen) == [
        "✕ not compared a/b/c, inventory: not measured: base: its process told nothing",
        "The comparison was interrupted; the pairs measured before are judged.",
    ]
    assert "pair 1 (stage 1): base did not start" in seen.text
    assert "New: d/e/f: only head has it" in seen.text


def test_why_a_side_has_no_trace_is_told(page, samples):
    """Beside the trace of the other."""
    case = samples.compared(
        trace_summaries={"base": samples.summary()}, trace_remarks={"head": ["the profiler was busy"]}
    )
    seen = page(samples.comparison(case))
    assert "trace of head: the profiler was busy" in seen.text
    assert [node.text for node in seen.all("summary") if node.text.startswith("All of")] == ["All of base's trace"]


def test_a_renamed_case_is_told(page, samples):
    """Its times are compared as one case's; a record that is damaged there costs the page nothing."""
    record = samples.comparison()
    seen = page(replace(record, extra={**record.extra, "renamed": {"d/e/f": "d/x/f"}}))
    assert "Renamed: d/e/f in base is d/x/f in head." in [one.text for one in seen.all("p")]
    page(replace(record, extra={**record.extra, "renamed": ["d/e/f"]}))
