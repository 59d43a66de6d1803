"""Archives of strangers: what is read of them, and what refuses the whole."""

import io
import stat
import zipfile

import pytest

from qwenperf.errors import RecordError
from qwenperf.forge import artifact
from qwenperf.forge.artifact import fetch, record_in
from qwenperf.forge.target import Target


def archive(*members, **more):
    """Return a .zip of pairs of a name and what is in it."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED, **more) as made:
        for name, text in members:
            made.writestr(name, text)
    return data.getvalue()


def link(name, to):
    """Return a member that is a symbolic link."""
    told = zipfile.ZipInfo(name)
    told.external_attr = (stat.S_IFLNK | 0o777) << 16
    return told, to


@pytest.mark.parametrize(
    ("members", "name"),
    [
        ([("run.json", "{}")], "run.json"),
        ([("a/trace.pb", "x"), ("a/run.json", "{}"), ("a/report.html", "<p>")], "a/run.json"),
        ([("a/run.json", "[]"), ("comparison.json", "{}"), ("b/run.json", "[]")], "comparison.json"),
    ],
)
def test_the_record_is_read_wherever_it_lies(members, name):
    """A comparison counts more than the runs that it is made of."""
    assert record_in(archive(*members), "A") == (name, "{}")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_unpacks_to_gigabytes_at_once_is_refused_before_it_is_read(method):
    """Python reads other kinds than GitHub's own with no limit: a megabyte of them fills a machine's memory."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as made:
        made.writestr("run.json", "{}")
    with pytest.raises(RecordError, match="packed in a way"):
        record_in(data.getvalue(), "A")


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ([("notes.txt", "")], "has no comparison.json and no run.json"),
        ([("a/run.json", "{}"), ("b/run.json", "{}")], "has 2 of run.json"),
        ([("run.json", "{}"), ("../../etc/cron.d/x", "")], "lies outside"),
        ([("/etc/passwd", ""), ("run.json", "{}")], "lies outside"),
        ([("C:evil", ""), ("run.json", "{}")], "lies outside"),
        ([("a\\..\\run.json", "{}")], "lies outside"),
        ([("a\x1b[2Jrun.json", "{}")], "no name of a file"),
        ([("x" * 300, ""), ("run.json", "{}")], "no name of a file"),
        ([link("run.json", "/etc/passwd")], "is no file"),
        ([(str(number), "") for number in range(2_001)], "has 2,001 files"),
        ([("run.json", b"\xff\xfe\x00")], "no UTF-8"),
    ],
)
def test_what_no_honest_job_uploads_is_refused(members, told):
    """One bad member is enough."""
    with pytest.raises(RecordError, match=told):
        record_in(archive(*members), "A")


def test_a_file_that_is_there_twice_is_refused():
    """Readers do not agree on which of the two counts."""
    with pytest.warns(UserWarning, match="Duplicate"):
        data = archive(("run.json", "{}"), ("run.json", "[]"))
    with pytest.raises(RecordError, match="names a file twice"):
        record_in(data, "A")


def test_a_bomb_is_not_unpacked():
    """A few kilobytes that would be tens of megabytes end at the limit."""
    data = archive(("run.json", b" " * (artifact.MOST_RECORD + 1)))
    assert len(data) < 100_000
    with pytest.raises(RecordError, match="larger than 32,000,000 bytes"):
        record_in(data, "A")


def test_a_member_that_lies_about_its_size_is_refused():
    """The header says little, the data are more: what is read is what the header says, and its sum is wrong."""
    data = bytearray(archive(("run.json", b" " * 5_000)))
    for mark, place in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        at = data.index(mark) + place
        data[at : at + 4] = (10).to_bytes(4, "little")
    with pytest.raises(RecordError, match=r"cannot be read|no archive"):
        record_in(bytes(data), "A")


@pytest.mark.parametrize("cut", [0, 10, 60, -1, -20])
def test_what_is_cut_short_is_no_archive(cut):
    """Wherever it ends."""
    with pytest.raises(RecordError, match="archive"):
        record_in(archive(("run.json", "{}"))[:cut], "A")


def test_an_encrypted_member_is_refused():
    """Nobody gave us a password."""
    data = bytearray(archive(("run.json", "{}")))
    data[data.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(RecordError, match="encrypted"):
        record_in(bytes(data), "A")


def test_the_newest_artifact_of_that_name_is_fetched(api, github):
    """A job that ran twice uploaded twice; other names and other runs do not matter."""
    github.artifacts.update({3: ("qwenperf", b"old"), 9: ("qwenperf", b"new"), 11: ("other", b"other")})
    assert fetch(api, Target(repository="acme/engine", sha="a" * 40, run=5), "qwenperf") == b"new"
    with pytest.raises(RecordError, match="run 5 has no artifact 'missing'"):
        fetch(api, Target(repository="acme/engine", sha="a" * 40, run=5), "missing")


def test_without_the_run_there_is_no_artifact(api):
    """Only the event says which run measured."""
    with pytest.raises(RecordError, match="is not known"):
        fetch(api, Target(repository="acme/engine", sha="a" * 40), "qwenperf")
