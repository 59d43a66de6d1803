"""What reaches a terminal and a file: words of records, which are anybody's, steer the one no more than the other."""

import io

import pytest
from rich.table import Table
from rich.text import Text

from qwenperf.cli.output import write, write_lines

FOREIGN = "red\x1b[31m \x07bell\x9b2J half\ud800"
PLAIN = "red[31m bell2J half\ufffd"


@pytest.fixture
def told(monkeypatch):
    """Do something, and return what it writes to a stdout of UTF-8, which takes no half character."""

    def told(work, what):
        got = io.BytesIO()
        with monkeypatch.context() as patch, io.TextIOWrapper(got, encoding="utf-8", write_through=True) as stdout:
            patch.setattr("sys.stdout", stdout)
            work(what)
            return got.getvalue().decode()

    return told


def table_of(text):
    table = Table("case")
    table.add_row(text)
    return table


@pytest.mark.parametrize(
    "what", [Text(FOREIGN), table_of(FOREIGN), table_of(Text(FOREIGN))], ids=["text", "cell", "own"]
)
def test_a_report_steers_no_terminal(told, what):
    seen = told(write, [what])
    assert PLAIN in seen
    assert not {"\x1b", "\x9b"} & set(seen)


def test_lines_keep_tabs_and_their_number(told):
    assert told(write_lines, [f"{FOREIGN}\tb", "c"]) == f"{PLAIN}\tb\nc\n"
