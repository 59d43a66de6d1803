"""What people read of regressions: nothing steers their terminal, and the line to paste does what it says."""

import dataclasses
import shlex

import pytest

from qwenperf.gate.history import Judged
from qwenperf.report.regressions import crept_line, regression_lines, summary_lines
from qwenperf.schema.metrics import Direction, Kind
from qwenperf.schema.regressions import Form, Regression
from qwenperf.schema.series import Point, Series

ONE = Regression(
    id="0a1b2c3d",
    case="tiny/cached",
    metric="tpot_s",
    unit="s",
    direction=Direction.LOWER,
    form=Form.STEP,
    before=1.0,
    after=1.1,
    size=0.1,
    run="r",
    commit="b" * 40,
    good="a" * 40,
    bad="b" * 40,
    commits=("b" * 40,),
)


def bisection(one):
    """Return the line to paste."""
    return next(line.plain.strip() for line in regression_lines(one) if "qwenperf bisect" in line.plain)


def test_the_line_to_paste_is_one_command_whatever_a_record_holds():
    """Case, metric and hashes are words of it."""
    case, metric = "x'; touch pwn; '", "m $(id)"
    told = bisection(dataclasses.replace(ONE, case=case, metric=metric, good="`id`"))
    assert shlex.split(told) == ["qwenperf", "bisect", case, metric, "--good", "`id`", "--bad", "b" * 12]
    assert bisection(ONE).startswith("qwenperf bisect tiny/cached tpot_s --good aaaaaaaaaaaa ")


def test_no_record_steers_a_terminal():
    """Every field of words is shown without its control characters."""
    words = ("case", "metric", "run", "measured_at", "good", "bad", "commit")
    evil = dataclasses.replace(
        ONE, **dict.fromkeys(words, "\x1b]0;x\x07"), explained=("\x1b[2J",), suspects=("\x1b[2J",)
    )
    text = "\n".join(line.plain for line in regression_lines(evil))
    assert all(line.isprintable() for line in text.splitlines())


@pytest.mark.parametrize(
    ("direction", "is_relative", "crept", "told"),
    [
        (Direction.LOWER, True, (0.264, 0.2, 0.3), "slower or larger by 26.4% (20.0% to 30.0%) since"),
        (Direction.HIGHER, True, (-0.21, -0.25, -0.17), "lower by 21.0% (17.0% to 25.0%) since"),
        (Direction.LOWER, False, (0.002, 0.001, 0.003), "slower or larger by 2.00 ms since"),
    ],
)
def test_a_creep_is_told_as_it_was_counted(direction, is_relative, crept, told):
    """As a share or in the unit, whatever points were left out; the word says which way, and no sign beside it."""
    points = (Point(value=0.0, run="elsewhere", measured_at=""),)
    series = Series(case="tiny", metric="m", unit="s", direction=direction, kind=Kind.TIMED, points=points)
    line = crept_line(Judged(series=series, crept=crept, is_relative=is_relative), "the first run")
    assert told in line.plain


def test_too_few_points_are_not_laid_on_environments():
    """One machine that has measured once needs more runs; several that each measured once do not compare."""

    def judged(*environments):
        points = tuple(Point(value=1.0, run=one, measured_at="", environment=one) for one in environments)
        series = Series(case="tiny", metric="m", unit="s", direction=Direction.LOWER, kind=Kind.TIMED, points=points)
        return Judged(series=series)

    lines = [line.plain for line in summary_lines([judged("a"), judged("a", "a"), judged("a", "b")], [], "here")]
    assert lines[1:] == [
        "2 of them have no value that can be compared: too few points yet.",
        "1 of them has no value that can be compared: environments that occur too seldom.",
    ]
