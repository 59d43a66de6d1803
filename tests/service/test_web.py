"""The pages over HTTP: what they show, and that nothing which others named is markup."""

import hashlib
import importlib.util
import io
import re
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from qwenperf.schema.codec import loads
from qwenperf.schema.records import metric
from qwenperf.service.settings import ServiceSettings
from qwenperf.service.web import links, signs
from qwenperf.service.web.compare import beside as beside_metric
from qwenperf.service.web.lists import split


def beside(name, folder="service"):
    """Load a module that lies beside the tests."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[1] / folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


filled, running, browsing, samples = (
    beside("filled"), beside("running"), beside("browsing"), beside("sample_records", "report")
)  # fmt: skip
browser, admin, checked = browsing.browser, browsing.admin, browsing.checked


@pytest.fixture(scope="module", params=running.DATABASES)
def service(request, tmp_path_factory):
    """A service with a filled project, an empty one, a private one, and one of hostile names."""
    folder = tmp_path_factory.mktemp("web")
    with running.database(request) as database:
        yield from filled_service(
            ServiceSettings(data=folder, database=database, judge=False, sweep_s=0, anonymous_burst=10_000)
        )


def filled_service(settings):
    """Serve with something of everything."""
    with running.serving(settings) as found:
        filled.fill(found, samples)
        filled.fill_hostile(found, samples)
        filled.make_project(found, "empty", public=True)
        filled.make_project(found, "private")
        yield found


PAGES = (
    "", "/series", "/matrix", "/runs", "/comparisons", "/alerts", "/runs/{run}", "/comparisons/{comparison}",
    "/alerts?state=accepted", "/series?q=cached", "/matrix?metric=tpot_s", "/compare", "/compare?base={run}&head={run}",
)  # fmt: skip


def addresses(project):
    run, comparison = ("hostile-001", "hostile") if project == "hostile" else ("run-030", samples.comparison().id)
    return [f"/p/{project}{path.format(run=run, comparison=comparison)}" for path in PAGES]


@pytest.mark.parametrize("project", ["demo", "hostile", "empty"])
@pytest.mark.parametrize("number", range(len(PAGES)))
def test_every_page_of_every_project_is_sound_and_runs_nothing_inline(browser, project, number):
    if project == "empty" and "{" in PAGES[number]:
        return
    html = checked(browser.get(addresses(project)[number]))
    assert "<script>document" not in html
    assert "<img" not in html


def test_names_that_are_markup_are_shown_as_text(browser):
    html = browser.get("/p/hostile/runs/hostile-001")
    assert "&lt;script&gt;document.title" in html


def test_the_page_of_a_hostile_series_is_sound(browser):
    case = f"{filled.HOSTILE}/{filled.HOSTILE}/{filled.HOSTILE}"
    checked(browser.get(links.series("hostile", case, filled.METRIC)))


def test_admin_pages_of_hostile_names_are_sound(admin):
    checked(admin.get("/p/hostile/admin"))
    checked(admin.get("/admin"))
    checked(admin.get("/"))


def test_the_overview_says_what_changed_what_is_slow_and_what_is_stale(browser):
    html = browser.get("/p/demo")
    changed, slow, stale = (html.index(f'id="{name}"') for name in ("changed", "slow", "stale"))
    assert "10% slower than before" in html[changed:slow]
    assert "-10.0%" in html[changed:slow]
    assert "and 1 more of the same cause" in html[changed:slow]
    assert samples.CASE in html[slow:stale]
    assert samples.OTHER not in html[slow:stale]
    assert samples.OTHER in html[stale:]


def test_a_series_is_drawn_and_told_without_scripts(browser):
    html = browser.get(links.series("demo", samples.CASE, filled.METRIC))
    figure = html[html.index("<figure") : html.index("</figure>")]
    assert "<svg" in figure
    assert 'aria-label="' in figure
    rows = re.findall(r"/p/demo/runs/run-\d{3}", html[html.index('id="points"') :])
    assert len(rows) == filled.RUNS
    assert "https://github.com/owner/name/commit/" in html
    assert "https://github.com/owner/name/compare/" in html


def test_a_series_shows_one_environment_unless_all_are_asked_for(browser):
    page = links.series("demo", samples.CASE, filled.METRIC)
    assert "other-003" not in browser.get(page)
    everything = browser.get(f"{page}&environment=all")
    assert "other-003" in everything
    assert "do not compare" in everything


def test_the_chart_s_data_are_the_window_s(browser):
    query = {"case": samples.CASE, "metric": filled.METRIC}
    data = browser.client.get("/p/demo/series.json", params=query).json()
    assert len(data["at"]) == len(data["value"]) == len(data["low"]) == filled.RUNS
    assert data["at"] == sorted(data["at"])
    assert data["low"][0] < data["value"][0] < data["high"][0]
    assert [mark["state"] for mark in data["marks"]] == ["confirmed"]
    middle = data["at"][20]
    part = browser.client.get("/p/demo/series.json", params=query | {"start": middle}).json()
    assert part["at"] == data["at"][20:]


@pytest.mark.parametrize(
    "query", ["days=8", "start=x", "start=nan", "start=-1", "end=1e300", "environment=%00", "branch=" + "x" * 600]
)
def test_what_no_page_of_ours_asks_for_is_refused(browser, query):
    base = f"/p/demo/series.json?case={samples.CASE}&metric={filled.METRIC}"
    assert browser.client.get(f"{base}&{query}").status_code == 422


@pytest.mark.parametrize(
    "path",
    [
        "/p/demo/runs/absent",
        "/p/demo/comparisons/absent",
        "/p/demo/series?case=x&metric=y",
        "/p/demo/absent",
        "/absent",
    ],
)
def test_what_is_not_there_is_said_on_a_page(browser, path):
    html = browser.get(path, 404)
    assert "<h1" in html
    checked(html)
    assert ('<nav aria-label="Project"' in html) is path.startswith("/p/demo")
    listed = {"/p/demo/runs/absent": "runs", "/p/demo/comparisons/absent": "comparisons"}.get(path)
    listed = "series" if "series" in path else listed
    assert (f'<a href="/p/demo/{listed}">All {listed} of this project</a>' in html) is (listed is not None)


def test_the_matrix_of_a_metric_that_is_not_there_says_so(browser):
    html = browser.get("/p/demo/matrix?metric=tpots_s")
    assert "There is no metric &#39;tpots_s&#39; here. Did you mean &#39;tpot_s&#39;?" in html
    assert '<table class="matrix">' not in html
    checked(html)


@pytest.mark.parametrize(
    ("outcome", "failed", "kind"),
    [("pass", 0, "good"), ("pass", 1, "bad"), ("", 2, "bad"), ("fail", 1, "bad"), ("", 0, "quiet")],
)
def test_a_run_with_cases_that_were_not_measured_is_never_green(outcome, failed, kind):
    assert signs.of_run(outcome, failed).kind == kind


def test_two_runs_stand_side_by_side_with_their_traces(browser):
    html = browser.get("/p/demo/compare?base=run-010&head=run-030")
    row = html[html.index(f"metric={filled.METRIC}") :].partition("</tr>")[0]
    assert "<strong>-" in row
    assert "worse" in row
    assert "What changed in the traces" in html
    assert "do not compare" not in html
    assert "do not compare" in browser.get("/p/demo/compare?base=run-010&head=other-003")
    browser.get("/p/demo/compare?base=run-010&head=absent", 404)


def test_what_lies_within_both_intervals_is_not_told_apart():
    near, far = (metric("tpot_s", value, interval=(value - 0.1, value + 0.1)) for value in (1.05, 1.5))
    base = metric("tpot_s", 1.0, interval=(0.9, 1.1))
    assert not beside_metric("tpot_s", base, near).apart
    assert beside_metric("tpot_s", base, far).better is False
    assert not beside_metric("tpot_s", metric("tpot_s", 1.0), metric("tpot_s", 9.0)).apart
    assert beside_metric("temp_bytes", metric("temp_bytes", 2), metric("temp_bytes", 1)).better is True


def test_filters_that_match_nothing_say_so(browser):
    assert "is like that" in browser.get("/p/demo/runs?branch=%27%20OR%201=1")
    assert "is like that" in browser.get("/p/demo/series?q=100%25")


def test_who_may_only_read_is_offered_no_change(service, browser):
    browser.sign_in(service.token("read", "demo"))
    for path in addresses("demo"):
        assert '<form method="post"' not in browser.get(path).replace('<form method="post" action="/logout"', "")
    browser.get("/p/demo/admin", 403)
    browser.send("/", "/p/demo/first-token", 403)


def test_a_change_is_accepted_with_a_reason_that_the_series_then_shows(admin):
    page = links.series("demo", samples.CASE, "tpot_s")
    form = {"case": samples.CASE, "metric": "tpot_s", "run": "run-025"}
    admin.send(page, "/p/demo/accept", 422, **form, reason=" ")
    admin.send(page, "/p/demo/accept", **form, reason="longer prompts <b>")
    html = admin.get(page)
    assert "accepted: longer prompts &lt;b&gt;" in html
    assert "longer prompts" in admin.get("/p/demo/alerts?state=accepted")


@pytest.mark.parametrize("space", ["\N{NO-BREAK SPACE}", "\N{IDEOGRAPHIC SPACE}", "\N{NARROW NO-BREAK SPACE}"])
def test_a_change_of_a_name_with_any_space_is_accepted(service, admin, space):
    """What a push takes, the page can answer; a reason is what people type, in their own writing."""
    name = f"batch{space}8"
    one = replace(samples.case(), id=name)
    record = filled.measured(
        samples, 1, started=filled.datetime.now(filled.UTC), name=f"space-{ord(space):x}", case=one
    )
    run = filled.push(service, "demo", record)
    form = {"case": name, "metric": "tpot_s", "run": run}
    admin.send("/p/demo/alerts", "/p/demo/accept", 422, **form, reason="two\nlines")
    admin.send("/p/demo/alerts", "/p/demo/accept", **form, reason=f"known{space}: new\N{NO-BREAK SPACE}case")
    assert "new\N{NO-BREAK SPACE}case" in admin.get(links.series("demo", name, "tpot_s"))


def test_names_are_found_however_their_letters_are_written(service, browser):
    """Not only those of one script."""
    filled.make_project(service, "letters", public=True)
    one = replace(samples.case(), id="ÄPFEL/größe")
    filled.push(service, "letters", filled.measured(samples, 1, started=filled.datetime.now(filled.UTC), case=one))
    for asked in ("ÄPFEL", "äpfel", "Äpfel", "pfel", "GRÖ"):
        assert "ÄPFEL/größe" in browser.client.get("/p/letters/series", params={"q": asked}).text, asked


def test_every_answer_to_an_alert_says_to_which(admin):
    """To who hears the page as a list of buttons and fields, those of two alerts are two."""
    for page in ("/p/demo/alerts", links.series("demo", samples.CASE, filled.METRIC)):
        html = admin.get(page)
        buttons = [re.sub(r"<[^>]+>", "", one).strip() for one in re.findall(r"<button[^>]*>(.*?)</button>", html)]
        answers = [one for one in buttons if one.startswith(("Accept", "Dismiss"))]
        labels = re.findall(r'<label class="unseen" for="reason-\d+">([^<]*)</label>', html)
        assert any(one.startswith("Accept ") for one in answers), page
        assert len(set(answers)) == len(answers)
        assert len(set(labels)) == len(labels) == sum(one.startswith("Accept") for one in answers)


def test_static_files_are_served_and_nothing_beside_them(browser):
    for name in ("style.css", "series.js", "report.css", "icon.svg", "vendor/uplot/uPlot.iife.min.js"):
        assert browser.client.get(f"/static/{name}").status_code == 200, name
    for path in ("/static/../routes.py", "/static/%2e%2e/routes.py", "/static/..%2froutes.py", "/static/"):
        assert browser.client.get(path).status_code in {404, 405}


def test_a_run_is_one_archive_that_unpacks_to_its_folder(service, browser, tmp_path):
    content, path = b"trace" * 500, "plugins/profile/s/host.xplane.pb"
    announced = {"path": path, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    place = service.ask("POST", "/api/v1/projects/demo/runs/run-031/files", service.admin, json=announced)
    upload = service.ask(
        "PATCH", place.headers["Location"], service.admin, content=content, headers={"Upload-Offset": "0"}
    )
    assert upload.status_code in {200, 201, 204}, upload.text
    html = browser.get("/p/demo/runs/run-031")
    assert f"{service.url}/p/demo/runs/run-031/files.tar | tar x" in html
    before = service.service.settings
    # As somebody types it: what follows begins with a slash, and two of them lead nowhere.
    object.__setattr__(service.service, "settings", replace(before, public_url="http://perf.example/"))
    html, first = browser.get("/p/demo/runs/run-031"), browser.get("/p/empty")
    object.__setattr__(service.service, "settings", before)
    assert "http://perf.example/p/demo/runs/run-031/files.tar | tar x" in html
    assert "http://perf.example/" not in first
    answer = browser.client.get("/p/demo/runs/run-031/files.tar")
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        archive.extractall(tmp_path, filter="data")
    assert (tmp_path / "run-031" / path).read_bytes() == content
    assert loads((tmp_path / "run-031" / "run.json").read_text()).id == "run-031"


@pytest.mark.parametrize(
    ("case", "found"),
    [
        ("4x128/cached/b1-p16", ("4x128", "b1-p16", "cached")),
        ("Qwen/Qwen2.5-0.5B/cached+x=1/b1", ("Qwen/Qwen2.5-0.5B", "b1", "cached+x=1")),
        ("test_speed", ("", "test_speed", "newest")),
    ],
)
def test_the_matrix_reads_names_of_cases(case, found):
    assert split(case) == found


@pytest.mark.parametrize("name", ["owner/name", "o/n.a-m_e"])
def test_commits_link_to_github(name):
    assert links.commit(name, "a" * 40) == f"https://github.com/{name}/commit/{'a' * 40}"


@pytest.mark.parametrize(("name", "sha"), [("", "a" * 40), ("o/n/../x", "a" * 40), ("o/n", "javascript:"), ("o/n", "")])
def test_what_is_no_commit_is_no_link(name, sha):
    assert links.commit(name, sha) == ""
