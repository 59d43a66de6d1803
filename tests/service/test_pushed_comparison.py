"""Comparisons that are pushed bring the summaries of their traces, and the traces where one asks."""

import hashlib
import importlib.util
import json
import re
from pathlib import Path

import httpx
import pytest

from qwenperf.cli.push import command
from qwenperf.errors import UsageError
from qwenperf.schema.codec import dumps

NAME = "compare-20261128T075759Z-9740af"
DATA = {"base": b"trace of base" * 100, "head": b"trace of head" * 100}


@pytest.fixture
def folder(tmp_path, samples):
    """The folder of a comparison with traces of both sides."""
    place = tmp_path / NAME
    for side, data in DATA.items():
        traces = place / "plugins" / "profile" / f"case-{side}"
        traces.mkdir(parents=True)
        (traces / "host.xplane.pb").write_bytes(data)
    (place / "comparison.json").write_bytes(dumps(samples.comparison()).encode())
    return place


@pytest.fixture
def samples():
    """The records that reports are tested with."""
    place = Path(__file__).parents[1] / "report" / "sample_records.py"
    spec = importlib.util.spec_from_file_location("samples_of_reports", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def push(project, tmp_path, monkeypatch, capsys):
    """Push a place and return what became of it."""
    monkeypatch.setenv("QWENPERF_TOKEN", project.server.admin)

    def run(*words):
        where = [f"--url={project.server.url}", f"--project={project.name}", f"--spool-folder={tmp_path / 'spool'}"]
        command.main([*where, *map(str, words), "--patience=0", "--json"], standalone_mode=False)
        done = json.loads(capsys.readouterr().out)["pushed"]
        return done[0] if len(done) == 1 else done

    return run


def files(project):
    """Return the files of the comparison that the service has, by path."""
    found = project.get(f"/comparisons/{NAME}/files")["files"]
    place = f"/comparisons/{NAME}/files"
    return {one["path"]: project.ask("GET", f"{place}/{one['path']}", 200).content for one in found}


WHOLE = {f"plugins/profile/case-{side}/host.xplane.pb": data for side, data in DATA.items()}


def page(project):
    """Return the comparison's page as a person with a token sees it."""
    return project.http.get(f"/p/{project.name}/comparisons/{NAME}", headers={"Accept": "text/html"}).text


def test_the_page_of_a_comparison_shows_its_traces_by_operation_from_the_record_alone(project, push, folder):
    """Nothing but the record travels; what took longer in head is told by operation, as the summaries have it."""
    done = push(folder)
    assert (done["fate"], done["files"]) == ("sent", 0)
    shown = page(project)
    words = " ".join(re.sub(r"<[^>]*>", " ", shown).split())
    assert "What changed in the traces" in words
    assert re.search(r"dot\b.*\+", words)
    assert ".xplane.pb" not in shown
    assert files(project) == {}


def test_traces_are_sent_where_one_asks_also_later(project, push, folder):
    """The record that is there already gets its files; sending them once more changes nothing."""
    push(folder)
    for _ in range(2):
        done = push(folder, "--comparison-traces")
        assert (done["fate"], done["files"]) == ("already there", 2)
        assert files(project) == WHOLE
    assert next(iter(WHOLE)) in page(project)


def test_traces_that_could_not_be_sent_wait_and_go_later(project, push, folder, tmp_path):
    """Also where the record alone waited before; then nothing waits."""
    nowhere = "--url=http://127.0.0.1:9"
    assert push(folder, nowhere)["fate"] == "spooled"
    assert push(folder, nowhere, "--comparison-traces")["fate"] == "spooled"
    for path in (tmp_path / "spool").rglob("parcel.json"):
        path.write_text(path.read_text().replace("http://127.0.0.1:9", project.server.url))
    for side in DATA:
        (folder / "plugins" / "profile" / f"case-{side}" / "host.xplane.pb").unlink()
    assert {one["fate"] for one in push("--spool")} == {"sent", "already there"}
    assert files(project) == WHOLE
    assert list((tmp_path / "spool").iterdir()) == []


def test_a_trace_goes_on_from_where_an_earlier_push_broke_off(project, push, folder, monkeypatch):
    """Only the rest travels."""
    push(folder)
    (path, data), *_ = WHOLE.items()
    told = {"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    upload = project.post(f"/comparisons/{NAME}/files", told)["upload"]
    project.ask("PATCH", f"/uploads/{upload}", 200, content=data[:1000], headers={"Upload-Offset": "0"})
    asked, send = [], httpx.Client.send
    monkeypatch.setattr(httpx.Client, "send", lambda self, one, **more: asked.append(one) or send(self, one, **more))
    push(folder, "--comparison-traces")
    offsets = {one.url.path: one.headers["Upload-Offset"] for one in asked if one.method == "PATCH"}
    assert offsets[f"{project.path}/uploads/{upload}"] == "1000"
    assert files(project) == WHOLE


def test_traces_cannot_be_both_sent_and_kept(push, folder):
    """What contradicts itself is told before anything is sent."""
    with pytest.raises(UsageError, match="contradict"):
        push(folder, "--comparison-traces", "--no-traces")
