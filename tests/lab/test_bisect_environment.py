"""An upgrade in the middle of a search: readings of before and after are not mixed."""

import sys
from dataclasses import replace

import pytest

from qwenperf.errors import EnvironmentUnfitError
from qwenperf.lab.bisect import FILE, Bisection
from qwenperf.lab.bisect_environment import KEY, installed, unchanged
from qwenperf.lab.bisect_search import Answer, Search
from qwenperf.schema.bisection import AnswerRecord, BisectionRecord, bisection_loads

OLD = {"python": "3.11.7", "jax": "0.10.1", "jaxlib": "0.10.1", "numpy": "2.0"}
NEW = {**OLD, "jax": "0.10.2", "jaxlib": "0.10.2", "absl-py": "1"}
RECORD = BisectionRecord(id="b", created_at="now", case="c", metric="request_s", good="0", bad="4")


class Quiet:
    """A listener that hears nothing."""

    def asking(self, *_):
        """Hear a question."""

    def answered(self, *_):
        """Hear an answer."""


def bisection(folder, record, found, ask):
    record, guard = unchanged(record, found)
    search = Search(good="0", bad="4", parents={str(one): (str(one - 1),) for one in range(1, 5)})
    return Bisection(record=record, folder=folder, search=search, ask=ask, listener=Quiet(), unchanged=guard)


def answer(question, _ends):
    said = Answer.BAD if int(question.head) > 2 >= int(question.base) else Answer.GOOD
    return AnswerRecord(
        kind=question.kind, base=question.base, head=question.head, attempt=question.attempt, answer=said, change=0.1
    )


def test_each_answer_says_what_it_was_measured_with(tmp_path):
    """And the search what that is."""
    record = bisection(tmp_path, RECORD, lambda: OLD, answer).run()
    assert record.end == "culprit"
    assert record.extra[KEY] == OLD
    assert {one.extra[KEY] for one in record.answers} == {unchanged(record, lambda: OLD)[1].key}
    assert bisection_loads((tmp_path / FILE).read_text(), "file") == record


@pytest.mark.parametrize("after", [0, 2])
def test_an_upgrade_while_a_question_is_answered_ends_the_search_without_that_answer(tmp_path, after):
    """It is told by name and with what to do; what was answered before is kept, and goes on in the old environment."""
    seen = []

    def upgraded(question, ends):
        seen.append(question)
        return answer(question, ends)

    with pytest.raises(EnvironmentUnfitError) as error:
        bisection(tmp_path, RECORD, lambda: NEW if len(seen) > after else OLD, upgraded).run()
    assert "jax 0.10.1 -> 0.10.2, jaxlib 0.10.1 -> 0.10.2, absl-py was not there -> 1." in error.value.message
    assert "--restart" in str(error.value)
    kept = bisection_loads((tmp_path / FILE).read_text(), "file")
    assert (len(kept.answers), kept.interrupted) == (after, True)
    with pytest.raises(EnvironmentUnfitError, match="another than when this search began"):
        bisection(tmp_path, kept, lambda: NEW, answer)
    assert bisection(tmp_path, kept, lambda: OLD, answer).run().end == "culprit"


def test_a_search_of_an_older_version_goes_on_and_says_so_from_then_on(tmp_path):
    """It did not say what it began with."""
    older = replace(RECORD, answers=(replace(answer(Search(good="0", bad="4", parents={}).next_step([]), None)),))
    record = bisection(tmp_path, older, lambda: OLD, answer).run()
    assert (record.end, record.extra[KEY]) == ("culprit", OLD)
    assert [KEY in one.extra for one in record.answers][:2] == [False, True]


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Return a maker of installed packages, in the checkout's own environment."""
    place = tmp_path / ".venv" / "site-packages"
    place.mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    monkeypatch.setattr(sys, "path", ["", str(place), str(tmp_path), str(tmp_path / "nowhere")])

    def make(name, version, url="", where=place):
        folder = where / f"{name}-{version}.dist-info"
        folder.mkdir(parents=True, exist_ok=True)
        if url:
            (folder / "direct_url.json").write_text(f'{{"url": "{url}", "dir_info": {{"editable": true}}}}')

    return make


def test_what_is_installed_is_every_package_but_the_checkout_itself(site, tmp_path):
    """Its commits are what is measured; and an installer measures nothing."""
    site("jax", "0.10.2")
    site("pip", "25.0")
    site("Their_Helpers", "1.0")
    site("theirs", "0.1.dev7", url=tmp_path.as_uri())
    site("theirs-built", "0.1.dev7", where=tmp_path)
    found = installed(tmp_path)
    assert {name for name in found if name not in {"python", "interpreter"}} == {"jax", "their-helpers"}
    assert found["jax"] == "0.10.2"
    site("libtpu", "0.0.1")
    assert installed(tmp_path)["libtpu"] == "0.0.1"


def test_the_lock_that_decides_on_environments_and_our_own_files_count(site, tmp_path):
    """Another lock in the checkout gives commits another environment; in somebody's own repository it is theirs."""
    site("jax", "0.10.2")
    lock = tmp_path / "requirements" / "lock.txt"
    lock.parent.mkdir()
    lock.write_text("jax==0.10.2")
    before = installed(tmp_path)
    lock.write_text("jax==0.10.3")
    assert installed(tmp_path) != before
    for name in ("one", "other"):
        (tmp_path / name / "qwenperf").mkdir(parents=True)
        (tmp_path / name / "qwenperf" / "lab.py").write_text(f"# {name}")
    one, other = (installed(tmp_path, tmp_path / name) for name in ("one", "other"))
    assert "requirements/lock.txt" not in one
    assert {name for name in one if one[name] != other[name]} == {"code of qwenperf"}
