"""Signed messages, over HTTP to a receiver that checks them."""

import json
import re

import pytest

from qwenperf.errors import UsageError
from qwenperf.forge.api import ForgeError
from qwenperf.forge.webhook import Webhook, is_genuine, signature


@pytest.fixture
def hook(receiver):
    """The way to it, whose clock goes by pauses alone."""
    pauses = []
    return Webhook(
        url=f"http://127.0.0.1:{receiver.server_port}/hook",
        secret="hush",
        sleep=pauses.append,
        clock=lambda: sum(pauses),
        now=lambda: 1000.0 + sum(pauses),
    )


def test_a_message_is_signed(hook, receiver):
    """The receiver knows whose it is, and that nobody changed it or sends it again much later."""
    hook.send("run.judged", {"outcome": "fail"})
    ((headers, body),) = receiver.got
    assert (headers["X-Qwenperf-Event"], json.loads(body)) == ("run.judged", {"outcome": "fail"})
    assert is_genuine("hush", headers, body, now=1100)
    assert not is_genuine("hush", headers, body + b" ", now=1100)
    assert not is_genuine("other", headers, body, now=1100)
    assert not is_genuine("hush", headers, body, now=2000)
    assert not is_genuine("hush", {**headers, "X-Qwenperf-Timestamp": "1050"}, body, now=1100)
    assert not is_genuine("hush", {}, body, now=1100)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_message_is_tried_until_it_is_taken(hook, receiver, status):
    """With the same id, so that the receiver can drop what it has, and a signature that is not stale."""
    receiver.answers += [status, status]
    name = hook.send("run.judged", {})
    assert [headers["X-Qwenperf-Delivery"] for headers, _ in receiver.got] == [name] * 3
    assert len({headers["X-Qwenperf-Timestamp"] for headers, _ in receiver.got}) > 1
    assert all(is_genuine("hush", headers, body, now=1005) for headers, body in receiver.got)


@pytest.mark.parametrize("status", [400, 404, 302])
def test_a_refusal_is_final(hook, receiver, status):
    """Redirects are one: a message goes to the address that was told."""
    receiver.answers.append(status)
    with pytest.raises(ForgeError, match=f"refused: {status}"):
        hook.send("run.judged", {})
    assert len(receiver.got) == 1


def test_patience_ends(hook, receiver):
    """And says why."""
    receiver.answers += [503] * 30
    with pytest.raises(ForgeError, match="not taken: 503"):
        hook.send("run.judged", {})


def test_without_a_secret_there_is_no_signature(receiver):
    """An empty one would be one that everybody knows."""
    Webhook(url=f"http://127.0.0.1:{receiver.server_port}").send("run.judged", {})
    ((headers, body),) = receiver.got
    assert "X-Qwenperf-Signature-256" not in headers
    assert body == b"{}"


def test_an_address_must_be_one():
    """Before anything is sent."""
    with pytest.raises(UsageError, match="no address"):
        Webhook(url="file:///etc/passwd").send("run.judged", {})


@pytest.mark.parametrize("at", ["\N{SUPERSCRIPT TWO}", "9" * 5000, "", "-1", "1e3"])
def test_a_time_that_is_none_is_a_message_of_somebody_else(at):
    """Strangers write headers, too: whoever checks them must not fall over."""
    headers = {"X-Qwenperf-Timestamp": at, "X-Qwenperf-Signature-256": signature("hush", at, b"{}")}
    assert not is_genuine("hush", headers, b"{}", now=1000)


def test_the_example_of_the_page_holds(repository):
    """What docs/github.md says of signatures."""
    page = (repository / "docs" / "github.md").read_text("utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(example, "docs/github.md", "exec"), {})
