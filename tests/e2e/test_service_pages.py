"""The service's pages in a real browser: narrow and wide, light and dark, with scripts and without, by keys alone."""

import importlib.util
import json
import os
from pathlib import Path

import pytest

pytest.importorskip("starlette")

from qwenperf.service.settings import ServiceSettings
from qwenperf.service.web import links

CONTRAST = (Path(__file__).with_name("contrast.js")).read_text("utf-8")
READABLE = 4.5
"""The least contrast of WCAG 2.2, level AA, for text of ordinary size."""

NAMELESS = """[...document.querySelectorAll('input, select, button, a')].filter((one) =>
  one.type !== 'hidden' && !one.hidden && !one.textContent.trim() && !one.getAttribute('aria-label')
  && !(one.labels && one.labels.length && one.labels[0].textContent.trim())).map((one) => one.outerHTML)"""

SHOTS = os.environ.get("QWENPERF_SCREENSHOTS", "")
"""A folder for pictures of every page, for whoever wants to look."""


def beside(name):
    """Load a module of the service's tests."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[1] / "service" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


filled, running = beside("filled"), beside("running")


@pytest.fixture(scope="module")
def service(samples, tmp_path_factory):
    settings = ServiceSettings(
        data=tmp_path_factory.mktemp("pages"), judge=False, sweep_s=0, anonymous_burst=100_000, rate_burst=100_000
    )
    with running.serving(settings) as found:
        filled.fill(found, samples)
        filled.fill_hostile(found, samples)
        filled.make_project(found, "empty", public=True)
        found.comparison = samples.comparison().id
        found.case = samples.CASE
        yield found


@pytest.fixture(scope="module")
def pages(service):
    """Addresses of all pages by name."""
    found = {
        "projects": "/",
        "login": "/login",
        "absent": "/p/demo/runs/absent",
        "first-run": "/p/empty",
        "overview": "/p/demo",
        "series": links.series("demo", service.case, filled.METRIC),
        "series-all": links.series("demo", service.case, filled.METRIC, environment="all"),
        "series-list": "/p/demo/series",
        "matrix": "/p/demo/matrix",
        "runs": "/p/demo/runs",
        "run": "/p/demo/runs/run-030",
        "comparison": f"/p/demo/comparisons/{service.comparison}",
        "comparisons": "/p/demo/comparisons",
        "two-runs": "/p/demo/compare?base=run-010&head=run-030",
        "alerts": "/p/demo/alerts",
        "hostile": "/p/hostile",
        "hostile-run": "/p/hostile/runs/hostile-001",
        "hostile-alerts": "/p/hostile/alerts",
        "admin": "/p/demo/admin",
        "service": "/admin",
    }
    return {name: f"{service.url}{path}" for name, path in found.items()}


slow = pytest.mark.slow
MANAGED = {"admin", "service"}
NAMES = (
    "projects login absent first-run overview series series-all series-list matrix runs run comparison comparisons "
    "two-runs alerts hostile hostile-run hostile-alerts admin service"
).split()


@pytest.fixture
def visit(service, pages, look):
    """Open a page by its name, signed in where it asks for that."""

    def opened(name, **more):
        headers = {"Authorization": f"Bearer {service.admin}"} if name in MANAGED else {}
        return look(pages[name], extra_http_headers=headers, **more)

    return opened


def shot(seen, name):
    if SHOTS:
        seen.page.screenshot(path=f"{SHOTS}/{name}.png", full_page=True)


AT_ONCE = {"overview", "series"}
"""Pages that every change is held to; the others are slow in number."""


def some(names):
    return [name if name in AT_ONCE else pytest.param(name, marks=slow) for name in names]


@pytest.mark.parametrize("name", some(NAMES))
def test_no_page_is_wider_than_its_window_or_says_anything_to_the_console(visit, name):
    """On a telephone and on a desk. What is too wide scrolls in a box of its own; a broken policy is on the console."""
    with visit(name, width=400) as seen:
        seen.page.wait_for_load_state("networkidle")
        for width in (400, 1280):
            seen.page.set_viewport_size({"width": width, "height": 900})
            shot(seen, f"{name}-{width}")
            assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
        expected = ["error: Failed to load resource: the server responded with a status of 404 (Not Found)"]
        assert seen.said == (expected if name == "absent" else [])
        assert all(one.startswith(seen.page.url.split("/")[0]) for one in seen.asked)
        assert seen.page.evaluate("document.querySelectorAll('h1').length") == 1
        assert seen.page.title() != "taken"


@pytest.mark.parametrize(
    "name",
    ["overview", *(pytest.param(one, marks=slow) for one in "series matrix run alerts first-run admin login".split())],
)
def test_every_text_can_be_read(visit, name):
    """Its contrast with what is behind it is computed, in both schemes."""
    with visit(name) as seen:
        seen.page.wait_for_load_state("networkidle")
        for scheme in ("light", "dark"):
            seen.page.emulate_media(color_scheme=scheme)
            shot(seen, f"{name}-{scheme}")
            background = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (background == "rgb(255, 255, 255)") is (scheme == "light")
            texts = seen.page.evaluate(CONTRAST)
            assert texts
            assert [one for one in texts if one[1] < READABLE] == [], scheme


@slow
def test_a_series_is_drawn_with_scripts(visit):
    with visit("series") as seen:
        seen.page.wait_for_selector("#chart canvas")
        assert seen.page.locator("#chart > svg").count() == 0
        drawn = seen.page.evaluate(
            "(() => { const one = document.querySelector('#chart canvas');"
            " const data = one.getContext('2d').getImageData(0, 0, one.width, one.height).data;"
            " return data.filter((value, index) => index % 4 === 3 && value > 0).length })()"
        )
        assert drawn > 1000


@slow
@pytest.mark.parametrize("name", ["overview", "series", "run", "comparison", "matrix", "alerts", "first-run"])
def test_without_scripts_a_page_says_the_same(visit, name):
    with visit(name, script=False) as plain, visit(name) as full:
        full.page.wait_for_load_state("networkidle")
        shot(plain, f"{name}-noscript")
        tables = [seen.page.locator("table").all_inner_texts() for seen in (plain, full)]
        assert tables[0] == tables[1]
        if name == "series":
            assert plain.page.locator("#chart > svg[role=img]").count() == 1


def test_the_chart_is_read_by_keys(visit):
    with visit("series") as seen:
        chart = seen.page.locator("#chart")
        seen.page.wait_for_selector("#chart canvas")
        chart.focus()
        seen.page.keyboard.press("ArrowLeft")
        newest = seen.page.locator("#chart-told").inner_text()
        seen.page.keyboard.press("ArrowLeft")
        before = seen.page.locator("#chart-told").inner_text()
        assert "tokens/s" in newest
        assert newest != before
        seen.page.keyboard.press("ArrowRight")
        assert seen.page.locator("#chart-told").inner_text() == newest
        seen.page.keyboard.press("Enter")
        seen.page.wait_for_url("**/runs/run-039")


@slow
def test_dragging_over_the_chart_looks_closer_and_home_goes_back(visit):
    with visit("series") as seen:
        box = seen.page.wait_for_selector("#chart .u-over").bounding_box()
        with seen.page.expect_response("**/series.json?*") as answer:
            seen.page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 50)
            seen.page.mouse.down()
            seen.page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 60, steps=5)
            seen.page.mouse.up()
        closer = answer.value.json()["at"]
        assert 5 < len(closer) < 20
        assert seen.page.url.endswith(filled.METRIC)
        seen.page.locator("#chart").focus()
        seen.page.keyboard.press("Home")
        assert seen.said == []


@slow
def test_whoever_has_only_keys_gets_to_the_content_first(visit):
    with visit("overview") as seen:
        seen.page.keyboard.press("Tab")
        assert seen.page.evaluate("document.activeElement.textContent") == "Skip to the content"
        seen.page.keyboard.press("Enter")
        assert seen.page.evaluate("document.activeElement.id") == "main"


@slow
@pytest.mark.parametrize("name", ["series", "overview", "alerts", "admin", "projects", "login"])
def test_every_control_has_a_name_and_every_table_heads(visit, name):
    """By the browser's own computation of names."""
    with visit(name) as seen:
        nameless = seen.page.evaluate(NAMELESS)
        assert nameless == []
        assert seen.page.evaluate("[...document.querySelectorAll('table')].every((one) => one.caption && one.tHead)")
        assert seen.page.evaluate("document.querySelectorAll('main').length") == 1


def test_a_person_signs_in_makes_a_first_token_and_signs_out(service, look):
    with look(f"{service.url}/p/empty") as seen:
        seen.page.get_by_role("link", name="Sign in").first.click()
        seen.page.get_by_label("Token").fill(service.admin)
        seen.page.keyboard.press("Enter")
        seen.page.wait_for_url(f"{service.url}/")
        seen.page.goto(f"{service.url}/p/empty")
        seen.page.get_by_role("button", name="Make a token and show it once").click()
        shown = seen.page.locator("#token").inner_text()
        assert shown.startswith("export QWENPERF_TOKEN=qpf_")
        shot(seen, "first-token")
        seen.page.goto(f"{service.url}/p/empty/admin")
        fill_webhook(seen)
        seen.page.get_by_role("button", name="Sign out").click()
        seen.page.wait_for_url(f"{service.url}/")
        assert seen.page.get_by_role("link", name="Sign in").count() >= 1
        # Of the form that was refused; the words behind the number are the Python's.
        (said,) = seen.said
        assert "a status of 422 " in said


def fill_webhook(seen):
    """Set a webhook by keys alone: what is refused has the focus, and says why to a screen reader, too."""
    field = seen.page.get_by_role("form", name="Webhook").get_by_label("Address")
    field.fill("http://hooks.example/perf")
    seen.page.keyboard.press("Enter")
    told = seen.page.get_by_role("alert")
    told.wait_for()
    assert "not encrypted" in told.inner_text()
    shot(seen, "admin-refused")
    typed = "document.activeElement.value + ' ' + document.activeElement.ariaInvalid"
    assert seen.page.evaluate(typed) == "http://hooks.example/perf true"
    field.fill("https://hooks.example/perf")
    seen.page.keyboard.press("Enter")
    secret = seen.page.get_by_role("region", name="Secret of the webhook").locator("code")
    assert len(secret.inner_text()) == 43
    shot(seen, "admin-secret")


@slow
def test_nothing_that_others_named_runs(visit):
    for name in ("hostile", "hostile-run", "hostile-alerts"):
        with visit(name) as seen:
            seen.page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
            assert seen.page.title() != "taken"
            assert seen.page.locator("main script, main img").count() == 0


WATCHED = """(() => { const made = window.uPlot;
  window.uPlot = function (...told) { return (window.plotted = new made(...told)); };
  window.uPlot.tzDate = made.tzDate; })()"""
"""Keeps the chart that is drawn next where a test can ask it."""


@slow
def test_a_lone_point_has_a_day_on_either_side_and_its_interval(visit):
    with visit("series") as seen:
        page = seen.page
        page.wait_for_selector("#chart canvas")
        alone = json.loads(page.locator("#chart").get_attribute("data-chart"))
        for name in ("at", "value", "low", "high", "told", "href"):
            alone[name] = alone[name][-1:]
        page.route("**/series.json*", lambda route: route.fulfill(json=alone))
        page.evaluate(WATCHED)
        box = page.locator("#chart .u-over").bounding_box()
        middle = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + 0.4 * box["width"], middle)
        page.mouse.down()
        page.mouse.move(box["x"] + 0.7 * box["width"], middle, steps=4)
        page.mouse.up()
        page.evaluate("async () => { while (!window.plotted) await new Promise(requestAnimationFrame) }")
        x, y = (page.evaluate(f"[plotted.scales.{one}.min, plotted.scales.{one}.max]") for one in "xy")
        assert x == [alone["at"][0] - 86400, alone["at"][0] + 86400]
        assert y[0] <= alone["low"][0] < alone["high"][0] <= y[1]
        shot(seen, "series-alone")
