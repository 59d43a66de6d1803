"""Pages of runs and comparisons in a real browser: narrow and wide, light and dark, without scripts, asking nobody."""

from pathlib import Path

import pytest

from qwenperf.report.html import Place, comparison_page, run_page

CONTRAST = (Path(__file__).with_name("contrast.js")).read_text("utf-8")
READABLE = 4.5
"""The least contrast of WCAG 2.2, level AA, for text of ordinary size."""

OPEN_ALL = "() => document.querySelectorAll('details').forEach((one) => { one.open = true })"
LONG = "a-model-with-a-name-that-nobody-would-type/cached+layers=scanned+cache_layout=position-major/b1-p16-n64-f32"
HOSTILE = "<script>document.title = 'taken'</script>/<img src=x onerror=\"document.title='taken'\">/x"


@pytest.fixture(scope="module")
def pages(samples, tmp_path_factory):
    """Addresses of a page of either kind, one with every kind of outcome and with names that fit nowhere."""
    folder = tmp_path_factory.mktemp("pages")
    place = Place(folder="profiles/RUN", record="run.json", href=lambda path: f"./{path}")
    failed = samples.case(verdicts=(samples.FAILED,))
    run = samples.run(failed, samples.case(LONG), samples.case(HOSTILE), samples.broken(), samples.plain())
    made = {
        "run": run_page(run, place),
        "comparison": comparison_page(samples.comparison(samples.compared(), samples.compared(LONG)), place),
    }
    for name, text in made.items():
        (folder / f"{name}.html").write_text(text, "utf-8")
    return {name: (folder / f"{name}.html").as_uri() for name in made}


both = pytest.mark.parametrize("kind", ["run", "comparison"])


@both
@pytest.mark.parametrize("width", [400, 1280])
def test_no_page_is_wider_than_its_window(pages, look, kind, width):
    """With everything open: what is too wide scrolls in a box of its own, and can be reached by keys."""
    with look(pages[kind], width=width) as seen:
        seen.page.evaluate(OPEN_ALL)
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
        boxes = seen.page.evaluate(
            "[...document.querySelectorAll('.scroll')].filter((one) => one.scrollWidth > one.clientWidth)"
            ".map((one) => one.tabIndex)"
        )
        assert set(boxes) == ({0} if width == 400 else set(boxes) & {0})


@both
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_can_be_read(pages, look, kind, dark):
    """Its contrast with what is behind it is computed, in both schemes."""
    with look(pages[kind], dark=dark) as seen:
        seen.page.evaluate(OPEN_ALL)
        texts = seen.page.evaluate(CONTRAST)
        page = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (page == "rgb(255, 255, 255)") is not dark
        assert len(texts) > 200
        assert [text for text in texts if text[1] < READABLE] == []


@both
def test_a_page_asks_nobody_and_complains_of_nothing(pages, look, kind):
    """The only file that is read is the page; its own policy refuses nothing of it."""
    with look(pages[kind]) as seen:
        seen.page.evaluate(OPEN_ALL)
        assert [address for address in seen.asked if not address.startswith("data:")] == [pages[kind]]
        assert seen.said == []
        assert seen.page.evaluate("getComputedStyle(document.body).maxWidth") != "none"


def test_a_hostile_name_is_a_name(pages, look):
    """It is shown as it is written, and does nothing."""
    with look(pages["run"]) as seen:
        assert seen.page.title().startswith("FAIL: ")
        assert seen.page.locator("script, img").count() == 0
        assert HOSTILE in seen.page.locator("h3").all_inner_texts()


@both
def test_a_page_works_without_scripts(pages, look, kind):
    """What is folded opens by a click and by a key, and a link in the table leads to its case."""
    with look(pages[kind], script=False) as seen:
        folded = next(one for one in seen.page.locator("details").all() if one.get_attribute("open") is None)
        body, summary = folded.locator("> .body"), folded.locator("> summary")
        assert not body.is_visible()
        summary.click()
        assert body.is_visible()
        summary.press("Enter")
        assert not body.is_visible()
        seen.page.locator("#results ~ * a").first.click()
        assert seen.page.url.endswith("#case-1")
