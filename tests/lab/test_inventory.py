"""What each side declares, asked of real processes of two trees."""

import dataclasses
import sys

import pytest

from qwenperf.errors import MeasurementError, NothingMeasuredError, UsageError
from qwenperf.lab.inventory import take_inventory
from qwenperf.lab.sides import Side
from qwenperf.workloads.case import Case, Workload

OTHER = Workload(prompt_length=4, new_tokens=8)
LISTING = """
import json, sys
CASES = {cases!r}
if "--list" in sys.argv and "--json" in sys.argv:
    workload = dict(prompt_length=4, new_tokens=4, batch=1, dtype="f32")
    cases = [dict(id=f"tiny/{{name}}/x", model="tiny", engine="cached", workload=workload) for name in CASES]
    print(json.dumps(dict(cases=cases)))
"""


@pytest.fixture
def make_side(tmp_path):
    """Return a maker of sides whose package lists the given cases."""

    def make(name, cases):
        package = tmp_path / name / "qwenperf"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "__main__.py").write_text(LISTING.format(cases=cases))
        return Side(name=name, label=name, kind="revision", root=tmp_path / name, python=sys.executable)

    return make


def test_cases_of_both_sides_are_measured_and_the_others_named(make_side):
    """A case that a change drops is no green check."""
    found = take_inventory(make_side("base", ["a", "b"]), make_side("head", ["b", "c"]), (), {})
    assert [case.engine for case in found.shared] == ["cached"]
    assert (found.missing, found.new) == (("tiny/a/x",), ("tiny/c/x",))


def test_a_renamed_case_is_the_same_case(make_side):
    """Said by whoever renamed it."""
    sides = make_side("base", ["old"]), make_side("head", ["new"])
    found = take_inventory(*sides, (), {"tiny/old/x": "tiny/new/x"})
    assert (len(found.shared), found.missing, found.new) == (1, (), ())
    with pytest.raises(UsageError, match="the base has no such case"):
        take_inventory(*sides, (), {"tiny/older/x": "tiny/new/x"})


def test_each_side_measures_a_renamed_case_by_its_own_name(make_side, monkeypatch):
    """Base may not know the new name, or call another case so: new with new would pass whatever the change costs."""
    work = Workload(prompt_length=4, new_tokens=4)
    listed = {
        "base": ("tiny", "cached-host", work),
        "head": ("2x64", "cached", work),
        "other": ("tiny", "cached", OTHER),
    }
    cases = {name: Case(model=model, engine=engine, workload=work) for name, (model, engine, work) in listed.items()}
    monkeypatch.setattr("qwenperf.lab.inventory.declared", lambda side, _: {cases[side.name].id: cases[side.name]})
    base, head, other = (make_side(name, []) for name in listed)
    found = take_inventory(base, head, (), {cases["base"].id: cases["head"].id})
    told = [side.cases(found.shared)[0] for side in (dataclasses.replace(base, instead=found.before), head)]
    assert [one["id"] for one in told] == [cases["head"].id] * 2
    assert [Case.from_json(one["case"]) for one in told] == [cases["base"], cases["head"]]
    with pytest.raises(UsageError, match="they ask for other requests"):
        take_inventory(base, other, (), {cases["base"].id: cases["other"].id})


def test_nothing_in_common_is_never_green(make_side):
    """Both lists are shown."""
    with pytest.raises(NothingMeasuredError, match=r"base has tiny/a/x, head tiny/b/x"):
        take_inventory(make_side("base", ["a"]), make_side("head", ["b"]), (), {})


def test_a_side_that_cannot_list_says_what_it_said(make_side):
    """A revision that is broken, or older than the command."""
    broken = make_side("base", ["a"])
    (broken.root / "qwenperf" / "__main__.py").write_text("raise SystemExit('no such option: --json')")
    with pytest.raises(MeasurementError, match=r"base \(base\) does not list its cases: no such option"):
        take_inventory(broken, make_side("head", ["a"]), (), {})
    told = "import sys; sys.exit(print('qwenperf: error: unknown model tny.', file=sys.stderr) or 2)"
    (broken.root / "qwenperf" / "__main__.py").write_text(told)
    with pytest.raises(MeasurementError, match="unknown model tny"):
        take_inventory(broken, make_side("fourth", ["a"]), (), {})
    with pytest.raises(UsageError, match=r"^unknown model tny\.$"):
        take_inventory(broken, dataclasses.replace(broken, name="head"), (), {})
    silent = dataclasses.replace(broken, python="/bin/true")
    with pytest.raises(MeasurementError, match="does not list its cases"):
        take_inventory(silent, make_side("third", ["a"]), (), {})
