"""Pages as a whole: one file that needs nothing else, in which nothing of a record is anything but text."""

import base64
import dataclasses
import hashlib
import itertools
import json
import re

import pytest

from qwenperf.report.html import Place, comparison_page, run_page
from qwenperf.report.html_words import breakable, coded
from qwenperf.schema.codec import comparison_loads, dumps, loads
from qwenperf.schema.comparison import ComparisonRecord

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>'\"{{ 7*7 }}&amp;"


@pytest.fixture(scope="module")
def pages(samples):
    """A page of either kind."""
    place = Place(folder="profiles/RUN", record="record.json", href=lambda path: f"./{path}")
    return {"run": run_page(samples.run(), place), "comparison": comparison_page(samples.comparison(), place)}


both = pytest.mark.parametrize("kind", ["run", "comparison"])


@both
def test_a_page_asks_for_nothing(pages, parse, kind):
    """Every link stays on the page or beside it, and the style names no other file."""
    page = parse(pages[kind])
    links = [value for node in page.all() for name, value in node.attributes.items() if name in {"href", "src"}]
    assert links
    assert [link for link in links if not link.startswith(("#", "./", "data:,"))] == []
    assert page.all("script", "img", "iframe", "object", "embed", "form") == []
    assert not re.search(r"url\(|@import|@font-face", page.one("style").text)


@both
def test_a_page_forbids_itself_everything_but_its_own_style(pages, parse, kind):
    """The policy names the style by its digest: another one, or a script, would not be taken."""
    page = parse(pages[kind])
    policy = page.one("meta", http_equiv="Content-Security-Policy")["content"]
    style = "".join(page.one("style").pieces)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}';")
    assert [node for node in page.all() if "style" in node.attributes] == []


@both
def test_a_page_reads_without_its_looks(pages, parse, kind):
    """Headings in order, a caption and scopes for each table, a name for each drawing, and no id twice."""
    page = parse(pages[kind])
    assert pages[kind].startswith('<!doctype html>\n<html lang="en">')
    levels = [int(node.tag[1]) for node in page.all("h1", "h2", "h3", "h4")]
    assert levels.count(1) == 1
    assert [later for earlier, later in itertools.pairwise(levels) if later > earlier + 1] == []
    tables = page.all("table")
    assert len(tables) > 5
    assert [table for table in tables if not (table.all("caption") and table.all("caption")[0].text)] == []
    assert [head for head in page.all("th") if head.attributes.get("scope") not in {"row", "col"}] == []
    drawings = page.all("svg")
    assert [one for one in drawings if one.attributes.get("aria-hidden") != "true" and not one.all("title")] == []
    ids = [node["id"] for node in page.all() if "id" in node.attributes]
    assert len(ids) == len(set(ids))
    targets = {node["href"][1:] for node in page.all("a") if node["href"].startswith("#")}
    assert targets
    assert targets <= set(ids)


def poisoned(value, keep):
    """Return a record with all its texts hostile but for those that have a few values only."""
    if dataclasses.is_dataclass(value):
        names = {field.name for field in dataclasses.fields(value)} - keep
        return dataclasses.replace(value, **{name: poisoned(getattr(value, name), keep) for name in names})
    if isinstance(value, dict):
        return {
            f"{HOSTILE}{key}" if key in {"cpu_model", "governor"} else key: poisoned(one, keep)
            for key, one in value.items()
        }
    if isinstance(value, tuple | list):
        return type(value)(poisoned(one, keep) for one in value)
    return f"{HOSTILE}{value}" if type(value) is str else value


@both
def test_whatever_a_record_holds_stays_text(samples, parse, kind):
    """Names, words, keys of free data: in all of them markup is shown, and nothing of it is there."""
    known = {"schema", "first", "order", "unit", "gate"}
    record = poisoned(samples.run() if kind == "run" else samples.comparison(), known)
    page = run_page(record) if kind == "run" else comparison_page(record)
    tree = parse(page)
    assert "<script>" not in page
    assert "49" not in tree.one("h1").text
    assert tree.all("script", "img") == []
    assert [name for node in tree.all() for name in node.attributes if name.startswith("on")] == []
    assert tree.text.count("<script>alert(1)</script><img src=x onerror=alert(2)>'\"{{ 7*7 }}&amp;") > 20


@both
def test_a_page_can_be_written_whatever_letters_a_record_has(samples, parse, kind):
    """Half a character is none that a file can hold, and a page holds no letter that steers something."""
    record = dataclasses.replace(samples.run() if kind == "run" else samples.comparison(), id="\ud800\x00\x1b[31m\x9bä")
    page = run_page(record) if kind == "run" else comparison_page(record)
    assert parse(page.encode().decode()).one("h1").text.endswith("???[31m?ä")
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", page)


@both
def test_a_page_is_the_same_from_the_saved_record(samples, pages, kind):
    """What is written after measuring can be made again."""
    record = samples.run() if kind == "run" else samples.comparison()
    again = (comparison_loads if isinstance(record, ComparisonRecord) else loads)(dumps(record))
    place = Place(folder="profiles/RUN", record="record.json", href=lambda path: f"./{path}")
    assert (run_page if kind == "run" else comparison_page)(again, place) == pages[kind]


@both
def with_odd(data, odd):
    """Put ``odd`` wherever a record may hold anything."""
    for case in data["cases"]:
        case["spec"] = {"engine": odd, "model": odd}
        for verdict in case["verdicts"]:
            verdict["data"] = {"stage_1": odd, "stage_2": odd, "excused": odd} if verdict["gate"] == "speed" else {}
        if "evidence" in case and (odd is None or isinstance(odd, dict)):
            case["evidence"]["trace_summary"] = odd
        case.update({} if "evidence" in case else dict.fromkeys(("trace_summaries", "traces", "trace_remarks"), odd))
    if "plan" in data:
        return {**data, "plan": {"margins": odd}, "new": odd}
    return {**data, "environment": {"cores": odd, "isa": odd}}


@pytest.mark.parametrize("odd", ["text", 7, None, [], {"step_s": "x"}, {"operations": [1, 2]}, {"estimate": "x"}])
def test_a_page_of_odd_free_data_is_a_page(samples, parse, odd):
    """What no version writes is told where it would be, or left out; the rest is there."""
    run = loads(json.dumps(with_odd(json.loads(dumps(samples.run())), odd)))
    comparison = comparison_loads(json.dumps(with_odd(json.loads(dumps(samples.comparison())), odd)))
    for page in (run_page(run), comparison_page(comparison)):
        assert samples.CASE in parse(page).one("main").text


def test_keys_break_at_underscores_and_commands_are_code():
    """Whatever else is in them stays text."""
    assert breakable("decode_tokens<b>") == "decode_<wbr>tokens&lt;b&gt;"
    assert coded("Run `a <b>` and ` alone.") == "Run <code>a &lt;b&gt;</code> and ` alone."
