"""XProf on traces of runs and comparisons, through the service: who gets there, what passes, and when it ends."""

import hashlib
import importlib.util
import re
import stat
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from itertools import islice
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from sqlalchemy import select, update

from qwenperf.service.db import projects, retention, runs
from qwenperf.service.db.tables import comparisons as compared
from qwenperf.service.db.tables import runs as table_of_runs
from qwenperf.service.problems import ServiceUnavailableError
from qwenperf.service.settings import ServiceSettings
from qwenperf.service.viewers import process
from qwenperf.service.viewers.viewers import Viewers, installed
from qwenperf.service.web import viewer

SECRET = "never-to-be-seen"


def beside(name, folder="service"):
    """Load a module that lies beside the tests."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[1] / folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


running = beside("running")


@pytest.fixture
def fake(monkeypatch):
    """Start a program that tells what it was asked in XProf's place."""
    monkeypatch.setattr(process, "_CHILD", Path(__file__).with_name("fake_xprof.py"))
    monkeypatch.setattr(viewer, "installed", lambda: True)
    monkeypatch.setenv("QWENPERF_DATABASE", f"postgresql://{SECRET}")


@pytest.fixture
def service(tmp_path):
    """A service that starts one viewer at once."""
    settings = ServiceSettings(data=tmp_path / "data", judge=False, sweep_s=0, viewers=1, anonymous_burst=10_000)
    with running.serving(settings) as found:
        yield found


@pytest.fixture
def filled(service, documents):
    """The service with a private project and three runs, of which two have a trace."""
    service.ask("POST", "/api/v1/projects", service.admin, json={"project": "demo"})
    for number in range(3):
        service.ask("POST", "/api/v1/projects/demo/runs", service.admin, json=documents.run(number))
    for number in (1, 2):
        send(service, number, f"session-{number}", b"trace")
    return service


def send(service, number, session, data, host="host"):
    """Send a trace of a run."""
    send_to(service, f"runs/run-{number:06d}", session, data, host)


def send_to(service, record, session, data, host="host"):
    """Send a trace of a record."""
    told = {"path": f"plugins/profile/{session}/{host}.xplane.pb", "size": len(data)}
    told["sha256"] = hashlib.sha256(data).hexdigest()
    place = f"/api/v1/projects/demo/{record}/files"
    upload = service.ask("POST", place, service.admin, json=told).json()["upload"]
    if upload is not None:  # the same content is there already
        place, headers = f"/api/v1/projects/demo/uploads/{upload}", {"Upload-Offset": "0"}
        assert service.ask("PATCH", place, service.admin, content=data, headers=headers).json()["complete"]


@pytest.fixture
def person(service):
    """A browser of somebody who is signed in with a token, by default the admin's."""
    opened = []

    def sign_in(token=""):
        http = httpx.Client(base_url=service.url, headers={"Accept": "text/html"}, timeout=120, verify=False)
        opened.append(http)
        sent = http.post("/login", data={"csrf": form_of(http, "/login"), "token": token or service.admin, "next": "/"})
        assert sent.status_code == 303
        return http

    yield sign_in
    for http in opened:
        http.close()


def form_of(http, page):
    """Return the secret of the forms of a page."""
    return re.search(r'name="csrf" value="([0-9a-f]{64})"', http.get(page).text)[1]


def start(http, number=1, status=303):
    """Open the traces of a run as its page does, and return where that leads, or what it says."""
    return start_on(http, f"/p/demo/runs/run-{number:06d}", status)


def start_on(http, page, status=303):
    """Open the traces of a page."""
    sent = http.post(f"{page}/xprof", data={"csrf": form_of(http, page)})
    assert sent.status_code == status, sent.text[:500]
    return sent.headers["location"] if status == 303 else sent.text


def stranger(service, path):
    """Ask without any credential, as what runs in the sandbox does."""
    return httpx.get(f"{service.url}{path}", timeout=60)


@pytest.mark.usefixtures("fake")
def test_a_viewer_stands_in_a_sandbox_and_hears_nothing_of_the_service(filled, person):
    """No cookie, no token, no variable of the service; and its answers bring no cookie and none of its own policy."""
    http = person()
    assert "Open the traces in XProf" in http.get("/p/demo/runs/run-000001").text
    assert "Open the traces in XProf" not in http.get("/p/demo/runs/run-000000").text
    place = start(http)
    page = http.get(place)
    policy = page.headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts")
    assert "allow-same-origin" not in policy
    assert "set-cookie" not in page.headers
    assert page.headers["referrer-policy"] == "no-referrer"
    # Before any script of the page's own.
    assert page.text.startswith("<html><head><script>")
    assert "localStorage" in page.text
    told = http.get(f"{place}data?run=session-1&tag=overview_page", headers={"Authorization": f"Bearer {SECRET}"})
    assert told.json()["path"] == "/data/plugin/profile/data?run=session-1&tag=overview_page"
    assert not {"cookie", "authorization"} & {name.lower() for name in told.json()["headers"]}
    assert SECRET not in told.text
    assert filled.admin not in told.text


@pytest.mark.usefixtures("fake")
def test_who_may_not_see_the_run_opens_no_viewer_and_gets_to_none(filled, person):
    """A ticket is of one run and of one who may see it; without one there is nothing, for whoever asks."""
    http = person()
    place = start(http)
    assert stranger(filled, place).status_code == 200
    ticket = re.search(r"/xprof/([^/]+)/", place)[1]
    for path in (place.replace(ticket, "guessed"), place.replace("run-000001", "run-000002")):
        answer = stranger(filled, path)
        assert (answer.status_code, "has ended" in answer.text) == (404, True), path
        assert http.get(path).status_code == 404
    service = filled.service
    filled.ask("POST", "/api/v1/projects", filled.admin, json={"project": "other"})
    other = person(filled.token("read", "other"))
    assert other.get("/p/demo/runs/run-000001").status_code == 404
    refused = other.post("/p/demo/runs/run-000001/xprof", data={"csrf": form_of(other, "/p/other")})
    assert refused.status_code == 404
    assert http.post("/p/demo/runs/run-000001/xprof", data={"csrf": "0" * 64}).status_code == 403
    assert service.viewers.count() == 1


@pytest.mark.usefixtures("fake")
def test_a_comparison_has_a_viewer_of_its_own(filled, person, documents):
    """Of the same number and moment as a run, its tickets are good for nothing else; it ends with its comparison."""
    http, api = person(), "/api/v1/projects/demo/comparisons"
    page = "/p/demo/comparisons/compare-1"
    assert filled.ask("POST", api, filled.admin, json=documents.comparison()).status_code == 201
    assert "Open the traces in XProf" not in http.get(page).text
    start_on(http, page, 404)
    send_to(filled, "comparisons/compare-1", "case-base", b"trace of base")
    filled.service.database.write(
        lambda connection: [connection.execute(update(one).values(received_at=1)) for one in (table_of_runs, compared)]
    )
    assert "Open the traces in XProf" in http.get(page).text
    place = start_on(http, page)
    assert stranger(filled, place).status_code == 200
    assert stranger(filled, f"{place}data?run=case-base&tag=overview_page").status_code == 200
    assert stranger(filled, f"{place}data?run=session-1&tag=overview_page").status_code == 422
    with filled.service.database.read() as connection:
        (one,) = connection.execute(select(table_of_runs.c.name).where(table_of_runs.c.id == 1)).scalars()
    assert stranger(filled, place.replace("comparisons/compare-1", f"runs/{one}")).status_code == 404
    assert filled.ask("DELETE", f"{api}/compare-1", filled.admin).status_code == 204
    assert stranger(filled, place).status_code == 404
    assert filled.service.viewers.count() == 0


@pytest.mark.usefixtures("fake")
def test_a_ticket_ends_with_the_token_that_got_it(filled, person):
    """Whoever loses a token loses what it opened."""
    token = filled.token("read", "demo")
    place = start(person(token))
    assert stranger(filled, place).status_code == 200
    prefix = "_".join(token.split("_")[:2])
    revoked = filled.ask("DELETE", f"/api/v1/projects/demo/tokens/{prefix}", filled.admin)
    assert revoked.status_code == 204, revoked.text
    assert stranger(filled, place).status_code == 404


@pytest.mark.usefixtures("fake")
def test_a_ticket_ends_with_the_session_that_got_it(filled, person):
    """Who signs out leaves nothing open behind, and a token that is asked with has no session to end."""
    http = person(filled.token("read", "demo"))
    place = start(http)
    assert stranger(filled, place).status_code == 200
    assert http.post("/logout", data={"csrf": form_of(http, "/")}).status_code == 303
    assert stranger(filled, place).status_code == 404


QUESTIONS = [
    ("data?run=session-1&tag=trace_viewer&session_path=/", 422), ("runs?run_path=/tmp", 422),
    ("data?run=../../etc&tag=x", 422), ("data?run=session-2&tag=x", 422),
    ("data?run=session-1&tag=x&host=../../secret", 422), ("data?run=session-1&tag=x&hosts=a,../b", 422),
    ("data?run=session-1&tag=x&module_name=/etc/passwd", 422),
    ("capture_profile?service_addr=10.0.0.1", 404),
    ("capture_profile%23?service_addr=10.0.0.1", 404), ("generate_cache", 404), ("local", 404),
    ("../../../../healthz", 404), (quote("../x.js", safe=""), 404), ("a/b.js", 404), ("bundle.js", 200),
    ("overview_page", 200), ("trace_viewer@", 200),
]  # fmt: skip


@pytest.mark.usefixtures("fake")
def test_only_questions_of_this_run_pass(filled, person):
    """XProf reads any folder that an address names, and takes traces of any machine: nobody asks it that."""
    place = start(person())
    for question, status in QUESTIONS:
        # As it is written: a client would resolve what leads upwards.
        asked = httpx.URL(filled.url).copy_with(raw_path=f"{place}{question}".encode())
        answer = httpx.get(asked, timeout=60)
        assert answer.status_code == status, (question, answer.text)


@pytest.mark.usefixtures("fake")
def test_few_run_at_once_and_one_that_nobody_uses_makes_room(filled, person, monkeypatch):
    """The second run waits while the first is looked at; later it takes its place."""
    http = person()
    first = start(http)
    assert "viewers are in use" in start(http, 2, 503)
    monkeypatch.setattr("qwenperf.service.viewers.viewers.YIELD_S", 0.0)
    second = start(http, 2)
    assert stranger(filled, second).status_code == 200
    assert stranger(filled, first).status_code == 404
    assert start(http, 2) != second
    assert filled.service.viewers.count() == 1


def test_few_wait_for_a_start_and_the_rest_hear_so_at_once():
    """Whoever waits holds a thread, and the rest of the service needs threads too."""
    viewers, go_on = Viewers(), threading.Event()

    def fill(_folder):
        assert go_on.wait(60)
        raise FileNotFoundError

    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(viewers.open, (1, number), fill, 8) for number in range(8)]
        try:
            told = [one.exception(20) for one in islice(as_completed(asked, 20), 5)]
        finally:
            go_on.set()
    assert {type(one) for one in told} == {ServiceUnavailableError}
    assert sum(isinstance(one.exception(), FileNotFoundError) for one in asked) == 3
    with pytest.raises(FileNotFoundError):  # and not that others are starting
        viewers.open((1, 1), fill, 8)


@pytest.mark.usefixtures("fake")
def test_a_run_with_the_number_of_one_that_went_has_a_viewer_of_its_own(filled, person, documents):
    """SQLite gives the number of the newest run to the next one, when retention has removed it."""
    place = start(person(), 2)
    database = filled.service.database
    with database.read() as connection:
        (project,) = projects.listed(connection)
        first = runs.by_name(connection, project.id, "run-000002")
    database.write(lambda connection: retention.remove(connection, first))
    assert filled.ask("POST", "/api/v1/projects/demo/runs", filled.admin, json=documents.run(3)).status_code == 201
    with database.read() as connection:
        assert runs.by_name(connection, project.id, "run-000003").id == first.id
    assert stranger(filled, place.replace("run-000002", "run-000003")).status_code == 404


@pytest.mark.usefixtures("fake")
def test_an_idle_viewer_ends_and_leaves_nothing(filled, person):
    """Its process, its folder and its ticket; so does one whose run is removed, and one that ends by itself."""
    service, http = filled.service, person()
    for ending in ("idle", "removed", "itself"):
        number = 2 if ending == "itself" else 1
        place = start(http, number)
        (shown,) = service.viewers._open.values()
        assert stat.S_IMODE(shown.folder.stat().st_mode) == 0o700
        if ending == "idle":
            service.viewers.end_idle()
            assert shown.alive
            service.viewers.end_idle(0.0)
        elif ending == "removed":
            filled.ask("DELETE", "/api/v1/projects/demo/runs/run-000001", filled.admin)
        else:
            shown.process.kill()
            shown.process.wait()
        assert stranger(filled, place).status_code == 404
        assert (shown.alive, shown.folder.exists(), service.viewers.count()) == (False, False, 0)


@pytest.mark.usefixtures("fake")
def test_a_viewer_ends_with_the_service_however_that_ends():
    """It holds the other end of what it reads."""
    shown = process.Viewer(lambda folder: (folder / "plugins" / "profile" / "s").mkdir(parents=True))
    try:
        shown.process.stdin.close()  # as the system does when a process is killed
        assert shown.process.wait(20) == 0
    finally:
        shown.end()


@pytest.mark.usefixtures("fake")
def test_what_xprof_says_of_a_damaged_trace_is_told(filled, person):
    """And nothing of it is left."""
    send(filled, 0, "broken", b"damaged")
    said = start(person(), 0, 503)
    assert "this trace is damaged" in said, re.sub(r"<[^>]*>", " ", said)[-700:]
    assert filled.service.viewers.count() == 0


@pytest.mark.parametrize(
    ("changed", "says"),
    [({"viewers": 0}, "starts no viewers"), ({"workers": 2}, "several processes"), ({}, "has no XProf")],
)
def test_a_service_without_viewers_says_how_to_open_traces(filled, person, monkeypatch, changed, says):
    """By the command that does it on one's own machine."""
    monkeypatch.setattr(viewer, "installed", lambda: False)
    changed = replace(filled.service.settings, **changed)
    object.__setattr__(filled.service, "settings", changed)
    http = person()
    page = http.get("/p/demo/runs/run-000001").text
    assert says in page
    assert "qwenperf trace open run-000001" in page
    assert "Open the traces in XProf" not in page
    sent = http.post("/p/demo/runs/run-000001/xprof", data={"csrf": form_of(http, "/p/demo/runs/run-000001")})
    assert sent.status_code == 404


@pytest.mark.slow
@pytest.mark.skipif(not installed(), reason="XProf is not installed")
def test_the_real_xprof_shows_the_trace_of_a_run(filled, person):
    """Its page, its script, its tools, and the operations of the trace, on a socket and on no port."""
    xspaces = beside("xspaces", "traces")
    steps = [(number * 100, 90) for number in range(5)]
    operations = [("dot.1", number * 100 + 10, 40) for number in range(5)]
    send(filled, 0, "real", xspaces.space(xspaces.cpu(steps, operations)))
    place = start(person(), 0)
    (shown,) = filled.service.viewers._open.values()
    assert listening(shown.process.pid) == []
    page = stranger(filled, place)
    assert "<app>" in page.text
    assert stranger(filled, f"{place}bundle.js").headers["content-type"].startswith("application/javascript")
    assert stranger(filled, f"{place}runs").json() == ["real"]
    tools = stranger(filled, f"{place}run_tools?run=real").json()
    tool = next(one for one in tools if one.startswith("trace_viewer"))
    seen = stranger(filled, f"{place}data?run=real&tag={quote(tool)}&host=host&hosts=host")
    assert seen.status_code == 200
    assert "dot.1" in {event.get("name") for event in seen.json()["traceEvents"]}


def listening(pid):
    """Return the ports that a process listens on, as the system tells."""
    listens = "0A"
    sockets = {
        line.split()[9]
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]
        if line.split()[3] == listens
    }
    held = [str(one.readlink()) for one in Path(f"/proc/{pid}/fd").iterdir() if one.is_symlink()]
    return [one for one in held if one.removeprefix("socket:[").removesuffix("]") in sockets]
