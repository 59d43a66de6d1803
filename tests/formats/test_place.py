"""Reading other tools' JSON: what is wrong is told with file, key and what to do."""

import json

import pytest

from qwenperf.errors import FormatError
from qwenperf.formats.place import Document, parse, parse_lines, plain, to_text


def place(text, advice="Give a dashboard."):
    return parse(Document(name="a.json", text=text), advice)


@pytest.mark.parametrize(
    ("text", "ask", "told"),
    [
        ("{", lambda one: one, "a.json is not JSON"),
        ('{"a": 1, "a": 2}', lambda one: one, "the key 'a' is there twice"),
        ('{"b": 1}', lambda one: one.at("a"), r"a.json: a is missing. Found: b. Give a dashboard."),
        (
            '{"a": [1]}',
            lambda one: one.at("a").at("b"),
            r"a.json: a is \[1\], which is not an object. Give a dashboard.",
        ),
        ('{"a": {}}', lambda one: one.at("a").entries(), "a is {}, which is not an array"),
        ('{"a": "1"}', lambda one: one.at("a").number(), "a is '1', which is not a number"),
        ('{"a": true}', lambda one: one.at("a").number(), "a is True, which is not a number"),
        ('{"a": NaN}', lambda one: one.at("a").number(), "a is nan; records hold finite numbers only. Measure again"),
        ('{"a": -Infinity}', lambda one: one.at("a").number(), "a is -inf; records hold finite numbers only"),
        ('{"a": [0, 1e999]}', lambda one: one.at("a").entries()[1].number(), r"a\[1\] is inf"),
        (f'{{"a": 1{"0" * 400}}}', lambda one: one.at("a").number(), "records hold finite numbers only"),
        ('{"a": 1}', lambda one: one.at("a").text(), "a is 1, which is not text"),
        ('{"a": 1}', lambda one: one.at("a").flag(), "a is 1, which is not true or false"),
        ("[" * 100_000, lambda one: one, "a.json is not JSON"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text, ask, told):
    """File, key path, what was seen and what to do."""
    with pytest.raises(FormatError, match=told):
        ask(place(text))


def test_lines_are_read_whatever_stands_between_them():
    """One tool appends with a line break before, another with one behind; a pretty file is one value."""
    for text in ('{"a": 1}\n{"a": 2}\n', '\n{"a": 1}\n\n{"a": 2}', '{"a":\n 1} {"a": 2}'):
        assert [one.value for one in parse_lines(Document(name="", text=text))] == [{"a": 1}, {"a": 2}]
    with pytest.raises(FormatError, match=r"x: line 2\.a is missing"):
        parse_lines(Document(name="x", text='{"a": 1}\n{"b": 2}'))[1].at("a")
    with pytest.raises(FormatError, match="is empty"):
        parse_lines(Document(name="x", text=" \n"))
    with pytest.raises(FormatError, match="x is not JSON"):
        parse_lines(Document(name="x", text='{"a": 1}\n{"a": '))


def test_free_data_can_be_written_as_json():
    """A rate of infinity is a setting, and stays one in words."""
    data = {"rate": float("inf"), "deep": [float("-inf"), float("nan"), 1.5, True, None]}
    assert plain(data) == {"rate": "inf", "deep": ["-inf", "nan", 1.5, True, None]}


def test_half_a_character_is_written_as_what_it_was_read_from():
    """JSON can hold one and no file can: the text is encoded, and reads back the same."""
    data = {"a\ud800": "b\udfff\N{SNOWMAN}"}
    text = to_text(data)
    assert "\N{SNOWMAN}" in text
    assert json.loads(text.encode()) == data
