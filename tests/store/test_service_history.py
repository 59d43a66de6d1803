"""A service is asked as a store is: here one that answers from a folder."""

import pytest

from qwenperf.errors import StoreError, UnknownNameError
from qwenperf.store.aliases import read_aliases
from qwenperf.store.base import Window
from qwenperf.store.directory import open_store
from qwenperf.store.service_history import ServiceHistory, service_address


@pytest.mark.parametrize(
    ("url", "meant"),
    [
        ("https://perf.example/p/demo", ("https://perf.example", "demo")),
        ("http://127.0.0.1:8000/base/p/demo/", ("http://127.0.0.1:8000/base", "demo")),
        ("https://perf.example/runs", None),
        ("https://perf.example/p/", None),
        ("https://perf.example/p/a/b", None),
        ("/srv/p/demo", None),
        ("s3://bucket/p/demo", None),
    ],
)
def test_an_address_of_a_project_is_known(url, meant):
    """Everything else is a folder or a URL of one."""
    assert service_address(url) == meant


@pytest.fixture
def asked(made, tmp_path):
    """A history with one rename."""
    runs = [
        made.run_of(0, value=1.0, case="a"),
        made.run_of(2, value=3.0, case="b"),
        made.run_of(1, value=2.0, case="a"),
    ]
    for run in runs:
        made.write_run(tmp_path / "store", run)
    return lambda **aliases: ServiceHistory(open_store(str(tmp_path / "store")), read_aliases((aliases, "here")))


def test_renamed_cases_are_joined_in_the_order_of_commits(asked):
    """Although the service knows nothing of it."""
    history = asked(a="b")
    assert history.cases() == {"b": ["peak_bytes", "tpot_s"]}
    series = history.series("a", "tpot_s", Window(last=2))
    assert (series.case, [point.value for point in series.points]) == ("b", [2.0, 3.0])
    assert history.problems() == []
    assert history.committed(f"{2:040x}") == [(f"{2:040x}", pytest.approx(1767441600.0))]


def test_unknown_names_offer_the_nearest(asked):
    """By their present names."""
    with pytest.raises(UnknownNameError, match="unknown case 'c'"):
        asked().series("c", "tpot_s")
    with pytest.raises(UnknownNameError, match=r"unknown metric of b 'tpot'.*Did you mean 'tpot_s'"):
        asked(a="b").series("a", "tpot")


def test_two_cases_of_one_run_are_not_one(asked, made, tmp_path):
    """As in a store."""
    case = made.run_of(3).cases[0]
    both = tuple(type(case)(id=name, spec={}, metrics=case.metrics) for name in "ab")
    made.write_run(tmp_path / "store", made.run_of(3, cases=both))
    with pytest.raises(StoreError, match="one run has two of the cases"):
        asked(a="b").series("b", "tpot_s")


def test_a_commit_is_as_old_as_it_says(made, tmp_path):
    """Not as old as a measurement of it that knows no better, and of two times the earlier counts."""
    sha = f"{1:040x}"
    late = {"sha": sha, "committed_at": "2026-02-01T00:00:00Z"}
    for day, commit in ((0, {"sha": sha}), (1, {"sha": sha, "committed_at": "2026-01-01T00:00:00Z"}), (2, late)):
        made.write_run(tmp_path / "store", made.run_of(day, commit=commit))
    made.write_run(tmp_path / "store", made.run_of(3, commit={"sha": f"{3:040x}"}))
    history = ServiceHistory(open_store(str(tmp_path / "store")), read_aliases())
    assert history.committed("0") == [(sha, 1767225600.0)]


def test_a_service_is_asked_for_its_cases_once(made, tmp_path, monkeypatch):
    """Each question is a journey, and a pattern asks for every case that it matches."""
    made.write_run(tmp_path / "store", made.run_of(0, case="a"))
    store, asked = open_store(str(tmp_path / "store")), []
    cases = store.cases
    monkeypatch.setattr(store, "cases", lambda: asked.append(1) or cases())
    history = ServiceHistory(store, read_aliases())
    for _ in range(3):
        assert history.series("a", "tpot_s").points
        assert list(history.cases()) == ["a"]
    assert len(asked) == 1
