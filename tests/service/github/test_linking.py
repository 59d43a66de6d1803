"""Who links a project to a repository, and with which credentials the service asks GitHub."""

from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from sqlalchemy import select

from qwenperf.errors import ConfigError, UsageError
from qwenperf.service.db.tables import metadata
from qwenperf.service.github.access import check_credentials
from qwenperf.service.settings import ServiceSettings, from_text, to_text

REPOSITORY = "acme/engine"


def test_only_who_looks_after_the_service_links_a_project(demo):
    """It posts under a name of its own: a project's admin must not choose where; to end it they may."""
    mine = {"repository": REPOSITORY, "repository_id": "4711"}
    admin, pusher = demo.server.token("admin", "demo"), demo.server.token("push", "demo")
    demo.ask("PUT", "/github", 403, admin, json=mine)
    demo.ask("PUT", "/github", 403, pusher, json=mine)
    demo.ask("GET", "/github", 403, pusher)
    demo.link()
    assert demo.ask("GET", "/github", 200, admin).json()["check"] == "qwenperf/demo"
    demo.ask("DELETE", "/github", 204, admin)
    demo.ask("GET", "/github", 404, admin)
    actions = [one["action"] for one in demo.ask("GET", "/audit", 200).json()["audit"]]
    assert actions[:2] == ["github.unlink", "github.link"]


@pytest.mark.parametrize(
    "more",
    [
        {"repository": "engine"},
        {"repository": "acme/../x"},
        {"repository_id": "acme"},
        {"repository_id": "0"},
        {"repository_id": "\N{SUPERSCRIPT TWO}"},
        {"tokens": "yes"},
        {"secret": "x"},
    ],
)
def test_a_link_that_is_none_is_refused(demo, more):
    """In words."""
    demo.ask("PUT", "/github", 422, json={"repository": REPOSITORY, "repository_id": "4711"} | more)


def test_no_credential_is_in_the_database(demo):
    """Nor in what the settings say of themselves; worker processes get it all the same."""
    demo.link(tokens=True)
    demo.push(demo.run())
    demo.post()
    with demo.server.service.database.read() as connection:
        rows = [str(row) for table in metadata.sorted_tables for row in connection.execute(select(table))]
    assert any(REPOSITORY in row for row in rows)
    assert not any(demo.secret in row for row in rows)
    settings = demo.server.service.settings
    assert demo.secret not in repr(settings)
    assert from_text(to_text(settings)) == settings


def test_an_app_has_a_token_of_the_linked_repository_alone(serving, github, tmp_path):
    """By its number; and asks for the next one when that has grown old, and not for each post."""
    kind, no = serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(serialization.Encoding.PEM, kind, no)
    (tmp_path / "app.pem").write_bytes(pem)
    for demo in serving(github_token="", github_app_id="123", github_app_key=str(tmp_path / "app.pem")):
        demo.link(tokens=True)
        for number in range(2):
            demo.push(demo.run(number, suite=f"s{number}"))
            demo.post()
        asked = [one["body"] for one in github.requests if one["path"].endswith("/access_tokens")]
        assert asked == [{"repository_ids": [4711], "permissions": {"checks": "write", "pull_requests": "write"}}]
        assert len(github.comments) == 1


def test_a_key_that_went_away_is_looked_for_again(serving, github, tmp_path):
    """An operator mends that; what waits is told then."""
    for demo in serving(github_token="", github_app_id="123", github_app_key=str(tmp_path / "gone.pem")):
        demo.link(tokens=True)
        demo.push(demo.run())
        demo.post()
        assert (demo.posts()[0]["state"], github.requests) == ("waiting", [])


@pytest.mark.parametrize("given", [{"github_app_id": "1"}, {"github_app_key": "app.pem"}])
def test_half_of_an_app_does_not_start(given):
    """The other half is named."""
    with pytest.raises(ConfigError, match="half"):
        check_credentials(ServiceSettings(data=Path(), **given))


def test_a_key_that_cannot_be_read_does_not_start(tmp_path):
    """Better now than at the first run."""
    secret = "ghs_secret"
    settings = ServiceSettings(data=Path(), github_app_id="1", github_app_key=str(tmp_path / "none.pem"))
    with pytest.raises(UsageError, match=r"none\.pem"):
        check_credentials(settings)
    whole = replace(settings, github_app_id="", github_app_key="", github_token=f"{secret}\n")
    check_credentials(whole)
    with pytest.raises(UsageError, match="no address of an API"):
        check_credentials(replace(whole, github_api_url="github.com"))
    with pytest.raises(ConfigError) as caught:
        check_credentials(replace(whole, github_token=f"{secret} more"))
    assert secret not in str(caught.value)
