"""The package's table of contents is complete, and documented."""

import re

import pytest

import qwenperf


@pytest.fixture(scope="module")
def page(repository):
    return (repository / "docs" / "api.md").read_text(encoding="utf-8")


def test_every_public_name_is_there():
    """What __all__ lists can be imported, and help lists it."""
    assert set(qwenperf.__all__) <= set(dir(qwenperf))
    for name in qwenperf.__all__:
        assert getattr(qwenperf, name) is not None


def test_the_page_lists_every_public_name_and_its_room(page):
    """docs/api.md has one row a name, and the room is where the name comes from."""
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|", page, re.MULTILINE))
    assert sorted(rows) == qwenperf.__all__
    rooms = {name: rooms.split("`")[1] for name, rooms in rows.items() if "`" in rooms}
    homes = {name: module.split(".")[1] for name, module in qwenperf._CONTENTS.items()}
    assert rooms == homes


def test_the_page_s_example_runs(page, capsys):
    """What is shown can be pasted."""
    exec(compile(page.split("```python\n")[1].split("```")[0], "docs/api.md", "exec"), {})
    assert "tokens" in capsys.readouterr().out
