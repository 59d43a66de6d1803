"""Comparisons that are pushed bring the summaries of their traces: the service shows what changed from these alone."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from qwenperf.cli.push import command
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

    def run(place, *options):
        where = [f"--url={project.server.url}", f"--project={project.name}", f"--spool-folder={tmp_path / 'spool'}"]
        command.main([str(place), *where, *options, "--json"], standalone_mode=False)
        (done,) = json.loads(capsys.readouterr().out)["pushed"]
        return done

    return run


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
