"""Bodies that stop arriving: nobody holds a connection without end."""

import socket
import time
from urllib.parse import urlsplit

import pytest

from qwenperf.service import arriving

RUNS = "/api/v1/projects/demo/runs"


@pytest.fixture
def half_sent(client):
    """Give a function that sends the head of a request for 100,000 bytes, and returns the connection."""
    opened = []

    def begin(method, path, *headers):
        place = urlsplit(str(client.base_url))
        one = socket.create_connection((place.hostname, place.port), timeout=10)
        opened.append(one)
        told = [f"{method} {path} HTTP/1.1", "Host: here", "Content-Length: 100000"]
        told += [f"Authorization: {client.headers['authorization']}", *headers]
        one.sendall(("\r\n".join(told) + "\r\n\r\n").encode())
        return one

    yield begin
    for one in opened:
        one.close()


def ended(connection):
    """Return all that comes until the service closes."""
    data = b""
    while block := connection.recv(4096):
        data += block
    return data


def test_a_body_that_never_comes_is_answered_and_closed(half_sent, monkeypatch):
    """The head alone holds a connection for no longer than the limit."""
    monkeypatch.setattr(arriving, "SILENT_S", 0.2)
    assert ended(half_sent("POST", RUNS)).startswith(b"HTTP/1.1 408 ")


def test_a_byte_now_and_then_is_no_upload(half_sent, monkeypatch):
    """Each byte comes within the limit, and yet they end it."""
    monkeypatch.setattr(arriving, "SILENT_S", 0.3)
    connection = half_sent("POST", RUNS)
    connection.settimeout(0.1)
    answer = b""
    for _ in range(50):
        connection.sendall(b" ")
        try:
            answer = connection.recv(4096)
            break
        except TimeoutError:
            continue
    assert answer.startswith(b"HTTP/1.1 408 ")


def test_a_slow_upload_that_moves_goes_on(half_sent, monkeypatch):
    """It takes longer than the limit for silence, and is read to its end."""
    monkeypatch.setattr(arriving, "SILENT_S", 0.5)
    connection = half_sent("POST", RUNS, "Connection: close")
    for _ in range(10):
        connection.sendall(b" " * 10_000)
        time.sleep(0.1)
    assert b"408" not in ended(connection).split(b"\r\n")[0]


def test_an_upload_of_a_file_that_stops_goes_on_later(half_sent, client, documents, monkeypatch):
    """The part is over, and the upload is still there to be resumed."""
    client.post(RUNS, json=documents.run(1)).raise_for_status()
    told = {"path": "a.pb", "size": 100_000, "sha256": "0" * 64}
    upload = client.post(f"{RUNS}/run-000001/files", json=told).json()["upload"]
    place = f"/api/v1/projects/demo/uploads/{upload}"
    monkeypatch.setattr(arriving, "SILENT_S", 0.2)
    connection = half_sent("PATCH", place, "Upload-Offset: 0")
    connection.sendall(b"some")
    assert ended(connection).startswith(b"HTTP/1.1 408 ")
    assert client.get(place).status_code == 200
