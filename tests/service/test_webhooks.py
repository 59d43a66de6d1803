"""A project's webhook hears of its alerts: signed, tried again, written down, and never sent where it must not go."""

import importlib.util
import json
import logging
import socket
import ssl
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from qwenperf.forge.webhook import is_genuine
from qwenperf.service import notify_sending
from qwenperf.service.db import notices, projects
from qwenperf.service.judging_runs import judge_arrived
from qwenperf.service.notify import MOST_TRIES, announce, deliver, pause_s
from qwenperf.service.notify_sending import Message, is_public, send_all
from qwenperf.service.times import SECOND_US

SECRET = "correct horse battery staple"
MINUTE_US = 60 * SECOND_US


def _load(name, place):
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[1] / place)
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


receivers = _load("webhook_receiver", "forge/receiver.py")
receiver = receivers.receiver


@pytest.fixture
def hooked(project, receiver):
    """The service as one with a clock that is set, allowed to send within this machine; the project's hook is set."""

    class Hooked:
        ahead = 0
        service = replace(
            project.server.service,
            settings=replace(project.server.service.settings, private_webhooks=True, public_url="https://perf.example"),
            clock=lambda: project.server.service.clock() + Hooked.ahead,
        )

    url, at = f"http://127.0.0.1:{receiver.server_port}/hook/private-part", Hooked.service.clock()
    number = project.row.id
    Hooked.service.database.write(
        lambda connection: notices.set_webhook(connection, number, url=url, secret=SECRET, by="test", at=at)
    )
    yield Hooked
    Hooked.service.database.write(lambda connection: notices.remove_webhook(connection, number, at))


@pytest.fixture
def red(project, documents):
    """Sends a run of main whose gates say what is asked for, and judges it."""

    def work(number, outcome="fail", cases=("tiny/cached",)):
        document = documents.run(number, cases=cases)
        for case in document["cases"]:
            case["verdicts"] = [documents.verdict(outcome)]
        project.post("/runs", document)
        while judge_arrived(project.server.service):
            pass

    return work


def log_of(project):
    return [(one["event"], one["state"], one["tries"]) for one in project.get("/deliveries")["deliveries"]]


def test_an_alert_is_told_when_it_is_raised_confirmed_and_over(project, hooked, receiver, red):
    """One message for all that has one cause, signed, with what it was before."""
    red(1, cases=("a", "b"))
    assert (announce(hooked.service), announce(hooked.service)) == (1, 0)
    assert (deliver(hooked.service), deliver(hooked.service)) == (1, 0)
    ((headers, body),) = receiver.got
    assert is_genuine(SECRET, headers, body, now=hooked.service.clock() / SECOND_US)
    assert not is_genuine("another", headers, body, now=hooked.service.clock() / SECOND_US)
    told = json.loads(body)
    assert (told["project"], told["page"]) == (project.name, f"https://perf.example/p/{project.name}/alerts")
    assert [(one["case"], one["gate"], one["was"], one["state"]) for one in told["alerts"]] == [
        ("a", "shapes", "", "open"), ("b", "shapes", "", "open"),
    ]  # fmt: skip
    red(2, cases=("a", "b"))
    red(3, "pass", cases=("a",))
    announce(hooked.service)
    deliver(hooked.service)
    (_, body) = receiver.got[1]
    assert [(one["case"], one["was"], one["state"]) for one in json.loads(body)["alerts"]] == [
        ("a", "open", "resolved"), ("b", "open", "confirmed"),
    ]  # fmt: skip
    assert log_of(project) == [("alerts", "sent", 1)] * 2


def test_a_receiver_that_is_away_gets_the_same_message_later(project, hooked, receiver, red):
    """Not before a pause, with the same id, signed anew; other projects' messages do not wait for it."""
    receiver.answers = [503, 429]
    red(1)
    announce(hooked.service)
    for tries in (1, 2):
        assert deliver(hooked.service) == 1
        (waits,) = project.get("/deliveries")["deliveries"]
        assert (waits["state"], waits["tries"]) == ("waiting", tries)
        assert waits["problem"].startswith("the receiver answered")
        assert deliver(hooked.service) == 0, "it was tried again without a pause"
        hooked.ahead += MINUTE_US
    assert deliver(hooked.service) == 1
    assert log_of(project) == [("alerts", "sent", 3)]
    assert len({headers["X-Qwenperf-Delivery"] for headers, _ in receiver.got}) == 1
    assert len({headers["X-Qwenperf-Signature-256"] for headers, _ in receiver.got}) == 3


def test_many_messages_of_one_project_keep_no_other_waiting(project, hooked):
    """Its receiver may never answer: few of its messages are sent at a time, and the rest wait for the next."""
    database, now = hooked.service.database, hooked.service.clock()
    with project.server.client() as http:
        http.post("/api/v1/projects", json={"project": f"{project.name}-2"}).raise_for_status()
    with database.read() as connection:
        other = projects.by_name(connection, f"{project.name}-2").id

    number = project.row.id

    def work(connection):
        notices.set_webhook(connection, other, url="http://127.0.0.1:9/", secret=SECRET, by="test", at=now)
        for one in range(12):
            notices.add(connection, number, "alerts", "{}", now - 100 + one)
        notices.add(connection, other, "alerts", "{}", now)

    database.write(work)
    claimed = [database.write(lambda connection: notices.claim(connection, now, 10)) for _ in range(2)]
    assert [[row.project_id for row in rows] for rows in claimed] == [[number, number, other], [number, number]]
    database.write(lambda connection: notices.remove_webhook(connection, other, now))


@pytest.mark.parametrize("status", [302, 404, 410])
def test_a_refusal_is_written_down_and_not_tried_again(project, hooked, receiver, red, status, caplog):
    """A redirect is not followed; the log names no address and no secret."""
    receiver.answers = [status]
    red(1)
    announce(hooked.service)
    with caplog.at_level(logging.DEBUG):
        deliver(hooked.service)
    hooked.ahead += 60 * MINUTE_US
    assert deliver(hooked.service) == 0
    assert len(receiver.got) == 1
    (given_up,) = project.get("/deliveries")["deliveries"]
    assert (given_up["state"], given_up["problem"]) == ("failed", f"the receiver answered {status}")
    lines = [one.getMessage() for one in caplog.records]
    assert any("is given up after 1 tries" in line for line in lines)
    assert not any("private-part" in line or SECRET in line for line in lines)


def test_what_is_never_taken_is_given_up_after_half_a_day(project, hooked, receiver, red):
    """The pauses grow to an hour."""
    receiver.answers = [500] * (MOST_TRIES + 5)
    red(1)
    announce(hooked.service)
    for _ in range(MOST_TRIES):
        assert deliver(hooked.service) == 1
        hooked.ahead += 61 * MINUTE_US
    assert deliver(hooked.service) == 0
    assert log_of(project) == [("alerts", "failed", MOST_TRIES)]
    longest = sum(min(3600.0, 10 * 2.0**tries) for tries in range(MOST_TRIES - 1))
    assert 6 * 3600 < longest < 12 * 3600
    assert 1800 <= pause_s(MOST_TRIES) <= 3600


def test_a_new_webhook_hears_nothing_of_old_alerts(project, receiver, red, hooked):
    """Nor does one hear what came and went between two rounds."""
    project.ask("DELETE", "/webhook", 204)
    red(1)
    at = hooked.service.clock()
    url = f"http://127.0.0.1:{receiver.server_port}/"
    hooked.service.database.write(
        lambda connection: notices.set_webhook(connection, project.row.id, url=url, secret=SECRET, by="test", at=at)
    )
    assert announce(hooked.service) == 0
    red(2, "pass")
    assert announce(hooked.service) == 1
    red(3)
    red(4, "pass")
    assert announce(hooked.service) == 0


def test_a_webhook_is_set_by_an_admin_and_its_secret_is_shown_once(project, shared):
    """Path and secret are in no answer, no export and no audit log; without a webhook nothing is kept for one."""
    assert project.get("/webhook", 404)["advice"]
    url = "https://hooks.example/services/T0-private-part"
    made = project.ask("PUT", "/webhook", 200, json={"url": url}).json()
    assert made["address"] == "https://hooks.example"
    assert len(made["secret"]) >= 40
    assert project.ask("PUT", "/webhook", 200, json={"url": url, "secret": SECRET}).json()["secret"] is None
    assert log_of(project) == [("ping", "waiting", 0)] * 2
    seen = [project.ask("GET", path, 200).text for path in ("/webhook", "/deliveries", "/audit", "/export", "")]
    assert "webhook.set" in seen[2]
    assert not any(hidden in text for text in seen for hidden in ("private-part", SECRET, made["secret"]))
    reader = project.post("/tokens", {"name": "r", "scope": "push"})["token"]
    with shared.client(reader) as http:
        for method, path in (("GET", "/webhook"), ("PUT", "/webhook"), ("DELETE", "/webhook"), ("GET", "/deliveries")):
            body = {"json": {"url": url}} if method == "PUT" else {}
            assert http.request(method, project.path + path, **body).status_code == 403
    project.ask("DELETE", "/webhook", 204)
    project.ask("DELETE", "/webhook", 204)
    assert log_of(project) == [("ping", "failed", 0)] * 2
    assert "webhook.remove" in project.ask("GET", "/audit", 200).text


@pytest.mark.parametrize(
    "body",
    [
        {"url": "http://hooks.example/"}, {"url": "https://127.0.0.1/"}, {"url": "https://[::1]/"},
        {"url": "https://169.254.169.254/latest/meta-data"}, {"url": "https://[::ffff:10.0.0.1]/"},
        {"url": "https://user:pass@hooks.example/"}, {"url": "ftp://hooks.example/"}, {"url": "file:///etc/passwd"},
        {"url": "https://"}, {"url": ""}, {"url": "https://a.example/" + "x" * 2000}, {"url": "https://a\n.example/"},
        {"url": "https://[<b>/"},
        {"url": 3}, {}, {"url": "https://a.example/", "secret": "short"}, {"url": "https://a.example/", "x": 1},
    ],
)  # fmt: skip
def test_an_address_that_messages_must_not_go_to_is_refused(project, body):
    """Before anything is kept."""
    assert project.ask("PUT", "/webhook", 422, json=body).json()["error"]
    project.get("/webhook", 404)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("93.184.216.34", True), ("2606:2800:220:1::1", True), ("127.0.0.1", False), ("10.1.2.3", False),
        ("172.16.0.1", False), ("192.168.1.1", False), ("169.254.169.254", False), ("100.64.0.1", False),
        ("0.0.0.0", False), ("224.0.0.1", False), ("255.255.255.255", False), ("::1", False), ("::", False),
        ("fe80::1%eth0", False), ("fc00::1", False), ("::ffff:127.0.0.1", False), ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::", False), ("ff02::1", False), ("::127.0.0.1", False), ("::a00:1", False), ("fec0::1", False),
        ("5f00::1", False), ("192.0.0.8", False),
    ],
)  # fmt: skip
def test_only_addresses_of_the_open_internet_are_public(address, expected):
    """Also not one that has a private one inside."""
    assert is_public(address) is expected


def message(url):
    return Message(url=url, secret=SECRET, event="ping", name="1", body=b"{}", sent_at=1)


def test_a_name_that_leads_inside_is_not_connected_to(receiver):
    """Whatever it said when it was set: names are looked up when a message is sent."""
    found = send_all(
        [message(f"https://localhost:{receiver.server_port}/"), message(f"http://127.0.0.1:{receiver.server_port}/")],
        private_too=False,
    )
    assert [(one.problem, one.final) for one in found] == [
        ("its host is within a private network", True), ("the webhook's address is not encrypted", True),
    ]  # fmt: skip
    assert receiver.got == []


def test_a_receiver_that_never_answers_keeps_nobody_waiting(receiver, monkeypatch):
    """The whole try has its time, however slowly the receiver goes on."""
    monkeypatch.setattr(notify_sending, "_LIMIT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        urls = [f"http://127.0.0.1:{port}/" for port in (silent.getsockname()[1], receiver.server_port)]
        slow, quick = send_all([message(url) for url in urls], private_too=True)
    assert (slow.problem, slow.final, quick.problem) == ("no answer in time", False, "")
    assert repr(message("https://a.example/private-part")).count("private-part") == 0


@pytest.fixture
def encrypted(tmp_path):
    """A receiver with a certificate for hooks.example, and the trust that knows it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "hooks.example")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("hooks.example")]), critical=False)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    pem = made.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (tmp_path / "both.pem").write_bytes(private + pem)
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(tmp_path / "both.pem")
    with receivers.receiving(own) as found:
        yield found, ssl.create_default_context(cadata=pem.decode())


def test_the_certificate_must_be_that_of_the_name_whatever_address_is_connected_to(encrypted, monkeypatch):
    """The address that was checked is connected to, and it must prove to be the name that was meant."""
    receiver, trusted = encrypted

    async def looked_up(_host, _port):
        return ["127.0.0.1"]

    monkeypatch.setattr(notify_sending, "trust", lambda: trusted)
    monkeypatch.setattr(notify_sending, "_looked_up", looked_up)
    urls = [f"https://{name}.example:{receiver.server_port}/a?b=c" for name in ("hooks", "other")]
    good, bad = send_all([message(url) for url in urls], private_too=True)
    assert (good.problem, bad.problem) == ("", "no connection or no answer (ConnectError)")
    ((headers, _),) = receiver.got
    assert headers["Host"] == f"hooks.example:{receiver.server_port}"
