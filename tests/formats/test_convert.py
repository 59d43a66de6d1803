"""Formats by name, and found out by content."""

import json
from dataclasses import replace

import pytest

from qwenperf.errors import FormatError, RecordError, UnknownNameError
from qwenperf.formats.convert import FORMATS, READABLE, detect, read, write
from qwenperf.formats.foreign import Told
from qwenperf.formats.place import Document
from qwenperf.schema.codec import dumps
from qwenperf.schema.records import CaseRecord, RunRecord, metric

TOLD = Told(modified_at="2026-01-02T03:04:05+00:00")
RUN = RunRecord(
    id="20260101T000000Z-abc123", created_at="2026-01-01T00:00:00+00:00", suite="s",
    environment={"cpu_model": "c", "python": "3.11"},
    commit={"sha": "a" * 40, "committed_at": "2026-01-01T00:00:00+00:00"},
    cases=(
        CaseRecord(
            id="m/cached/b1",
            spec={"model": "m", "workload": {"prompt_length": 4, "new_tokens": 8, "batch": 1, "dtype": "f32"}},
            metrics={
                "tpot_s": metric("tpot_s", 0.2), "request_s": metric("request_s", 1.5),
                "decode_tokens_per_s": metric("decode_tokens_per_s", 5.0),
            },
        ),
    ),
)  # fmt: skip


def test_what_is_written_is_told_apart_and_read_again():
    """Every format that is read knows its own writer's files; arrays say no direction, and need a word."""
    for name in READABLE:
        documents = write([RUN], name)
        named = [Document(name=f"out/{one.name or 'file.json'}", text=one.text) for one in documents]
        if name.startswith("github-action-"):
            with pytest.raises(FormatError, match=r"--from github-action-smaller or --from github-action-bigger"):
                detect(named[0])
        else:
            assert {detect(one) for one in named} == {name}
            assert all(run.cases[0].metrics for run in read(named, TOLD))
        # A dashboard judges a suite one way, so that a run with both becomes two.
        assert len(read(named, TOLD, name)) == (2 if name == "github-action" else 1)


@pytest.mark.parametrize("text", ["", "{}", "[]", "not json", "[1]", '{"a": {"b": 1}}'])
def test_what_is_no_format_is_refused_with_the_names_of_all(text):
    """And how to say it."""
    with pytest.raises(FormatError, match=r"cannot tell the format of x\. Say it with --from: qwenperf, asv, pytest"):
        detect(Document(name="x", text=text))


@pytest.mark.parametrize("text", ['{"schema": "qwenp', "[" * 100_000, '{"a": ' + "9" * 5000 + "}"])
def test_what_begins_like_json_and_is_none_is_told_so(text):
    """A file that was cut short is no unknown format."""
    with pytest.raises(FormatError, match=r"x is not JSON: .*\. Was it cut short\?"):
        detect(Document(name="x", text=text))


def test_files_of_several_formats_are_read_together():
    """Each by what it is; a run of ours is checked as everywhere."""
    bmf = Document(name="b.json", text=json.dumps({"a": {"latency": {"value": 1.0}}}))
    ours = Document(name="run.json", text=dumps(RUN))
    assert [run.suite for run in read([bmf, ours], TOLD)] == ["bencher", "s"]
    with pytest.raises(RecordError, match=r"run\.json: suite is missing"):
        read(
            [Document(name="run.json", text=json.dumps({"schema": "qwenperf.run.v1", "id": "", "created_at": ""}))],
            TOLD,
        )


def test_unknown_formats_and_empty_lists_are_errors():
    """Nothing is written of nothing, and what is only written cannot be read."""
    with pytest.raises(UnknownNameError, match="Did you mean 'bencher'"):
        write([RUN], "benche")
    with pytest.raises(UnknownNameError, match="unknown format 'junit'"):
        read([], TOLD, "junit") or read([Document(name="", text="")], TOLD, "junit")
    with pytest.raises(FormatError, match="no run to write"):
        write([], "bencher")


def test_the_same_data_have_the_same_id():
    """Importing a file twice is one run."""
    document = Document(name="b.json", text=json.dumps({"a": {"latency": {"value": 1.0}}}))
    first, again = (read([document], TOLD)[0].id for _ in range(2))
    assert first == again
    assert read([document], Told(modified_at="2026-01-02T03:04:06+00:00"))[0].id != first


def test_every_format_says_what_it_is(repository):
    """And the page says it too."""
    page = (repository / "docs" / "formats.md").read_text(encoding="utf-8")
    assert [name for name in FORMATS if f"| `{name}` |" not in page] == []


@pytest.mark.parametrize(
    ("name", "source"), [("asv", {}), ("github-action", {"entry": 3}), ("asv", {"machine": {}, "params": 7})]
)
def test_a_source_that_no_tool_left_is_told(name, source):
    """A run may say that it came from a file of a tool, and hold nothing of it."""
    lying = replace(RUN, extra={"source": {"format": name, **source}})
    with pytest.raises(FormatError, match=f"`source` of run {RUN.id} is not what reading"):
        write([lying], name)
