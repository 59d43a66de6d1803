"""A GitHub App's token for one repository, with the two rights that a report needs. The rest works without PyJWT."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from qwenperf.errors import EnvironmentUnfitError, UsageError
from qwenperf.forge.api import ForgeError, GitHub, understood
from qwenperf.forge.target import Target

_EARLIER_S, _LIFE_S = 60, 540
"""GitHub takes ten minutes at the most, and its clock may be behind ours."""

RIGHTS: Mapping[str, str] = {"checks": "write", "pull_requests": "write"}
"""What a report needs. GitHub refuses a token with a right that the app was not given."""

ARTIFACT_RIGHTS: Mapping[str, str] = {**RIGHTS, "actions": "read"}
"""What a report needs whose record is the artifact of another job."""


def as_app(  # noqa: PLR0917  (whom, of what, as whom, and then what for)
    api: GitHub,
    target: Target,
    app: str,
    key: str,
    rights: Mapping[str, str] = RIGHTS,
    repository_id: int | None = None,
) -> GitHub:
    """Return ``api`` with an installation's token, which lives an hour and is for the target's repository alone.

    With ``repository_id`` it is for the repository of that number, whoever has its name by now.

    Raises:
      EnvironmentUnfitError: PyJWT is missing.
      UsageError: the key is none.
      ForgeError: the app is not installed there, or GitHub does not answer.
    """
    asked = replace(api, token=signed(app, key, api.now))
    named = {"repositories": [target.repository.partition("/")[2]]}
    which = named if repository_id is None else {"repository_ids": [repository_id]}
    with understood():
        installation = asked.ask("GET", f"{target.path}/installation")["id"]
        body = {**which, "permissions": dict(rights)}
        token = asked.ask("POST", f"/app/installations/{installation}/access_tokens", body=body).get("token")
    if not isinstance(token, str):
        raise ForgeError(f"GitHub gave no token for {target.repository}.")
    return replace(api, token=token)


def signed(app: str, key: str, now: Callable[[], float]) -> str:
    """Return what an app shows of itself: signed by its private key, and good for some minutes."""
    try:
        import jwt
    except ImportError as error:
        advice = "Install qwenperf[service], or give a token in $GITHUB_TOKEN."
        raise EnvironmentUnfitError("a GitHub App needs PyJWT, which is not here.", advice=advice) from error
    at = int(now())
    try:
        return jwt.encode({"iat": at - _EARLIER_S, "exp": at + _LIFE_S, "iss": app.strip()}, key, algorithm="RS256")
    except NotImplementedError as error:
        advice = "Install qwenperf[service], or give a token in $GITHUB_TOKEN."
        raise EnvironmentUnfitError("a GitHub App needs PyJWT with cryptography.", advice=advice) from error
    except (ValueError, TypeError, jwt.PyJWTError) as error:
        # The error's own words may hold a part of the key.
        raise UsageError("the app's private key is none.", advice="Give the .pem file that GitHub made.") from error
