"""Maps of renamed cases: what they mean, and what they may not say."""

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
