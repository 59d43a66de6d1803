"""A GitHub App's token, over HTTP; and that nothing else needs PyJWT."""

import subprocess
import sys

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from qwenperf.errors import EnvironmentUnfitError, UsageError
from qwenperf.forge.api import ForgeError
from qwenperf.forge.app import ARTIFACT_RIGHTS, as_app


@pytest.fixture(scope="module")
def key():
    """An app's private key."""
    return rsa.generate_private_key(65537, 2048)


@pytest.fixture(scope="module")
def pem(key):
    """The key as GitHub gives it out."""
    kind, no = serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, kind, no).decode()


def test_an_app_gets_a_token_for_one_repository(api, github, target, key, pem):
    """It shows a short-lived signature, and asks for no more than a report needs."""
    made = as_app(api, target, "123", pem)
    assert made.token == "ghs_installed"
    (found, asked) = github.requests
    shown = found["headers"]["Authorization"].removeprefix("Bearer ")
    claims = jwt.decode(
        shown, key.public_key(), algorithms=["RS256"], options={"verify_exp": False, "verify_iat": False}
    )
    assert claims == {"iss": "123", "iat": 940, "exp": 1540}
    assert asked["body"] == {
        "repositories": ["engine"],
        "permissions": {"checks": "write", "pull_requests": "write"},
    }


def test_an_app_asks_for_artifacts_where_it_reads_one_and_for_the_repository_of_a_number(api, github, target, pem):
    """A right that it was not given would cost it the token; a name may be another repository's by now."""
    as_app(api, target, " 123\n", pem, ARTIFACT_RIGHTS, repository_id=4711)
    assert github.requests[-1]["body"] == {
        "repository_ids": [4711],
        "permissions": {"actions": "read", "checks": "write", "pull_requests": "write"},
    }
    shown = github.requests[0]["headers"]["Authorization"].removeprefix("Bearer ")
    assert jwt.decode(shown, options={"verify_signature": False})["iss"] == "123"


def test_an_app_that_is_not_installed_says_so(api, github, target, pem):
    """404 is final."""
    github.fail("GET .*/installation", 404, "Not Found")
    with pytest.raises(ForgeError, match="404 Not Found"):
        as_app(api, target, "123", pem)


def test_a_wrong_key_is_not_repeated(api, target):
    """Its words may hold a part of the key."""
    with pytest.raises(UsageError) as caught:
        as_app(api, target, "123", "-----BEGIN SECRET")
    assert "SECRET" not in str(caught.value)


def test_without_pyjwt_an_app_says_what_to_install(api, target, pem, monkeypatch):
    """The extra has it."""
    monkeypatch.setitem(sys.modules, "jwt", None)
    with pytest.raises(EnvironmentUnfitError, match=r"qwenperf\[service\]"):
        as_app(api, target, "123", pem)


def test_a_token_needs_neither_pyjwt_nor_jax():
    """Nothing of the room imports them."""
    code = (
        "import sys; sys.modules['jwt'] = None;"
        "import qwenperf.forge.app, qwenperf.forge.report, qwenperf.forge.artifact, qwenperf.forge.webhook;"
        "sys.exit('jax' in sys.modules or 'click' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
