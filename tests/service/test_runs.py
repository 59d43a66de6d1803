"""Runs over HTTP: kept once, whole, and refused in words."""

import gzip
import json
from datetime import UTC, datetime, timedelta

import pytest

from qwenperf.errors import RecordError
from qwenperf.formats.foreign import Told
from qwenperf.service.reading import read_sent

ENDLESS = 100_000


def test_a_run_that_was_sent_is_there_with_all_that_it_holds(project, documents):
    """The answer says where it is; cases, metrics, verdicts and the record itself are read back."""
    sent = documents.run(3, tpot_s=0.5, compiles_steady=0)
    told = project.post("/runs", sent)["records"][0]
    assert told["created"]
    assert told["url"] == f"{project.path}/runs/run-000003"
    found = project.get("/runs/run-000003")
    assert (found["commit"], found["branch"], found["outcome"]) == (sent["commit"]["sha"], "main", "pass")
    assert found["at"] == "2026-01-01T03:00:00Z"
    assert {(one["metric"], one["value"], one["unit"]) for one in found["metrics"]} == {
        ("tpot_s", 0.5, "s"), ("compiles_steady", 0.0, "count"),
    }  # fmt: skip
    assert [one["gate"] for one in found["verdicts"]] == ["shapes"]
    assert project.get("/runs/run-000003/record") == sent


def test_the_same_content_again_is_the_same_run(project, documents):
    """A retry after a lost answer changes nothing, however its JSON is written; the answer names the run."""
    sent = documents.run(1)
    first = project.post("/runs", sent)["records"][0]
    text = json.dumps(dict(reversed(sent.items())), indent=3)
    again = project.ask("POST", "/runs", 200, content=text).json()["records"][0]
    assert (again["id"], again["created"], again["sha256"]) == (first["id"], False, first["sha256"])
    assert len(project.get("/runs")["runs"]) == 1
    assert project.get("/series")["series"][0]["total"] == 1


def test_another_run_under_a_taken_name_is_refused(project, documents):
    """Nobody rewrites history by an id that was used."""
    project.post("/runs", documents.run(1, value=1.0))
    told = project.post("/runs", documents.run(1, value=2.0), 409)
    assert "run-000001" in told["error"]
    assert told["advice"]
    assert project.get("/runs/run-000001")["metrics"][0]["value"] == 1.0


def test_a_metric_that_nobody_has_heard_of_needs_no_code(project, documents):
    """Unit, direction and kind come from the record."""
    project.post("/runs", documents.run(1, flux_s=7.0))
    (found,) = project.get("/series")["series"]
    assert (found["metric"], found["unit"], found["direction"], found["kind"]) == ("flux_s", "s", "lower", "timed")


def change(document, *path, value):
    *way, last = path
    part = document
    for step in way:
        part = part[step]
    part[last] = value
    return document


METRIC = ("cases", 0, "metrics", "tpot_s")


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        ((*METRIC, "unit"), "ms", "cases[0].metrics.tpot_s.unit"),
        ((*METRIC, "direction"), "sideways", "direction"),
        ((*METRIC, "value"), "fast", "cases[0].metrics.tpot_s.value"),
        ((*METRIC, "value"), 10**400, "finite"),
        (("schema",), "qwenperf.run.v9", "qwenperf.run.v9"),
        (("created_at",), "yesterday", "created_at"),
        (("commit", "committed_at"), "9999-12-31T23:59:59-23:59", "commit.committed_at"),
        (("commit", "committed_at"), "9999-12-31T23:59:59.999999Z", "commit.committed_at"),
        (("commit", "committed_at"), "0001-01-01T00:00:00+23:59", "commit.committed_at"),
        (("created_at",), "0001-01-01T00:00:00Z", "created_at"),
        (("created_at",), "2100-01-01T00:00:00Z", "created_at"),
        (("cases", 0, "evidence"), {"roofline": {"bytes_per_s": 1e308, "flops_per_s": 1.0}}, "roofline_bytes_per_s"),
        (("cases", 0, "wall_s"), 1e308, "wall_s"),
        (("commit", "committed_at"), "soon", "commit.committed_at"),
        (("id",), "../../etc/passwd", "id"),
        (("id",), "a b", "id"),
        (("id",), "x" * 201, "id"),
        (("cases", 0, "id"), "a\nb", "cases[0].id"),
        (("cases", 0, "id"), "nul\x00", "cases[0].id"),
        (("cases", 0, "id"), "half \ud800", "half"),
        (("cases", 0, "metrics"), {"x" * 600: None}, "cases[0].metrics"),
        (("cases", 0, "id"), "\N{CJK UNIFIED IDEOGRAPH-4E00}" * 450, "cases[0].id"),
        (("cases",), None, "cases"),
    ],
)
def test_a_record_that_no_measurement_gives_is_refused_by_its_key(project, documents, path, value, named):
    """The answer names the key path and what was seen; nothing is kept."""
    text = json.dumps(change(documents.run(1), *path, value=value))
    told = project.ask("POST", "/runs", 422, content=text).json()
    assert named in told["error"]
    assert set(told) == {"error", "advice"}
    assert project.get("/runs")["runs"] == []
    assert project.get("/series")["series"] == []


@pytest.mark.parametrize(
    ("kind", "path"),
    [("runs", ("created_at",)), ("runs", ("commit", "committed_at")), ("comparisons", ("created_at",))],
)
def test_a_record_from_the_future_is_refused(project, documents, kind, path):
    """By a clock that is wrong, nothing later would ever be the newest; a day ahead, as clocks go, is taken."""

    def send(days, status):
        at = (datetime.now(UTC) + timedelta(days=days)).isoformat()
        document = documents.run(1) if kind == "runs" else documents.comparison()
        return project.post("/runs", change(document, *path, value=at), status)

    told = send(1.1, 422)
    assert ".".join(path) in told["error"]
    assert f"{datetime.now(UTC):%Y-%m-%d}" in told["error"]
    assert "clock" in told["advice"]
    assert project.get(f"/{kind}")[kind] == []
    send(0.9, 201)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "1", '"x"', "{}", '{"schema": NaN}', '{"a": Infinity}', "[" * ENDLESS, '{"a":' * ENDLESS,
     b"\xff\xfe\x00", b"\x00" * 100],
)  # fmt: skip
def test_what_is_no_record_is_refused(project, text):
    """Whatever arrives is answered with what was wrong with it."""
    told = project.ask("POST", "/runs", 422, content=text).json()
    assert told["error"]


def test_numbers_that_are_not_finite_are_refused(project, documents):
    """NaN is no reading, wherever it hides."""
    text = json.dumps(documents.run(1)).replace('"cores": 2', '"cores": NaN')
    assert "NaN" in text
    assert "NaN" in project.ask("POST", "/runs", 422, content=text).json()["error"]


def test_the_longest_names_are_taken_in_any_script(project, documents):
    """An index holds bytes and names are characters: what is told of by name fits, incompressible as it may be."""
    case, metric = (("".join(chr(first + 7919 * at % 20_000) for at in range(433))) for first in (0x4E00, 0x4E01))
    run = documents.run(1, cases=[case], **{metric: 1.0})
    project.post("/runs", run)
    assert [row["case"] for row in project.get("/series")["series"]] == [case]


def test_a_metric_in_another_unit_than_before_is_refused(project, documents):
    """One series, one unit: also for metrics that the registry does not know."""
    project.post("/runs", documents.run(1, flux_s=1.0))
    other = documents.run(2, flux_s=1.0)
    other["cases"][0]["metrics"]["flux_s"]["unit"] = "ms"
    told = project.post("/runs", other, 422)
    assert "'ms'" in told["error"]
    assert "'s'" in told["error"]
    assert len(project.get("/runs")["runs"]) == 1


def test_a_body_that_is_too_long_is_not_read(project):
    """The limit holds for what is announced, for what comes without a length, and for what gzip unpacks to."""
    long = b'{"a": "' + b"x" * 3_000_000 + b'"}'
    bomb = gzip.compress(b"0" * 20_000_000, 1)
    assert len(bomb) < 100_000
    for body, headers in ((long, {}), (iter([long]), {}), (bomb, {"Content-Encoding": "gzip"})):
        answer = project.http.post(f"{project.path}/runs", content=body, headers=headers)
        assert answer.status_code == 413, answer.text


def test_a_compressed_record_is_read(project, documents):
    """Packed by gzip, a run is a tenth; other codings and broken streams are refused."""
    data = gzip.compress(json.dumps(documents.run(1)).encode())
    project.ask("POST", "/runs", 201, content=data, headers={"Content-Encoding": "gzip"})
    project.ask("POST", "/runs", 400, content=data[:-20], headers={"Content-Encoding": "gzip"})
    project.ask("POST", "/runs", 400, content=b"no gzip", headers={"Content-Encoding": "gzip"})
    project.ask("POST", "/runs", 415, content=data, headers={"Content-Encoding": "br"})


def test_bytes_behind_a_gzip_stream_are_refused_as_they_come(project, documents):
    """They are no part of a record, and would be held without end."""
    data = gzip.compress(json.dumps(documents.run(1)).encode())
    said = {"Content-Encoding": "gzip"}
    project.ask("POST", "/runs", 400, content=data + b"more", headers=said)
    told = project.ask("POST", "/runs", 400, content=iter([data, *[bytes(1 << 20)] * 8]), headers=said).json()
    assert "behind" in told["error"]
    # Empty blocks unpack to nothing: they count by themselves.
    empty = b"\x00\x00\x00\xff\xff" * 600_000
    project.ask("POST", "/runs", 413, content=iter([data[:10], empty]), headers=said)


def test_whoever_may_not_make_a_project_is_told_before_the_body_is_read(shared):
    """What a stranger sends is never unpacked."""
    with shared.client("") as stranger:
        answer = stranger.post("/api/v1/projects", content=b"no gzip", headers={"Content-Encoding": "gzip"})
    assert answer.status_code == 401


def test_a_record_of_very_many_values_is_refused_before_it_is_parsed():
    """Two bytes of text may take a hundred of memory."""
    with pytest.raises(RecordError, match="values"):
        read_sent(b"{}," * 1_100_000, "", Told(modified_at=""), "")


def test_half_a_character_in_a_record_breaks_no_page(project, documents):
    """JSON can write it, and a page shows that something was there."""
    sent = documents.run(1)
    sent["cases"][0]["verdicts"][0]["summary"] = "half \ud800"
    sent["environment"]["note"] = "half \udc00"
    project.ask("POST", "/runs", 201, content=json.dumps(sent))
    assert project.http.get(f"/p/{project.name}/runs/run-000001").status_code == 200


def test_another_tool_s_file_is_a_run_like_ours(project):
    """Where the format is named; two files of one benchmark are points of one series."""
    for number, value in enumerate((1.0, 2.0)):
        data = [{"name": "decode", "unit": "ms", "value": value}]
        query = {"format": "github-action-smaller", "measured_at": f"2026-01-0{number + 1}T00:00:00Z"}
        project.ask("POST", "/runs", 201, json=data, params=query)
    (found,) = project.get("/series")["series"]
    assert (found["total"], found["last_value"], found["unit"]) == (2, 2.0, "ms")
    told = project.ask("POST", "/runs", 404, json=[], params={"format": "nosuch"}).json()
    assert "nosuch" in told["error"]


def test_a_comparison_is_kept_and_read_back(project, documents):
    """With its sides, its verdicts and its record; once."""
    sent = documents.comparison()
    told = project.post("/comparisons", sent)["records"][0]
    assert (told["kind"], told["created"]) == ("comparison", True)
    project.ask("POST", "/comparisons", 200, json=sent)
    found = project.get("/comparisons/compare-1")
    assert (found["base"]["label"], found["head"]["commit"], found["outcome"]) == ("main", "b" * 40, "fail")
    assert project.get("/comparisons/compare-1/record") == sent
    assert [one["comparison"] for one in project.get("/comparisons")["comparisons"]] == ["compare-1"]


def test_runs_are_listed_page_by_page_and_by_what_they_are_of(project, documents):
    """No run is left out or told twice, also where several are of one commit."""
    for number in range(5):
        document = documents.run(number, branch="main" if number % 2 else "side")
        document["commit"]["committed_at"] = "2026-01-01T00:00:00Z"
        project.post("/runs", document)
    seen, cursor = [], None
    while True:
        page = project.get("/runs", limit=2, **({"cursor": cursor} if cursor else {}))
        seen += [row["run"] for row in page["runs"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert seen == [f"run-{number:06d}" for number in (4, 3, 2, 1, 0)]
    assert [row["run"] for row in project.get("/runs", branch="main")["runs"]] == ["run-000003", "run-000001"]
    assert project.get("/runs", 422, limit=0)["error"]
    assert project.get("/runs", 422, cursor="1; DROP TABLE runs")["error"]


def test_a_project_s_budgets_judge_what_arrives(project, documents):
    """They replace the verdicts that a run brings, and the record stays as it was sent."""
    budgets = {"tiny/*": {"compiles_steady": {"max": 0}}}
    project.ask("PATCH", "", 200, json={"budgets": budgets})
    sent = documents.run(1, compiles_steady=3)
    project.post("/runs", sent)
    found = project.get("/runs/run-000001/verdicts")
    assert found["outcome"] == "fail"
    assert any(one["gate"] != "shapes" or one["outcome"] == "fail" for one in found["verdicts"])
    assert project.get("/runs/run-000001/record") == sent
    wrong = project.ask("PATCH", "", 422, json={"budgets": {"*": {"compile_steady": {"max": 0}}}}).json()
    assert "compiles_steady" in wrong["advice"]
