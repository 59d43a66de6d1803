"""Identities of CI jobs, signed by a real issuer that is asked for its keys over HTTP."""

import base64
import hmac
import json
import time

import jwt
import pytest

pytest.importorskip("starlette")

import importlib.util
from pathlib import Path

from qwenperf.service.auth.jwks import Jwks
from qwenperf.service.auth.oidc import Policy, hold_to, verify
from qwenperf.service.problems import Problem

_SPEC = importlib.util.spec_from_file_location("issuer", Path(__file__).with_name("issuer.py"))
issuers = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(issuers)
AUDIENCE = issuers.AUDIENCE


class Clock:
    """A clock that a test sets."""

    now = 1000.0

    def __call__(self):
        """Tell the time."""
        return self.now


@pytest.fixture
def issuer():
    with issuers.running() as found:
        yield found


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def keys(issuer, clock):
    return Jwks(issuer.url, "", clock=clock)


def check(issuer, keys, text):
    return verify(text, keys, issuer=issuer.url, audience=AUDIENCE)


def refused(issuer, keys, text):
    with pytest.raises(Problem) as caught:
        check(issuer, keys, text)
    return caught.value


def test_a_job_is_who_its_issuer_says(issuer, keys):
    job = check(issuer, keys, issuer.sign())
    assert (job.repository, job.repository_id, job.ref, job.sha) == ("owner/name", "4711", "refs/heads/main", "a" * 40)
    assert job.actor == "github owner/name@refs/heads/main run 17"


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"iss": "https://token.actions.example.com"}, "issuer"),
        ({"aud": "https://other.example.org"}, "audience"),
        ({"exp": int(time.time()) - 60}, "expired"),
        ({"nbf": int(time.time()) + 600}, "not valid yet"),
        ({"iat": int(time.time()) + 600}, "not valid yet"),
        ({"jti": None}, "jti"),
        ({"exp": None}, "exp"),
        ({"aud": None}, "aud"),
        ({"repository_id": None}, "repository_id"),
        ({"ref": ""}, "ref"),
        ({"exp": "soon"}, "no valid"),
    ],
)
def test_an_identity_that_is_wrong_in_one_thing_is_refused_and_told_which(issuer, keys, changed, says):
    problem = refused(issuer, keys, issuer.sign(**changed))
    assert problem.status == 401
    assert says in problem.error


def test_a_signature_of_somebody_else_s_key_under_the_issuer_s_name_for_it_is_refused(issuer, keys):
    assert "no key of the issuer" in refused(issuer, keys, issuer.sign("stranger", kid="first")).error


def test_a_changed_statement_under_an_old_signature_is_refused(issuer, keys):
    header, _, signature = issuer.sign().split(".")
    forged = base64.urlsafe_b64encode(json.dumps(issuer.claims(repository_id="1")).encode()).rstrip(b"=").decode()
    assert refused(issuer, keys, f"{header}.{forged}.{signature}").status == 401


def test_an_unsigned_statement_is_refused(issuer, keys):
    text = jwt.encode(issuer.claims(), None, algorithm="none", headers={"kid": "first"})
    assert "algorithm" in refused(issuer, keys, text).error


def test_the_issuer_s_public_key_is_no_shared_secret(issuer, keys):
    header = {"alg": "HS256", "kid": "first"}
    signed = ".".join(
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in (header, issuer.claims())
    )
    signature = hmac.digest(json.dumps(issuers.public("first")).encode(), signed.encode(), "sha256")
    text = f"{signed}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"
    assert "algorithm" in refused(issuer, keys, text).error


@pytest.mark.parametrize("text", ["", "x", "a.b.c", "eyJhbGciOiJSUzI1NiJ9.e30.", "\N{SNOWMAN}.a.b", "x" * 20_000])
def test_what_is_no_identity_at_all_is_refused(issuer, keys, text):
    assert refused(issuer, keys, text).status == 401


def test_a_refusal_does_not_repeat_what_was_sent(issuer, keys):
    text = issuer.sign(aud="https://SENT.example.org")
    assert "SENT" not in str(refused(issuer, keys, text))


def test_keys_are_fetched_once_and_again_after_an_hour(issuer, keys, clock):
    for _ in range(3):
        check(issuer, keys, issuer.sign())
    assert issuer.asked.count("/keys") == 1
    clock.now += 3700
    check(issuer, keys, issuer.sign())
    assert issuer.asked.count("/keys") == 2


def test_a_new_key_of_the_issuer_is_good_and_a_withdrawn_one_is_not(issuer, keys, clock):
    check(issuer, keys, issuer.sign())
    issuer.shown = [issuers.public("second")]
    clock.now += 60
    check(issuer, keys, issuer.sign("second"))
    assert refused(issuer, keys, issuer.sign("first")).status == 401


def test_names_of_keys_that_strangers_invent_do_not_make_us_ask_without_end(issuer, keys):
    check(issuer, keys, issuer.sign())
    for number in range(5):
        refused(issuer, keys, issuer.sign(kid=f"invented-{number}"))
    assert issuer.asked.count("/keys") == 1


def test_an_issuer_that_is_down_for_an_hour_costs_nobody_anything_and_for_a_day_everybody(issuer, keys, clock):
    check(issuer, keys, issuer.sign())
    issuer.status = 500
    clock.now += 5000
    check(issuer, keys, issuer.sign())
    clock.now += 25 * 3600
    problem = refused(issuer, keys, issuer.sign())
    assert problem.status == 503
    assert problem.headers["Retry-After"]


def test_a_discovery_document_of_another_issuer_is_not_believed(issuer, clock):
    keys = Jwks(f"{issuer.url}/", "", clock=clock)
    assert refused(issuer, keys, issuer.sign()).status == 503


def test_a_key_that_cannot_be_read_costs_the_others_nothing(issuer, keys):
    issuer.shown = [
        {"kty": "RSA", "kid": "broken", "n": "!", "e": "!"},
        {"kty": "oct", "kid": "x", "k": "eA"},
        *issuer.shown,
    ]
    check(issuer, keys, issuer.sign())


def test_without_an_audience_nothing_is_accepted(issuer, keys):
    with pytest.raises(Problem) as caught:
        verify(issuer.sign(), keys, issuer=issuer.url, audience="")
    assert caught.value.status == 404


def job_of(issuer, keys, **changed):
    return check(issuer, keys, issuer.sign(**changed))


@pytest.mark.parametrize(
    ("policy", "changed", "says"),
    [
        (Policy(repository_id="4711"), {}, None),
        (Policy(repository_id="4711"), {"ref": "refs/pull/7/merge"}, None),
        (Policy(repository_id="4711", refs=("refs/heads/release/*",)), {"ref": "refs/heads/release/1/2"}, None),
        (Policy(repository_id="4712"), {}, "no policy names repository id 4711"),
        (Policy(repository_id="4711", refs=("refs/heads/main",)), {"ref": "refs/heads/main2"}, "none of the refs"),
        (Policy(repository_id="4711"), {"ref": "refs/tags/v1"}, "none of the refs"),
        (Policy(repository_id="4711", events=("push",)), {"event_name": "pull_request_target"}, "the event"),
        (Policy(repository_id="4711", workflows=("owner/name/*",)), {"job_workflow_ref": "evil/x/y@z"}, "the workflow"),
    ],
)
def test_a_policy_lets_in_what_it_names(issuer, keys, policy, changed, says):
    job = job_of(issuer, keys, **changed)
    if says is None:
        hold_to(job, (policy,))
        return
    with pytest.raises(Problem) as caught:
        hold_to(job, (policy,))
    assert caught.value.status == 403
    assert says in caught.value.error


def test_a_repository_that_took_over_a_name_is_not_the_one_that_had_it(issuer, keys):
    job = job_of(issuer, keys, repository="owner/name", repository_id="9")
    with pytest.raises(Problem):
        hold_to(job, (Policy(repository_id="4711"),))


def test_one_policy_of_several_is_enough_and_none_lets_nobody_in(issuer, keys):
    job = job_of(issuer, keys)
    hold_to(job, (Policy(repository_id="4711", refs=("refs/tags/*",)), Policy(repository_id="4711")))
    with pytest.raises(Problem):
        hold_to(job, ())
