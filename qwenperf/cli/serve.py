"""``qwenperf serve``: start the benchmark service, and say where it is and how to get in."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import click

from qwenperf.cli.output import debug_option, json_option, write_lines
from qwenperf.cli.service_options import make_folder, service_extra, service_options
from qwenperf.cli.streams import writing_data
from qwenperf.errors import ConfigError
from qwenperf.settings import read_size


@click.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="Port; 0 takes a free one."
)
@service_options
@click.option(
    "--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes (PostgreSQL only)."
)
@click.option("--public-url", default="", metavar="URL", help="Address that people use, behind a proxy.")
@click.option(
    "--quota", default="50GB", show_default=True, metavar="S", help="Room for a project made without a quota."
)
@click.option(
    "--rate",
    "rate_per_s",
    type=click.FloatRange(min=1),
    default=200,
    show_default=True,
    help="Requests a second that one token may make.",
)
@click.option("--sweep", "sweep_s", type=float, default=60, show_default=True, metavar="S", help="Tidy up so often.")
@click.option(
    "--oidc-issuer", default=None, metavar="URL", help="Who signs the identities of CI jobs (default: GitHub)."
)
@click.option("--oidc-audience", default=None, metavar="NAME", help="Audience of those (default: the public URL).")
@click.option("--oidc-jwks-url", default=None, metavar="URL", help="The issuer's keys (default: where it says).")
@click.option(
    "--viewers",
    type=click.IntRange(0, 64),
    default=2,
    show_default=True,
    metavar="N",
    help="Open traces of so many runs at once in XProf, if it is installed; 0 never does.",
)
@click.option(
    "--private-webhooks", is_flag=True, help="Let webhooks go to this network's own addresses, and to http://."
)
@click.option(
    "--github-app-id",
    envvar="QWENPERF_GITHUB_APP_ID",
    default="",
    metavar="ID",
    help="Tell GitHub as this app ($QWENPERF_GITHUB_APP_ID).",
)
@click.option(
    "--github-app-key",
    envvar="QWENPERF_GITHUB_APP_KEY_FILE",
    default="",
    metavar="FILE",
    help="Its private key, a .pem ($QWENPERF_GITHUB_APP_KEY_FILE).",
)
@click.option(
    "--github-api-url", default="https://api.github.com", show_default=True, metavar="URL", help="GitHub's API."
)
@click.option("--trust-forwarded", is_flag=True, help="Believe X-Forwarded-For: only behind a proxy that sets it.")
@click.option("--secure-cookies", is_flag=True, help="Cookies for https only (default: if the public URL is https).")
@json_option
@debug_option
def command(data: Path, quota: str, as_json: bool, **options: Any) -> int:  # noqa: FBT001
    """Start the benchmark service: runs come in by `qwenperf push`, people look at them in a browser.

    The first start prints an admin token, once. It listens on this machine only, unless --host says otherwise. GitHub
    is told of what arrives in linked projects as an app, or with the token in $QWENPERF_GITHUB_TOKEN.
    """
    service_extra()
    from qwenperf.service.db.marks import is_backup
    from qwenperf.service.github.access import check_credentials
    from qwenperf.service.serving import serve
    from qwenperf.service.settings import ServiceSettings

    options.pop("debug")
    try:
        quota_bytes = read_size(quota)
    except ValueError as error:
        raise ConfigError(f"--quota is {quota!r}: {error}.") from error
    given = {name: value for name, value in options.items() if value is not None}
    token = os.environ.get("QWENPERF_GITHUB_TOKEN", "").strip()
    settings = ServiceSettings(data=data, quota_bytes=quota_bytes, github_token=token, **given)
    check_credentials(settings)

    make_folder(data)
    backup = is_backup(settings.database_url)

    def ready(url: str, token: str | None) -> None:
        if as_json:
            with writing_data():
                sys.stdout.write(json.dumps({"url": url, "token": token, "backup": backup}) + "\n")
            return
        lines = [f"serving on {url}"]
        if token is not None:
            lines += [f"admin token, shown this once: {token}"]
        if backup:
            lines += ["a backup, to be looked at: nothing is changed, judged, removed or told to anybody"]
            lines += ["to go on from it: qwenperf db restore FOLDER --data NEW"]
        write_lines(lines)

    serve(settings, ready)
    return 0
