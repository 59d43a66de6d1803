"""What is tried again and what is not, over HTTP."""

import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest

from qwenperf.errors import RecordError, UsageError
from qwenperf.forge.api import ForgeError, GitHub, asked_pause

PULL = "/repos/acme/engine/pulls/7"


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_server_that_is_away_is_asked_again(api, github, pauses, status):
    """Pauses grow; the third answer counts."""
    github.fail("GET .*", status, times=2)
    assert api.ask("GET", PULL)["number"] == 7
    assert 0.5 <= pauses[0] <= 1 <= pauses[1] <= 2


@pytest.mark.parametrize(
    ("status", "message", "headers", "least"),
    [
        (429, "Slow down", {"Retry-After": "17"}, 17),
        (403, "You have exceeded a secondary rate limit", {"Retry-After": "30"}, 30),
        (403, "API rate limit exceeded", {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1045"}, 45),
        (403, "You have exceeded a secondary rate limit.", {}, 60),
        (429, "Slow down", {}, 60),
    ],
)
def test_a_rate_limit_is_waited_for(api, github, pauses, status, message, headers, least):
    """GitHub says for how long, or it is a minute."""
    github.fail("GET .*", status, message, **headers)
    assert api.ask("GET", PULL)["number"] == 7
    assert least <= pauses[0] < least + 1


def test_a_limit_that_ends_too_late_is_not_waited_for(api, github, pauses):
    """Sleeping first and giving up then would help nobody."""
    github.fail("GET .*", 403, "API rate limit exceeded", X_RateLimit_Remaining="0", X_RateLimit_Reset="9000")
    with pytest.raises(ForgeError, match="API rate limit exceeded; gave up"):
        api.ask("GET", PULL)
    assert pauses == []


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 422])
def test_a_refusal_is_final(api, github, pauses, status):
    """It would be refused again."""
    github.fail("GET .*", status, "No")
    with pytest.raises(ForgeError, match=f"{status} No") as caught:
        api.ask("GET", PULL)
    assert (caught.value.status, caught.value.exit_code, pauses) == (status, 4, [])


def test_what_stays_away_is_given_up(api, github, pauses):
    """Patience is for one request."""
    github.failures = []
    github.fail("GET .*", 502, times=30)
    with pytest.raises(ForgeError, match="502 Bad; gave up") as caught:
        api.ask("GET", PULL)
    assert caught.value.is_away
    assert 90 < sum(pauses) <= 120
    github.failures.clear()


def test_nobody_there_is_said(pauses):
    """A port where nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    api = GitHub(url=url, sleep=pauses.append, clock=lambda: sum(pauses), patience_s=5)
    with pytest.raises(ForgeError, match="refused"):
        api.ask("GET", PULL)
    assert pauses


def test_the_token_stays_with_github(api, github):
    """A download lies elsewhere, and its address alone opens it."""
    github.artifacts[3] = ("qwenperf", b"data")
    assert api.download("/repos/acme/engine/actions/artifacts/3/zip", 4) == b"data"
    assert [("Authorization" in one["headers"]) for one in github.requests] == [True, False]


def test_a_download_is_bounded(api, github):
    """A stranger's archive is read no further than the limit."""
    github.artifacts[3] = ("qwenperf", b"x" * 100_000)
    with pytest.raises(RecordError, match=r"larger than 99,999 bytes"):
        api.download("/repos/acme/engine/actions/artifacts/3/zip", 99_999)


@pytest.mark.parametrize("url", ["ftp://x", "https://", "https://x:port", "api.github.com", ""])
def test_an_address_must_be_one(pauses, url):
    """Before anything is sent, and before anything is waited for."""
    with pytest.raises(UsageError, match="no address of an API"):
        GitHub(url=url, sleep=pauses.append).ask("GET", PULL)
    assert pauses == []


@pytest.mark.parametrize("token", ["ghs_secret\n", "ghs_secret more", "ghs_\N{SNOWMAN}secret", "\x00ghs_secret"])
def test_a_token_that_is_none_is_refused_without_repeating_it(github, pauses, token):
    """No header can hold it: what makes headers says so, with the token in its words, and trying again is no help."""
    with pytest.raises(ForgeError, match="a character that no token has") as caught:
        GitHub(url=github.url, token=token, sleep=pauses.append).ask("GET", PULL)
    assert "secret" not in f"{caught.value}{caught.value.__cause__}"
    assert (pauses, github.requests) == ([], [])


@pytest.mark.parametrize("after", ["\N{SUPERSCRIPT TWO}", "9" * 5000, "-1", "soon"])
def test_a_pause_that_is_no_number_is_the_usual_one(after):
    """Not every sign that is a digit is a number, and not every number is a time."""
    answer = httpx.Response(429, headers=[(b"retry-after", after.encode("latin-1"))])
    assert asked_pause(answer, now=0) == 60


def test_a_server_that_says_when_it_is_back_is_waited_for(api, github, pauses):
    """Maintenance has an end."""
    github.fail("GET .*", 503, Retry_After="20")
    assert api.ask("GET", PULL)["number"] == 7
    assert 20 <= pauses[0] < 21


def test_a_limit_says_when_it_ends(api, github):
    """So that whoever has more time than patience comes back then."""
    github.fail("GET .*", 403, "API rate limit exceeded", X_RateLimit_Remaining="0", X_RateLimit_Reset="9000")
    with pytest.raises(ForgeError) as caught:
        api.ask("GET", PULL)
    assert caught.value.again_s == 8000


def test_an_answer_that_cannot_be_unpacked_is_tried_again(pauses):
    """A proxy that garbles what it sends is away, and no bug of ours."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", "4")
            self.end_headers()
            self.wfile.write(b"none")

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        api = GitHub(
            url=f"http://127.0.0.1:{server.server_port}", sleep=pauses.append, clock=lambda: sum(pauses), patience_s=3
        )
        with pytest.raises(ForgeError) as caught:
            api.ask("GET", PULL)
        server.shutdown()
        thread.join()
    assert caught.value.is_away
    assert pauses


def test_a_token_is_not_shown():
    """Not in an error, not in a log."""
    assert "ghs_secret" not in repr(GitHub(token="ghs_secret"))
    assert httpx.URL(GitHub().url).host == "api.github.com"
