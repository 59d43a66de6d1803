"""Records as Markdown, and that what a stranger writes into one does nothing on GitHub."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from qwenperf.forge.report import fitted
from qwenperf.report.annotations import ELSEWHERE, remarks
from qwenperf.report.markdown import MOST_CHARACTERS, summary
from qwenperf.report.markdown_text import code, line, prose
from qwenperf.schema.records import CompileEvent, Finding, Outcome, Severity, Status, Verdict

EVIL = [
    "@acme/admins",
    "see #12 and acme/engine#3 and GH-7",
    "https://evil.test/?x=1",
    "www.evil.test",
    "mail me@evil.test",
    "<img src=x onerror=alert(1)>",
    "<!-- qwenperf: qwenperf -->",
    "![x](https://evil.test/p.png) [y](javascript:alert(1))",
    "`a` ``b`` *c* _d_ ~~e~~ $f$",
    "a | b |\n| --- |",
    "</details></sub>\n# Approved",
    "\u202egnp.exe\u200b \x1b[31m",
    "deadbeefdeadbeefdeadbeefdeadbeefdeadbeef",
]


TAGS = set("h3 p table thead tbody tr th td code strong ul li details summary sub".split())
LOOKED_FOR = re.compile(r"[@#]\w|:[^\s\u200b]|www\.|\b[0-9a-f]{7,}\b|GH-\d", re.IGNORECASE)


class Seen(HTMLParser):
    """What a reader of Markdown makes of a text: its tags, what GitHub would look through, and all that is shown."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.free, self.shown, self._code = [], "", "", False
        self.feed(MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(text))

    def handle_starttag(self, tag, attrs):
        """Keep a tag."""
        self.tags.append((tag, tuple(attrs)))
        self._code = tag == "code" or self._code

    def handle_endtag(self, tag):
        """Leave code."""
        self._code = self._code and tag != "code"

    def handle_comment(self, data):
        """Keep a comment as a tag of its own."""
        self.tags.append(("comment", data))

    def handle_data(self, data):
        """Keep text."""
        self.shown += data
        self.free += "" if self._code else data


@pytest.mark.parametrize("text", EVIL)
def test_prose_says_what_it_says_and_does_nothing(text):
    """A reader of Markdown sees one paragraph of that text, and GitHub nothing that it looks for."""
    seen = Seen(prose(text))
    assert seen.tags == [("p", ())]
    assert seen.shown.strip().replace("\u200b", "") == line(text)
    assert not LOOKED_FOR.search(seen.shown)


@pytest.mark.parametrize(
    "text", ["- a", "1. a", "1) a", "+ a", "> a", "# a", "=== ", "--- ", "    a", "~~~", "&lt;b&gt; &#64;"]
)
def test_prose_begins_nothing(text):
    """A line that starts like a list, a title or code is a line."""
    seen = Seen(prose(text))
    assert (seen.tags, seen.shown.strip().replace("\u200b", "")) == ([("p", ())], line(text))


@pytest.mark.parametrize("text", EVIL)
def test_code_ends_where_it_ends(text):
    """Neither a row nor the code itself can be left."""
    told = code(text)
    assert (told.count("`"), told.count("|"), told.count("\n")) == (2, 0, 0)


def test_what_cannot_be_seen_is_not_there():
    """Directions, zero widths and terminal codes go; too long is cut."""
    assert line("a\u202eb\u200bc\x1b[31m\ud800 d\r\ne") == "abc [31m d e"
    assert line("a ##[add-mask]b") == "a ## [add-mask]b"
    assert line("x" * 500, 10) == "xxxxxxxxx\N{HORIZONTAL ELLIPSIS}"
    assert code("\u200b") == "-"


def test_a_run_is_a_sentence_a_table_and_what_failed(samples):
    """The sentence names the case and the number; the table has a row a case."""
    told = summary(samples.run(), "https://example.test/run/1")
    assert told.title.startswith("FAIL: 1 of 2 cases failed: 4x128/cached/b1-p16-n64-f32, throughput:")
    assert "| `4x128/cached/b1-p16-n64-f32` | \N{MULTIPLICATION X} **FAIL** |" in told.text
    assert "812 tokens/s \\(810 tokens/s to 814 tokens/s\\)" in told.text
    assert "- fail `4x128/cached/b1-p16-n64-f32` throughput" in told.text
    assert "dot \\(matmul\\)" in told.text
    assert told.text.rstrip().endswith("[details](https://example.test/run/1)</sub>")


def test_a_comparison_is_a_sentence_a_table_and_operations(samples):
    """The slowdown, its interval, its pairs, and the operation that explains it."""
    told = summary(samples.comparison())
    assert told.title.startswith("FAIL: 4x128/cached/b1-p16-n64-f32 takes 12.0% longer (+10.0% to +14.0%)")
    assert "\\+12\\.0% | \\+10\\.0% to \\+14\\.0% |" in told.text
    assert "<details><summary>What takes longer in head, operation by operation</summary>" in told.text
    assert "dot \\+720 us a token" in told.text


@pytest.mark.parametrize("text", EVIL)
def test_a_stranger_s_record_stays_text(samples, text):
    """In every field that a record shows: the only HTML, links and lines that begin anything are ours."""
    bad = Verdict(gate=text, outcome=Outcome.FAIL, summary=text, detail=(text,), advice=text)
    evil = replace(samples.case(trace=False), verdicts=(bad,), id=text)
    run = samples.run(evil, replace(evil, id=f"{text} 2"), id=text, suite=text, created_at=text)
    seen, honest = Seen(summary(run).text), Seen(summary(samples.run()).text)
    assert {tag for tag, _ in seen.tags} <= TAGS
    assert not any(told for _, told in seen.tags)
    assert [tag for tag, _ in seen.tags].count("td") == [tag for tag, _ in honest.tags].count("td")
    assert not LOOKED_FOR.search(seen.free)


def test_a_thousand_cases_fit(samples):
    """What does not fit is left out, and nothing stays open."""
    detail = Verdict(gate="speed", outcome=Outcome.FAIL, summary="x" * 500, advice="y" * 300)
    cases = [samples.case(f"4x128/cached/{'z' * 150}{number}", verdicts=(detail,)) for number in range(1000)]
    told = summary(samples.run(*cases)).text
    assert len(told) < MOST_CHARACTERS + 200
    assert "900 more cases are in the record." in told
    assert told.count("<details>") == told.count("</details>")


def test_what_is_cut_still_says_where_the_rest_is(samples):
    """The run and its link stay, and nothing is open: also of letters that GitHub counts twice."""
    detail = Verdict(gate="speed", outcome=Outcome.FAIL, summary="\N{GRINNING FACE}" * 500)
    cases = [samples.case(f"4x128/cached/{chr(0x1F600) * 180}{number}", verdicts=(detail,)) for number in range(200)]
    told = fitted(summary(samples.run(*cases), "https://example.test/run/1").text)
    assert "More is in the record: it does not fit here." in told
    assert told.rstrip().endswith("[details](https://example.test/run/1)</sub>")
    assert told.count("<details>") == told.count("</details>")


def test_a_failure_is_a_remark_on_a_line_that_the_repository_has(samples):
    """A place that nobody knows is no place: a record may name any file."""
    shapes = Verdict(gate="shapes", outcome=Outcome.FAIL, summary="1 program compiled", detail=("tokens",))
    event = CompileEvent(function="step", phase="steady", seconds=0.1, location="loop.py:7")
    case = samples.case(verdicts=(shapes,))
    run = samples.run(replace(case, evidence=replace(case.evidence, compiles=(event,))))
    (found,) = remarks(run, {"loop.py": "src/engine/loop.py"}.get)
    assert (found.path, found.line, found.level) == ("src/engine/loop.py", 7, "failure")
    assert found.message == "shapes: 1 program compiled\ntokens"
    (found,) = remarks(run)
    assert (found.path, found.line) == (ELSEWHERE, 1)


def test_what_was_not_measured_is_a_remark(samples):
    """With the first line of why."""
    case = samples.case(verdicts=(), status=Status.FAILED, error="RuntimeError: out of memory\nat line 3", trace=False)
    (found,) = remarks(samples.run(case))
    assert (found.level, found.message) == ("failure", "not measured: RuntimeError: out of memory")


def test_a_comparison_s_failures_are_remarks(samples):
    """The slowdown is one, what passed is none."""
    (found,) = remarks(samples.comparison())
    assert (found.title, found.level) == ("4x128/cached/b1-p16-n64-f32", "failure")
    assert found.message.startswith("speed: time +12.0%")


def test_warnings_of_a_run_are_one_line(samples):
    """A green check of a busy machine says that it was busy; notes stay in the record."""
    load = Finding(code="load-high", severity=Severity.WARNING, message="The machine was busy: load 12.")
    note = Finding(code="some-note", severity=Severity.NOTE, message="Nothing much.")
    case = replace(samples.case(), findings=(load, note, replace(load, message="Busy again.")))
    text = summary(replace(samples.run(case), findings=(note,))).text
    (told,) = [line for line in text.splitlines() if "load-high" in line]
    assert told.replace("\\", "") == "! warnings: `load-high` (2): The machine was busy: load 12. ..."
    assert "some-note" not in text
    calm = replace(case, findings=(note,))
    assert "warnings" not in summary(replace(samples.run(calm), findings=())).text


def test_every_case_that_makes_a_check_red_says_why(samples):
    """Not the first alone: whoever reads the comment of a pull request has no record at hand."""
    run = samples.run(samples.broken("a/b/c"), samples.broken("d/e/f"), declared=("a/b/c", "d/e/f", "g/h/i", "j/k/l"))
    text = summary(run).text.replace("\\", "")
    for name in ("a/b/c", "d/e/f"):
        assert f"- not measured `{name}`: the process died of signal 9" in text
    for name in ("g/h/i", "j/k/l"):
        assert f"- missing `{name}`: asked for and not measured" in text
    assert [(one.title, one.level) for one in remarks(run)] == [(name, "failure") for name in run.declared]


def test_a_case_that_was_not_compared_says_why_and_an_excuse_its_reason(samples):
    """Both stand in the comment; the check has a remark on the first alone, for the other costs nothing."""
    lost = Verdict(gate="speed", outcome=Outcome.SKIPPED, summary="all pairs broke")
    slower = Verdict(gate="speed", outcome=Outcome.FAIL, summary="slower", data={"excused": "accepted: exact"})
    record = samples.comparison()
    case = record.cases[0]
    record = replace(record, cases=(replace(case, id="a", verdicts=(slower,)), replace(case, id="b", verdicts=(lost,))))
    points = [line.replace("\\", "") for line in summary(record).text.splitlines() if line.startswith("- ")]
    assert points[:2] == [
        "- not compared `b` speed: all pairs broke",
        "- FAIL, excused `a` speed: slower. accepted: exact",
    ]
    assert [(one.title, one.level) for one in remarks(record)] == [("b", "failure")]
