"""``qwenperf report``: the page of a saved record, where it goes, what it links to, and what has none."""

import importlib.util
import json
import os
from pathlib import Path

import pytest

from qwenperf.cli import main
from qwenperf.cli.report_file import keep_page, links
from qwenperf.schema.codec import dumps

_SPEC = importlib.util.spec_from_file_location(
    "sample_records", Path(__file__).parents[1] / "report" / "sample_records.py"
)
samples = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(samples)


@pytest.fixture
def call(capsys):
    """Run the command here; return its exit code, output and errors."""

    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            main(["report", *map(str, arguments)])
        return end.value.code, *capsys.readouterr()

    return run


@pytest.fixture
def folder(tmp_path):
    """The folder of a run with a trace, as the lab leaves it."""
    folder = tmp_path / "RUN"
    trace = folder / samples.run().cases[1].trace
    trace.parent.mkdir(parents=True)
    trace.write_bytes(b"")
    (folder / "run.json").write_text(dumps(samples.run()))
    return folder


@pytest.fixture
def compared(tmp_path):
    """The folder of a comparison."""
    folder = tmp_path / "compare-1"
    folder.mkdir()
    (folder / "comparison.json").write_text(dumps(samples.comparison()))
    return folder


@pytest.mark.parametrize("name", ["", "run.json"])
def test_a_run_is_named_by_its_folder_or_its_record(folder, call, name):
    """The page lies beside the record, and stdout says where."""
    code, out, _ = call(folder / name)
    assert (code, out) == (0, f"{folder / 'report.html'}\n")
    page = (folder / "report.html").read_text("utf-8")
    assert 'href="./plugins/profile/cached"' in page
    assert f"qwenperf trace open {folder}" in page


def test_half_a_character_in_a_record_costs_no_page(folder, call):
    """JSON can hold it, and no file can."""
    file = folder / "run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"suite": "half \ud800"}))
    assert call(folder)[0] == 0
    assert "half ?" in (folder / "report.html").read_text("utf-8")


def test_a_comparison_is_known_by_its_record(compared, call, tmp_path):
    """By its name, or under another by what it says of itself; the document has the first sentence."""
    code, out, _ = call(compared, "--json")
    said = json.loads(out)
    assert code == 0
    assert (said["kind"], said["verdict"]) == ("comparison", "FAIL")
    assert said["headline"].startswith(f"{samples.CASE} takes 12.0% longer")
    assert Path(said["report"]).stat().st_size == said["bytes"]
    other = tmp_path / "kept.json"
    (compared / "comparison.json").rename(other)
    assert json.loads(call(other, "--json")[1])["kind"] == "comparison"


def test_the_page_goes_where_it_is_asked_to(folder, call, tmp_path):
    """To a file, or into a folder; links are written from there."""
    assert call(folder, "--out", tmp_path / "page.html")[0] == 0
    assert 'href="./RUN/plugins/profile/cached"' in (tmp_path / "page.html").read_text("utf-8")
    place = tmp_path / "pages"
    place.mkdir()
    assert call(folder, "--out", place)[1] == f"{place / 'report.html'}\n"
    assert 'href="./../RUN/run.json"' in (place / "report.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nowhere"], "cannot read nowhere"),
        ([""], "the name is empty"),
        (["RUN", "--out", "RUN/run.json"], "is the record itself"),
        (["RUN", "--out", "RUN/run.json/x"], "cannot write"),
        (["programs"], "holds compiled programs, which have no page"),
        (["text"], "is not JSON"),
    ],
)
def test_what_cannot_be_is_one_line(folder, call, monkeypatch, arguments, told):
    """With exit code 2, and nothing written."""
    monkeypatch.chdir(folder.parent)
    Path("programs").mkdir()
    Path("programs/aot.json").write_text("{}")
    Path("text").write_text("no JSON")
    before = (folder / "run.json").read_bytes()
    code, out, error = call(*arguments)
    assert (code, out) == (2, "")
    assert told in error
    assert error.count("\n") == 1 or "Usage" in error
    assert (folder / "run.json").read_bytes() == before


def test_a_page_that_cannot_be_written_costs_nothing(folder, capsys):
    """The record was kept before: a warning, and the run ends as it would have."""
    (folder / "report.html").mkdir()
    assert keep_page(samples.run(), folder / "run.json") is None
    assert "warning: no report.html was written: OutputError" in capsys.readouterr().err
    assert sorted(one.name for one in folder.iterdir()) == ["plugins", "report.html", "run.json"]


def test_a_page_is_kept_beside_its_record(compared):
    """Also without a trace on disk."""
    kept = keep_page(samples.comparison(), compared / "comparison.json")
    assert kept == compared / "report.html"
    assert samples.CASE in kept.read_text("utf-8")


def test_the_record_in_this_folder_has_commands_with_a_name(folder, call, monkeypatch):
    """`.` is no run for a viewer that wants the folder above."""
    monkeypatch.chdir(folder)
    assert call("run.json")[0] == 0
    assert f"tensorboard --logdir {os.path.realpath(folder.parent)}" in Path("report.html").read_text("utf-8")


def test_only_what_lies_in_the_folder_is_linked_to(tmp_path):
    """Whatever a record names: nothing above, nothing absent, nothing that is read as another address."""
    folder = tmp_path / "RUN"
    (folder / "javascript:alert(1)").mkdir(parents=True)
    (folder / "a#b?c%d").touch()
    (tmp_path / "secret").touch()
    (folder / "out").symlink_to(tmp_path / "secret")
    href = links(folder, folder)
    assert href("javascript:alert(1)") == "./javascript%3Aalert%281%29"
    assert href("a#b?c%d") == "./a%23b%3Fc%25d"
    for name in ("../secret", str(tmp_path / "secret"), "out", "absent", "", "x" * 5000, "a\0b"):
        assert href(name) == ""
