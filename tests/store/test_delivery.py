"""A service that answers nonsense, or nothing new, costs no traceback, no parcel and no page too many."""

import json
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from qwenperf.errors import RecordError
from qwenperf.store.base import Window
from qwenperf.store.delivery import Fate, deliver, drain
from qwenperf.store.http import Service, UnreachableError
from qwenperf.store.parcels import Parcel, Spool, pack, pack_place
from qwenperf.store.remote import RemoteStore

URL = "http://service.example"


def service(answer, url=URL):
    """A service whose every answer is this, and that is asked once."""
    transport = httpx.MockTransport(answer if callable(answer) else lambda _: answer)
    return Service(url=url, transport=transport, patience_s=0)


def garbled(_):
    return httpx.Response(200, headers={"Content-Encoding": "gzip"}, stream=httpx.ByteStream(b"no gzip"))


@pytest.fixture
def parcel(tmp_path):
    (tmp_path / "a.pb").write_bytes(b"trace")
    return Parcel(name="run-1", data=b"{}", files={"a.pb": tmp_path / "a.pb"})


@pytest.mark.parametrize(
    "answer",
    [garbled, *(httpx.Response(200, json=told) for told in ({"records": []}, {"records": [{"id": "r"}]}, [], {}))],
    ids=["garbled", "no record", "no created", "array", "empty"],
)
def test_an_answer_that_no_service_gives_keeps_the_parcel(parcel, tmp_path, answer):
    """Whoever stands between may answer anything."""
    done = deliver(parcel, service(answer), "p", Spool(tmp_path / "spool"))
    assert done.fate is Fate.SPOOLED, done.message
    assert [one.parcel.data for one in Spool(tmp_path / "spool").waiting()] == [b"{}"]


def test_a_garbled_answer_is_no_answer():
    """It is asked for again, and given up in words."""
    with pytest.raises(UnreachableError):
        service(garbled).ask("GET", "/")


def test_a_record_that_json_cannot_hold_is_told(tmp_path):
    """A number beyond all numbers is read as infinite, and cannot be sent."""
    (tmp_path / "run.json").write_text('{"id": "r", "value": 1e999}')
    with pytest.raises(RecordError, match="r cannot be sent"):
        pack_place(tmp_path)
    with pytest.raises(RecordError):
        pack({"value": float("nan")}, "r")


def test_what_is_refused_waits_no_more_and_is_not_lost(parcel, tmp_path):
    """It lies aside, and the next time nothing is sent."""
    spool = Spool(tmp_path / "spool")
    spool.keep(parcel, URL, "p")
    (done,) = drain(service(httpx.Response(422, json={"error": "wrong unit"})), spool)
    assert done.fate is Fate.REFUSED
    (record,) = (tmp_path / "spool" / "refused").glob("*/record.json")
    assert str(record.parent) in done.message
    assert drain(service(httpx.Response(500)), spool) == []


def test_one_address_is_one_with_its_slash_and_without(parcel, tmp_path):
    """What waits twice would be sent twice."""
    spool = Spool(tmp_path / "spool")
    assert spool.keep(parcel, f"{URL}/", "p") == spool.keep(parcel, URL, "p")
    assert len(list(spool.waiting())) == 1


def test_a_window_without_runs_asks_for_no_page_beyond_it():
    """Runs come with the newest first: what follows one that is too old is older."""
    asked, start = [], datetime(2026, 1, 1, tzinfo=UTC)

    def page(request):
        asked.append(request)
        at = (start - timedelta(days=len(asked))).isoformat()
        row = {"run": "r", "at": at, "measured_at": at, "suite": "s", "commit": "", "committed_at": None, "branch": ""}
        row |= {"environment": "", "cases": 1, "interrupted": False}
        return httpx.Response(200, content=json.dumps({"runs": [row], "next": "on" if len(asked) < 9 else None}))

    assert RemoteStore(service(page), "p").runs(Window(since=start)) == []
    assert len(asked) == 1
