"""A service that answers nonsense, or nothing new, costs no traceback, no parcel and no page too many."""

import json
import os
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from qwenperf.errors import RecordError
from qwenperf.store.base import Window
from qwenperf.store.delivery import Fate, deliver, drain
from qwenperf.store.http import Service, UnreachableError
from qwenperf.store.parcels import Parcel, pack, pack_place
from qwenperf.store.remote import RemoteStore
from qwenperf.store.spool import Spool

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


def test_a_folder_of_two_records_is_sent_by_the_name_of_one(tmp_path):
    """Which of the two is meant nobody knows, and the other would be lost without a word."""
    for name in ("run.json", "comparison.json"):
        (tmp_path / name).write_text('{"id": "r"}')
    with pytest.raises(RecordError, match=r"holds run\.json and comparison\.json"):
        pack_place(tmp_path)
    assert pack_place(tmp_path / "comparison.json").name == "r"


def test_what_is_refused_waits_no_more_and_is_not_lost(parcel, tmp_path):
    """It lies aside, and the next time nothing is sent."""
    spool = Spool(tmp_path / "spool")
    spool.keep(parcel, URL, "p")
    (done,) = drain(service(httpx.Response(422, json={"error": "wrong unit"})), spool)
    assert done.fate is Fate.REFUSED
    (record,) = (tmp_path / "spool" / "refused").glob("*/record.json")
    assert str(record.parent) in done.message
    assert drain(service(httpx.Response(500)), spool) == []


def test_one_that_is_always_refused_keeps_no_other_waiting(tmp_path):
    """Where the service could take something in, the rest is sent, and the bad one goes last from then on."""
    spool = Spool(tmp_path / "spool")
    for place, name in enumerate(("bad", "good", "better")):
        folder = spool.keep(Parcel(name=name, data=json.dumps({"id": name}).encode()), URL, "p")
        os.utime(folder / "parcel.json", (place, place))
    sent, is_ready = [], True

    def answer(request):
        if request.url.path == "/readyz":
            return httpx.Response(200 if is_ready else 503)
        sent.append(json.loads(request.content)["id"])
        record = {"kind": "run", "id": sent[-1], "created": True, "page": f"/p/p/runs/{sent[-1]}"}
        return httpx.Response(500) if sent[-1] == "bad" else httpx.Response(201, json={"records": [record]})

    assert [one.fate for one in drain(service(answer), spool)] == [Fate.SPOOLED, Fate.SENT, Fate.SENT]
    spool.keep(Parcel(name="new", data=b'{"id": "new"}'), URL, "p")
    drain(service(answer), spool)
    is_ready = False
    spool.keep(Parcel(name="last", data=b'{"id": "last"}'), URL, "p")
    drain(service(answer), spool)
    assert sent == ["bad", "good", "better", "bad", "new", "bad"]


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


@pytest.mark.parametrize("status", [301, 308, 400, 405, 409, 422])
def test_a_no_that_is_not_the_service_s_own_keeps_the_run(parcel, tmp_path, status):
    """A redirect or the page of a proxy says nothing of the run."""
    place = {"Location": "https://me:hunter2@new.example/api/v1/projects/p/runs?ticket=hunter2"} if status < 400 else {}
    done = deliver(
        parcel, service(httpx.Response(status, headers=place, text="<h1>no</h1>")), "p", Spool(tmp_path / "s")
    )
    assert done.fate is Fate.SPOOLED
    assert "hunter2" not in done.message
    assert ("points to https://new.example." in done.message) is (status < 400)


def test_a_broken_parcel_is_told_and_the_others_go(parcel, tmp_path):
    """Also one that names no address."""
    spool = Spool(tmp_path / "spool")
    for name, text in (("0000-bad", "{"), ("0001-odd", '{"files": {}, "url": 3, "project": "p", "name": "n"}')):
        (tmp_path / "spool" / name).mkdir(parents=True)
        (tmp_path / "spool" / name / "parcel.json").write_text(text)
        (tmp_path / "spool" / name / "record.json").write_text("{}")
    spool.keep(parcel, URL, "p")
    done = {one.name: one.fate for one in drain(service(httpx.Response(404)), spool)}
    assert done == {"0000-bad": Fate.LOST, "0001-odd": Fate.LOST, "run-1": Fate.SPOOLED}


def test_a_password_in_an_address_is_neither_told_nor_kept(parcel, tmp_path):
    """And what waits goes to the same address, whoever asks there."""
    spool = Spool(tmp_path / "spool")
    for url in ("http://me:hunter2@service.example", "http://me:hun/ter2@service.example", "//me:hunter2@x"):
        said = []
        to = service(httpx.Response(503), url)
        to.say, to.patience_s, to.sleep = said.append, 0.9, lambda _: None
        to.clock = iter([0.0, 0.0, 9.0]).__next__
        told = json.dumps([deliver(parcel, to, "p", spool).to_json(), said, RemoteStore(to, "p").url])
        assert "ter2" not in told
    kept, *more = (tmp_path / "spool").glob("*/parcel.json")
    assert all("ter2" not in file.read_text() for file in [kept, *more])
    assert (kept.parent.stat().st_mode | kept.parent.parent.stat().st_mode) & 0o077 == 0
    assert [one.name for one in drain(service(httpx.Response(404), "http://you:x@service.example/"), spool)] == [
        "run-1"
    ]


@pytest.mark.parametrize("token", ["qpf_hunter2\nX", "qpf_hunter2\xfc", "qpf hunter2", "qpf_hunter2\udc80"])
def test_a_token_that_no_header_holds_is_not_shown(parcel, tmp_path, token):
    """The run waits for a better one."""
    bad = service(httpx.Response(200))
    bad.token = token
    done = deliver(parcel, bad, "p", Spool(tmp_path / "spool"))
    assert (done.fate, done.exit_code) == (Fate.SPOOLED, 2)
    assert "hunter2" not in json.dumps(done.to_json())


def test_a_token_is_sent_without_the_newline_it_was_pasted_with():
    """As a secret of CI usually is."""
    asked = []
    good = service(lambda request: asked.append(request.headers["Authorization"]) or httpx.Response(200))
    good.token = " qpf_a\r\n"
    good.ask("GET", "/")
    assert asked == ["Bearer qpf_a"]


def test_a_service_s_words_are_one_line_that_steers_nothing(parcel, tmp_path):
    """A job's log reads commands at the beginning of a line."""
    words = "\x1b[31mred\x07\n::error::x" + "y" * 9999
    done = deliver(parcel, service(httpx.Response(409, json={"error": words})), "p", Spool(tmp_path / "spool"))
    assert done.fate is Fate.REFUSED
    assert done.message.isprintable()
    assert len(done.message) < 1000


def test_an_odd_pause_is_no_pause():
    """A digit that is none of ours is one to Python."""
    odd = httpx.Response(503, headers={"Retry-After": "²".encode("latin-1")})
    with pytest.raises(UnreachableError):
        service(odd).ask("GET", "/")


def receiving(seen, *, answers=(), meanwhile=lambda: None):
    """A service that takes files; ``answers`` come first to parts, and ``meanwhile`` happens before each."""
    record = {"records": [{"kind": "run", "id": "r", "created": True}]}
    answers = list(answers)

    def answer(request):
        if request.url.path.endswith("/runs"):
            return httpx.Response(201, json=record)
        if request.method == "POST":
            seen.append(json.loads(request.content)["path"])
            meanwhile()
            return httpx.Response(201, json={"upload": "u", "offset": 0, "complete": False})
        seen.append(request.read())
        return answers.pop(0) if answers else httpx.Response(200, json={"complete": True})

    return answer


class Reading(httpx.BaseTransport):
    """Sends as the network does: what is wrong with a body comes while it is read."""

    def __init__(self, answer):
        self.answer = answer

    def handle_request(self, request):
        """Read the body, then answer."""
        request.read()
        return self.answer(request)


@pytest.mark.parametrize("change", ["grow", "shrink", "go"])
def test_a_file_that_changes_while_it_is_sent_is_told_and_the_rest_goes(tmp_path, change):
    """Never more bytes than were announced; the run is not blamed, nor the spool."""
    file, seen = tmp_path / "a.pb", []
    file.write_bytes(b"trace")
    (tmp_path / "b.pb").write_bytes(b"other")

    def meanwhile():
        if len(seen) == 1:
            {"grow": lambda: file.write_bytes(b"trace" * 2), "shrink": lambda: file.write_bytes(b""),
             "go": file.unlink}[change]()  # fmt: skip

    two = Parcel(name="r", data=b"{}", files={"a.pb": file, "b.pb": tmp_path / "b.pb"})
    to = Service(url=URL, transport=Reading(receiving(seen, meanwhile=meanwhile)), patience_s=0)
    done = deliver(two, to, "p", Spool(tmp_path / "spool"))
    assert (done.fate, done.exit_code, seen) == (Fate.LOST, 2, ["a.pb", "b.pb", b"other"])
    assert str(file) in done.message
    assert "spool" not in done.message


def test_other_bytes_under_the_same_size_are_told_as_a_change(parcel, tmp_path):
    """The service only sees another digest."""
    no = httpx.Response(422, json={"error": "its SHA-256 differs"})
    to = service(receiving([], answers=[no], meanwhile=lambda: (tmp_path / "a.pb").write_bytes(b"TRACE")))
    assert "changed while it was sent" in deliver(parcel, to, "p", Spool(tmp_path / "spool")).message


@pytest.mark.parametrize("status", [404, 409])
def test_an_upload_that_is_elsewhere_by_now_is_announced_again(parcel, tmp_path, status):
    """Two jobs may send the same file at once."""
    seen = []
    to = service(receiving(seen, answers=[httpx.Response(status, json={"error": "at 5"})]))
    assert deliver(parcel, to, "p", Spool(tmp_path / "spool")).fate is Fate.SENT
    assert seen == ["a.pb", b"trace", "a.pb", b"trace"]


@pytest.mark.parametrize("offset", [0, -1, 6, "0"])
def test_a_service_that_takes_no_byte_is_given_up(parcel, tmp_path, offset):
    """However often it answers."""
    still = [httpx.Response(200, json={"complete": False, "upload": "u", "offset": offset}) for _ in range(99)]
    seen = []
    done = deliver(parcel, service(receiving(seen, answers=still)), "p", Spool(tmp_path / "spool"))
    assert done.fate is Fate.SPOOLED
    assert len(seen) < 10


def test_a_file_that_is_gone_is_not_blamed_on_the_spool(parcel, tmp_path):
    """It was there when the run was packed."""
    (tmp_path / "a.pb").unlink()
    done = deliver(parcel, service(httpx.Response(503)), "p", Spool(tmp_path / "spool"))
    assert done.fate is Fate.LOST
    assert "a.pb is gone" in done.message
