"""A series as a drawing, a table and a page: whatever its values, names and terminal."""

import io
import re
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from qwenperf.report.history import history_report, newest_report, percent
from qwenperf.report.series_plot import series_plot
from qwenperf.report.series_scale import scale_of
from qwenperf.report.series_svg import series_svg
from qwenperf.schema.metrics import Direction, Kind
from qwenperf.schema.series import Point, Series

HOSTILE = "<script>alert(1)</script>\"'&\x00\x1b[31m"


def series_of(*values, metric="tpot_s", unit="s", direction=Direction.LOWER, **changes):
    points = tuple(
        Point(
            value=value,
            run=f"run-{day}",
            measured_at=f"2026-01-{1 + day % 28:02}T00:00:00Z",
            commit=f"{day:040x}",
            branch="main",
            environment="e" * 16,
            interval=(0.9 * value, 1.1 * value),
            extra={"class": "cpu-x86_64-2core"},
        )
        for day, value in enumerate(values)
    )
    return Series(
        case="4x128/cached/b1",
        metric=metric,
        unit=unit,
        direction=direction,
        kind=Kind.TIMED,
        points=changes.pop("points", points),
        **changes,
    )


def shown(renderables, width=80):
    console = Console(width=width, no_color=True, highlight=False, emoji=False, markup=False, file=io.StringIO())
    for one in renderables:
        console.print(one)
    return console.file.getvalue()


def test_the_plain_drawing_rises_where_the_values_do():
    """One letter a point, the lowest at the bottom left, the highest at the top right."""
    points = tuple(Point(value=float(v), run=str(v), measured_at="2026-01-01") for v in range(5))
    lines = [line.plain for line in series_plot(series_of(points=points), plain=True, width=21, height=5)]
    assert [line[10:].index("*") for line in lines[:5]] == [9, 7, 4, 2, 0]
    assert lines[0].startswith("   4.00 s")


def test_intervals_are_drawn_around_the_points():
    """Above and below, in another letter, and in dots of the same columns."""
    lines = [line.plain[10:] for line in series_plot(series_of(1.0, 1.0, 1.0), plain=True, width=20, height=9)]
    column = "".join(line[0] if line else " " for line in lines[:9])
    assert re.fullmatch(r":+\*:+", column)
    dots = "".join(line.plain[10:] for line in series_plot(series_of(1.0, 1.0, 1.0), width=20))
    assert any(0x2800 < ord(letter) < 0x2900 for letter in dots)


def test_changes_are_marked_below_their_points():
    """By a sign and a word, not by colour alone."""
    lines = [line.plain for line in series_plot(series_of(*range(1, 11)), changes=[9], plain=True, width=40)]
    assert lines[-2].startswith("   change")
    assert lines[-2].index("^") == max(line.rfind("*") for line in lines[:-2])


@pytest.mark.parametrize(
    "values",
    [(0.0,), (0.0, 0.0), (5.0,), (1e308, -1e308), (5e-324, 0.0), (-1.0, -1.0), (1.7e308, 1.7e308), (1e-9, 1e9)],
)
@pytest.mark.parametrize("plain", [True, False])
def test_any_finite_values_can_be_drawn(values, plain):
    """Equal, huge, tiny, negative or one: a drawing of its size, and an SVG that is one."""
    series = series_of(*values)
    lines = [line.plain for line in series_plot(series, plain=plain, width=60)]
    assert len(lines) == 11
    assert max(len(line) for line in lines) <= 60
    drawn = ET.fromstring(series_svg(series, [0]))
    assert "nan" not in ET.tostring(drawn).decode().lower()
    assert "inf" not in ET.tostring(drawn).decode().lower().replace("infinity", "")


def test_a_wide_interval_does_not_flatten_the_values():
    """Two values stay apart although one interval is a thousand times wider than their difference."""
    points = (
        Point(value=1.0, run="a", measured_at="2026-01-01", interval=(-1000.0, 1000.0)),
        Point(value=2.0, run="b", measured_at="2026-01-02"),
    )
    lines = [line.plain[10:] for line in series_plot(series_of(points=points), plain=True, width=21, height=9)]
    rows = [row for row, line in enumerate(lines[:9]) if "*" in line]
    assert rows[-1] - rows[0] >= 2


def test_a_report_says_what_the_numbers_are():
    """Unit, direction, a row a point with the step to the one before, and how sure it is."""
    text = shown(history_report(series_of(0.010, 0.012, 0.011), [1], plain=True))
    assert "s, lower is better, timed; 3 points" in text
    assert re.search(r"2026-01-02 +00000000 +12\.0 ms +\+-10\.0% +\+20\.0% +change", text)
    assert re.search(r"2026-01-03 +00000000 +11\.0 ms +\+-10\.0% +-8\.3%", text)
    assert "environment" not in text


def test_one_point_is_told_and_not_drawn():
    """A dot in an empty field shows nothing."""
    text = shown(history_report(series_of(0.010), plain=True))
    assert "*" not in text
    assert "10.0 ms" in text


def test_steps_between_machines_are_not_steps():
    """Each environment is compared with itself, and the reader is told that there are two."""
    first, second = series_of(1.0, 4.0).points
    other = Point(**{**{name: getattr(second, name) for name in Point.__dataclass_fields__}, "environment": "f" * 16})
    text = shown(history_report(series_of(points=(first, other)), plain=True), width=100)
    assert "+300" not in text
    assert "2 environments: cpu-x86_64-2core eeeeeeee, cpu-x86_64-2core ffffffff" in text


@pytest.mark.parametrize(
    ("value", "base", "said"),
    [
        (1.0, None, "-"),
        (1.0, 1.0, "="),
        (1.1, 1.0, "+10.0%"),
        (-1.1, -1.0, "-10.0%"),
        (1000001, 1000000, "+0.0001%"),
        (1.0, 0.0, "up"),
        (0.0, 0.0, "="),
        (1e308, -1e308, "+200.0%"),
        (1.0, 1e-300, "up"),
    ],
)
def test_shares_of_anything(value, base, said):
    """The smallest change is not rounded to none, and nothing is divided by nothing."""
    assert percent(value, base) == said


def test_the_newest_values_of_a_case_are_a_table():
    """A row a metric, with which way is better."""
    counted = series_of(3.0, 4.0, metric="compiles_cold", unit="count")
    text = shown(newest_report("a/b", [series_of(0.01), counted]))
    assert re.search(r"tpot_s +10\.0 ms +- +lower +1", text)
    assert re.search(r"compiles_cold +4 +\+33\.3% +lower +2", text)


def test_a_drawing_for_a_page_says_in_words_what_it_shows():
    """A title, a description, a mark and a point for each; nothing of its own colour."""
    drawn = series_svg(series_of(0.010, 0.012, 0.011), [1])
    root = ET.fromstring(drawn)
    space = "{http://www.w3.org/2000/svg}"
    assert root.find(f"{space}title").text == "tpot_s of 4x128/cached/b1"
    assert root.find(f"{space}desc").text == "3 points, 2026-01-01 to 2026-01-03, 10.0 ms to 11.0 ms; 1 change"
    assert len(root.findall(f"{space}circle")) == 3
    assert [one.text for one in root.findall(f"{space}text")].count("change") == 1
    assert not re.search(r"#[0-9a-f]{3}|style=", drawn)


def test_environments_have_shapes():
    """So that two machines are told apart without colour."""
    first, second = series_of(1.0, 4.0).points
    other = Point(**{**{name: getattr(second, name) for name in Point.__dataclass_fields__}, "environment": "f" * 16})
    drawn = ET.fromstring(series_svg(series_of(points=(first, other))))
    space = "{http://www.w3.org/2000/svg}"
    titled = [one for one in drawn if one.find(f"{space}title") is not None]
    assert [one.tag.removeprefix(space) for one in titled] == ["circle", "rect"]


def test_no_name_becomes_markup():
    """Cases, runs, branches and stores are text, in the drawing and in the page."""
    from qwenperf.report.history_html import history_page

    (point,) = series_of(1.0).points
    fields = {name: getattr(point, name) for name in Point.__dataclass_fields__}
    bad = Point(**{**fields, "run": HOSTILE, "branch": HOSTILE, "commit": HOSTILE, "measured_at": HOSTILE})
    series = Series(
        case=HOSTILE, metric=HOSTILE, unit=HOSTILE, direction=Direction.NONE, kind=Kind.TIMED, points=(bad,)
    )
    assert "<script" not in series_svg(series)
    ET.fromstring(series_svg(series))
    page = history_page(HOSTILE, [(series, ())])
    assert "<script" not in page
    assert 'http-equiv="Content-Security-Policy"' in page
    assert page.count("<svg ") == 1


def test_a_page_holds_no_letter_that_steers():
    """Whatever a store and its cases are called, half characters included: the page can be written and printed."""
    from qwenperf.report.history_html import history_page

    page = history_page("s\x1b]0;x\x07", [(series_of(1.0, metric="a\x1b[31m\udcff\x9b\u00e4"), ())])
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", page)
    assert "a?[31m??\u00e4" in page.encode().decode()


def test_a_page_has_every_series_and_every_point():
    """A section, a drawing and a table each."""
    from qwenperf.report.history_html import history_page

    page = history_page("profiles", [(series_of(1.0, 2.0), (1,)), (series_of(5.0, metric="ttft_s"), ())])
    assert page.count("<figure>") == 2
    assert page.count("<tbody>") == 2
    assert page.count('<th scope="row">2026-') == 3
    assert "ttft_s of 4x128/cached/b1" in page
    assert not re.search(r'(src|href)="(?!data:)[a-z/]', page)


@pytest.mark.parametrize("value", [0.00025, 0.0, -3.0])
def test_the_interval_of_a_lone_point_lies_inside_the_drawing(value):
    """A fifth of the value up and down, and it is seen whole: the highest line of the grid is its end."""
    point = Point(value=value, run="a", measured_at="2026-01-01", interval=(value - 4e-5, value + 6e-5))
    assert (scale_of((point,)).low, scale_of((point,)).high) == point.interval
    drawn = ET.fromstring(series_svg(series_of(points=(point,))))
    heights = [float(bar.get("height")) for bar in drawn.iter("{http://www.w3.org/2000/svg}rect") if bar.get("opacity")]
    assert heights == [260 - 26 - 40]


def test_a_page_shows_intervals_that_are_wider_than_what_the_values_span():
    """Two values a percent apart, and how sure they are: plus or minus a fifth."""
    points = tuple(
        Point(value=value, run=str(value), measured_at="2026-01-01", interval=(0.8 * value, 1.2 * value))
        for value in (1.0, 1.01)
    )
    labels = re.findall(r">([0-9.]+ m?s)</text>", series_svg(series_of(points=points)))
    assert (labels[0], labels[-1]) == ("800 ms", "1.21 s")
