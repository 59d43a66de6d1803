"""Maps of renamed cases: what they mean, what they may not say, and the history that they keep."""

import dataclasses

import pytest

from qwenperf.errors import ConfigError, StoreError
from qwenperf.store.aliases import read_aliases
from qwenperf.store.directory import open_store


def test_names_lead_to_the_present_one():
    """Over any number of renames, from several tables."""
    aliases = read_aliases(({"a": "b"}, "one"), ({"b": "c", "x": "c"}, "two"))
    assert [aliases.name(case) for case in ("a", "b", "c", "x", "other")] == ["c", "c", "c", "c", "other"]
    assert sorted(aliases.names("a")) == ["a", "b", "c", "x"]
    assert aliases.names("a")[0] == "c"
    assert aliases.names("other") == ("other",)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ([({"a": "b", "b": "a"}, "here")], "here leads in a circle: 'a' -> 'b' -> 'a'"),
        ([({"a": "a"}, "here")], "here leads in a circle: 'a' -> 'a'"),
        ([({"a": "b"}, "one"), ({"b": "c"}, "two"), ({"c": "a"}, "three")], "three leads in a circle"),
        ([({"a": "b"}, "one"), ({"a": "c"}, "two")], "two says that 'a' is now 'c', and one that it is 'b'"),
        ([({"a": 1}, "here")], "here 'a' is 1, which is no name"),
        ([({"a": ""}, "here")], "here 'a' is '', which is no name"),
        ([({"a": {"b": "c"}}, "here")], "which is no name"),
        ([(["a"], "here")], "here is not a table"),
    ],
)
def test_what_contradicts_itself_is_refused(tables, message):
    """Circles and two present names of one case, by the file that says so."""
    with pytest.raises(ConfigError, match=message):
        read_aliases(*tables)


def test_the_same_said_twice_is_said_once():
    """The project and the store may agree."""
    assert read_aliases(({"a": "b"}, "one"), ({"a": "b"}, "two")).name("a") == "b"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version = 2", "says version 2; this qwenperf reads 1"),
        ("alias = 1", "has 'alias'; it knows version and"),
        ("= 1", "is not TOML"),
        ("aliases = 1", "is not a table"),
    ],
)
def test_a_store_whose_own_file_cannot_be_honoured_is_not_opened(tmp_path, text, message):
    """Ignored, it would show a history that its owners have renamed, or of a layout that is not known."""
    (tmp_path / "store.toml").write_text(text)
    with pytest.raises((ConfigError, StoreError), match=message):
        open_store(str(tmp_path))


def test_cases_that_were_renamed_keep_their_history(url, made):
    """Old names lead to the present one, over several renames; asked by any of them, the series is whole."""
    runs = [
        made.run_of(0, value=1.0, case="a"),
        made.run_of(1, value=2.0, case="b"),
        made.run_of(2, value=3.0, case="c"),
    ]
    made.filled(url, runs)
    store = open_store(url, ({"a": "b", "b": "c"}, "here"))
    assert list(store.cases()) == ["c"]
    for name in ("a", "b", "c"):
        series = store.series(name, "tpot_s")
        assert (series.case, made.values(series)) == ("c", [1.0, 2.0, 3.0])
    assert [point.extra.get("case") for point in series.points] == ["a", "b", None]


def test_the_store_itself_may_say_what_was_renamed(made, tmp_path):
    """``store.toml`` goes with the runs, for everybody who reads them."""
    made.filled(str(tmp_path / "s"), [made.run_of(0, case="old"), made.run_of(1, case="new")])
    (tmp_path / "s" / "store.toml").write_text('version = 1\n[aliases]\nold = "new"\n')
    assert len(open_store(str(tmp_path / "s")).series("new", "tpot_s").points) == 2


def test_two_cases_of_one_run_are_not_one(made, tmp_path):
    """An alias that joins what exists side by side is refused, with the run and both names."""
    case = made.run_of(0).cases[0]
    both = (case, dataclasses.replace(case, id="other"))
    made.filled(str(tmp_path / "s"), [made.run_of(0, cases=both)])
    store = open_store(str(tmp_path / "s"), ({"other": made.CASE}, "here"))
    with pytest.raises(StoreError, match="run run-0000 has 4x128/cached/b1 and other"):
        store.series(made.CASE, "tpot_s")
