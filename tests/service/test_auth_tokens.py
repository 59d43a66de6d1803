"""Tokens, scopes, limits and what logs hide, without a server."""

import logging
import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("starlette")

from qwenperf.service.auth import redaction, tokens
from qwenperf.service.auth.identity import ANONYMOUS, Identity
from qwenperf.service.auth.limits import Limiter, Rate
from qwenperf.service.auth.tokens import Scope


def test_a_token_is_found_by_its_prefix_and_proved_by_its_secret():
    made = tokens.mint()
    prefix, secret = tokens.split(made.text)
    assert (prefix, tokens.digest(secret)) == (made.prefix, made.hash)
    assert tokens.matches(secret, made.hash)
    assert not tokens.matches(secret[:-1] + ("A" if secret[-1] != "A" else "B"), made.hash)


def test_what_is_kept_and_printed_of_a_token_does_not_hold_its_secret():
    made = tokens.mint()
    _, secret = tokens.split(made.text)
    assert secret not in repr(made)
    assert secret not in made.prefix + made.hash


@given(st.text(max_size=80))
def test_text_that_is_no_token_is_taken_for_none(text):
    assert tokens.split(text) is None


@pytest.mark.parametrize(
    "change", [lambda text: text + "\n", lambda text: " " + text, lambda text: text[:-1], str.upper]
)
def test_a_token_that_is_nearly_one_is_none(change):
    assert tokens.split(change(tokens.mint().text)) is None


@pytest.mark.parametrize(
    ("held", "may"), [(Scope.READ, {"read"}), (Scope.PUSH, {"read", "push"}), (Scope.ADMIN, {"read", "push", "admin"})]
)
def test_each_scope_contains_the_ones_before_it_and_no_other(held, may):
    assert held.held == may


@pytest.mark.parametrize("wanted", list(Scope))
def test_a_token_of_one_project_may_do_nothing_in_another(wanted):
    identity = Identity(name="x", project_id=1, scopes=Scope.ADMIN.held)
    assert identity.may(wanted, 1, public=False)
    assert not identity.may(wanted, 2, public=False)


def test_a_public_project_is_read_by_everybody_and_changed_by_nobody():
    assert ANONYMOUS.may(Scope.READ, 1, public=True)
    assert not ANONYMOUS.may(Scope.READ, 1, public=False)
    assert not ANONYMOUS.may(Scope.PUSH, 1, public=True)


def test_only_an_admin_of_all_projects_looks_after_the_service():
    assert Identity(name="x", scopes=Scope.ADMIN.held).everywhere
    assert not Identity(name="x", scopes=Scope.PUSH.held).everywhere
    assert not Identity(name="x", project_id=1, scopes=Scope.ADMIN.held).everywhere


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self):
        """Tell the time."""
        return self.now


def test_a_caller_may_burst_and_then_goes_on_at_its_rate():
    clock, rate = Clock(), Rate(per_s=2.0, burst=3)
    limiter = Limiter(clock)
    assert [limiter.take("a", rate) for _ in range(4)] == [0, 0, 0, 1]
    clock.now = 0.5
    assert [limiter.take("a", rate) for _ in range(2)] == [0, 1]


def test_the_wait_that_is_told_is_long_enough():
    clock, rate = Clock(), Rate(per_s=0.2, burst=1)
    limiter = Limiter(clock)
    assert limiter.take("a", rate) == 0
    clock.now += limiter.take("a", rate)
    assert limiter.take("a", rate) == 0


def test_one_caller_does_not_use_up_what_is_another_s():
    limiter, rate = Limiter(Clock()), Rate(per_s=1.0, burst=1)
    assert limiter.take("a", rate) == 0
    assert limiter.take("a", rate) > 0
    assert limiter.take("b", rate) == 0


def test_a_caller_who_waits_saves_up_no_more_than_a_burst():
    clock, rate = Clock(), Rate(per_s=1.0, burst=2)
    limiter = Limiter(clock)
    limiter.take("a", rate)
    clock.now = 1e6
    assert [limiter.take("a", rate) for _ in range(3)] == [0, 0, 1]


def test_strangers_without_number_take_a_bounded_room():
    limiter, rate = Limiter(Clock(), most_callers=10), Rate(per_s=1.0, burst=1)
    for number in range(1000):
        limiter.take(str(number), rate)
    assert len(limiter._buckets) == 10


@given(st.integers(1, 40), st.floats(0.1, 50.0), st.lists(st.floats(0, 3), max_size=60))
def test_never_more_than_burst_and_rate_allow(burst, per_s, pauses):
    clock, rate = Clock(), Rate(per_s=per_s, burst=burst)
    limiter, served = Limiter(clock), 0
    for pause in pauses:
        clock.now += pause
        served += limiter.take("a", rate) == 0
    assert served <= burst + math.ceil(clock.now * per_s)


SECRETS = {
    "token": "qpf_0123456789ab_" + "s" * 43,
    "bearer": "Authorization: Bearer abcdefghijklmnop0123",
    "cookie": "Cookie: qwenperf_session=abcdefghijkl; other=1",
    "jwt": "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl",
    "github": "ghs_" + "g" * 36,
    "password": "postgresql://someone:hunter2hunter2@db/qwenperf",
}
HIDDEN_PARTS = {
    "token": "s" * 43,
    "bearer": "abcdefghijklmnop0123",
    "cookie": "abcdefghijkl",
    "jwt": "eyJzdWIiOiJ4In0",
    "github": "g" * 36,
    "password": "hunter2hunter2",
}


@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_is_hidden_and_the_words_around_it_are_not(kind):
    shown = redaction.redact(f"before {SECRETS[kind]}\nafter")
    assert HIDDEN_PARTS[kind] not in shown
    assert shown.startswith("before ")
    assert shown.endswith("\nafter")


def test_a_hidden_token_can_still_be_told_from_others():
    assert "qpf_0123456789ab_" in redaction.redact(SECRETS["token"])


def test_plain_words_are_left_alone():
    text = "POST /api/v1/projects/x/runs 201 in 12.3 ms, bearer of news, https://example.org/path"
    assert redaction.redact(text) == text


def test_a_traceback_in_a_log_hides_what_the_error_says(capsys):
    logger = logging.getLogger("qwenperf.test.redaction")
    handler = logging.StreamHandler(sys.stderr)
    logger.addHandler(handler)
    try:
        redaction.install(logger)
        redaction.install(logger)
        try:
            {}[f"refused {SECRETS['token']}"]
        except KeyError:
            logger.exception("with %s", SECRETS["jwt"])
    finally:
        logger.removeHandler(handler)
    said = capsys.readouterr().err
    assert "refused qpf_0123456789ab_[hidden]" in said
    assert HIDDEN_PARTS["token"] not in said
    assert HIDDEN_PARTS["jwt"] not in said
