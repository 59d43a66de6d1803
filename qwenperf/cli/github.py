"""``qwenperf github``: a run or a comparison as a check and a comment. A post that fails changes no verdict."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qwenperf.cli.config import find_project
from qwenperf.cli.files import named_path
from qwenperf.cli.output import debug_option, json_option, write_json, write_lines
from qwenperf.cli.streams import say, verdict_survives
from qwenperf.errors import QwenperfError, RecordError, UsageError
from qwenperf.gate.verdict import strongest
from qwenperf.settings import INCONCLUSIVE

if TYPE_CHECKING:
    from qwenperf.forge.api import GitHub
    from qwenperf.forge.report import Posted, Report
    from qwenperf.forge.target import Target
    from qwenperf.report.judged import Judged


@click.command("github")
@click.argument("path", type=named_path, required=False)
@click.option("--artifact", metavar="NAME", help="Report this artifact of the run that a workflow_run event is about.")
@click.option(
    "--event", type=named_path, envvar="GITHUB_EVENT_PATH", metavar="JSON", help="Event ($GITHUB_EVENT_PATH)."
)
@click.option("--event-name", envvar="GITHUB_EVENT_NAME", default="", help="Its kind ($GITHUB_EVENT_NAME).")
@click.option("--repository", envvar="GITHUB_REPOSITORY", default="", metavar="OWNER/NAME", help="$GITHUB_REPOSITORY.")
@click.option("--sha", default="", help="Commit, where no event says it (default: $GITHUB_SHA).")
@click.option("--pull-request", type=click.IntRange(min=1), metavar="N", help="Its number, where no event says it.")
@click.option("--name", default="qwenperf", show_default=True, help="Name of the check, and of the comment.")
@click.option("--no-check", is_flag=True, help="Make no check run.")
@click.option("--no-comment", is_flag=True, help="Write no comment.")
@click.option("--details-url", default="", metavar="URL", help="Where there is more (default: the workflow run).")
@click.option("--summary", is_flag=True, help="Write to $GITHUB_STEP_SUMMARY, too.")
@click.option(
    "--inconclusive", type=click.Choice(INCONCLUSIVE), help="What noise does (default: as the project says, or warn)."
)
@click.option(
    "--api-url", envvar="GITHUB_API_URL", default="https://api.github.com", metavar="URL", help="$GITHUB_API_URL."
)
@click.option("--app-id", envvar="QWENPERF_GITHUB_APP_ID", default="", help="A GitHub App's ($QWENPERF_GITHUB_APP_ID).")
@click.option("--patience", type=float, default=120, show_default=True, metavar="S", help="Try a request for so long.")
@click.option("--strict", is_flag=True, help="End with an error where something could not be posted.")
@click.option("--dry-run", is_flag=True, help="Ask nobody: print the requests as JSON.")
@json_option
@debug_option
def command(path: Path | None, as_json: bool, **flags: Any) -> int:  # noqa: FBT001
    """Report PATH (a run or a comparison: its folder, its record or a .zip of it) on GitHub.

    A check run on the commit and one comment on its pull request, which later reports change. The token is
    $GITHUB_TOKEN, or a GitHub App's made with $QWENPERF_GITHUB_APP_KEY. Ends as the record was judged.
    """
    if (path is None) == (flags["artifact"] is None):
        raise UsageError("there is nothing to report, or twice.", advice="Give PATH or --artifact NAME, and not both.")
    if flags["artifact"] is not None and flags["dry_run"]:
        raise UsageError("--dry-run asks nobody, and so has no artifact.", advice="Give PATH.")
    flags["inconclusive"] = find_project(Path.cwd()).settings({"inconclusive": flags["inconclusive"]}).inconclusive
    target = _target(path, flags)
    api, trouble = _signed_in(flags, target)
    judged = _judged(path, flags, api, target)
    report = _report(judged, flags)
    posted = _posted(api, target, report, flags, trouble)
    if flags["summary"]:
        posted = _with_step_summary(posted, report)
    _tell(posted, report, judged, as_json=as_json, dry=flags["dry_run"])
    return strongest([judged.exit_code, 4]) if flags["strict"] and posted.problems else judged.exit_code


def _target(path: Path | None, flags: Mapping[str, Any]) -> Target:
    """Return what is reported on: what the event says, or where there is none what was typed."""
    from qwenperf.cli.github_record import judged_place
    from qwenperf.forge.target import Target, target_of

    file, name = flags["event"], flags["event_name"]
    typed = bool(flags["sha"] or flags["pull_request"])
    if typed and name == "workflow_run":
        advice = "Its commit and its pull request come from the event, never from what the measured job wrote."
        raise UsageError("--sha and --pull-request do not go with a workflow_run event.", advice=advice)
    if typed or file is None:
        sha = flags["sha"] or os.environ.get("GITHUB_SHA", "")
        if not sha and path is not None and flags["dry_run"]:  # what is only looked at may go by the record's word
            sha = judged_place(path, "", flags["inconclusive"]).sha
        pulls = () if flags["pull_request"] is None else (flags["pull_request"],)
        return Target(repository=flags["repository"], sha=sha, pulls=pulls)
    return target_of(name, _event(file), flags["repository"], os.environ.get("GITHUB_SHA", ""))


def _event(file: Path) -> Mapping[str, Any]:
    from qwenperf.cli.files import read_text, reason

    try:
        found = json.loads(read_text(file))
    except (OSError, ValueError, RecursionError) as error:
        told = reason(error) if isinstance(error, OSError | ValueError) else "nested too deeply"
        raise UsageError(f"cannot read the event {file}: {told}.", advice="Give --event, or --sha.") from error
    if not isinstance(found, Mapping):
        raise UsageError(f"{file} is no event.", advice="Is it the file of $GITHUB_EVENT_PATH?")
    return found


def _signed_in(flags: Mapping[str, Any], target: Target) -> tuple[GitHub, str]:
    """Return GitHub with a token, or why there is none: that costs the post and not the verdict."""
    from qwenperf.forge.api import GitHub
    from qwenperf.forge.app import ARTIFACT_RIGHTS, RIGHTS, as_app

    # Variables of CI are pasted with a newline.
    token = os.environ.get("GITHUB_TOKEN", "").strip() or os.environ.get("GH_TOKEN", "").strip()
    api = GitHub(
        url=flags["api_url"].strip(),
        token=token,
        patience_s=max(0.0, flags["patience"]),
        say=lambda line: say(f"qwenperf: {line}"),
    )
    if flags["app_id"] and not flags["dry_run"]:
        try:
            rights = ARTIFACT_RIGHTS if flags["artifact"] else RIGHTS
            return as_app(api, target, flags["app_id"], os.environ.get("QWENPERF_GITHUB_APP_KEY", ""), rights), ""
        except QwenperfError as error:  # GitHub said no, PyJWT is missing, or the key is none
            return replace(api, token=""), str(error)
    return api, "there is no token; set $GITHUB_TOKEN."


def _judged(path: Path | None, flags: Mapping[str, Any], api: GitHub, target: Target) -> Judged:
    from qwenperf.cli.github_record import judged_archive, judged_place, unreadable
    from qwenperf.forge.api import ForgeError, is_final
    from qwenperf.forge.artifact import fetch
    from qwenperf.report.markdown_text import line

    link, noise, name = flags["details_url"] or _details_url(target), flags["inconclusive"], flags["artifact"]
    if path is not None:
        return judged_place(path, link, noise)
    try:
        return judged_archive(fetch(api, target, name), f"artifact {name}", link, noise)
    except (RecordError, ForgeError) as error:
        if isinstance(error, ForgeError) and not is_final(error):
            raise
        # A required check that never comes would keep the pull request waiting: it comes, and is red.
        say(f"qwenperf: error: {line(str(error), 500)}")
        return unreadable(error, link)


def _details_url(target: Target) -> str:
    """Return the page of the workflow run that measured; empty outside GitHub's jobs."""
    server, run = os.environ.get("GITHUB_SERVER_URL", ""), target.run or os.environ.get("GITHUB_RUN_ID", "")
    return f"{server}/{target.repository}/actions/runs/{run}" if server and run else ""


def _report(judged: Judged, flags: Mapping[str, Any]) -> Report:
    from qwenperf.forge.report import Report, conclusion

    return Report(
        name=flags["name"],
        conclusion=conclusion(judged.exit_code, is_settled=judged.is_settled),
        title=judged.title,
        summary=judged.text,
        details_url=judged.link,
        annotations=judged.annotations,
    )


def _posted(api: GitHub, target: Target, report: Report, flags: Mapping[str, Any], trouble: str) -> Posted:
    from qwenperf.forge.recorder import Recorder
    from qwenperf.forge.report import Posted, post

    wanted = {"check": not flags["no_check"], "comment": not flags["no_comment"]}
    if flags["dry_run"]:
        recorder = Recorder(target=target)
        post(recorder, target, report, **wanted)
        return Posted(requests=tuple(recorder.requests))
    if not api.token and any(wanted.values()):
        return Posted(problems=(f"nothing was posted: {trouble}",))
    return post(api, target, report, **wanted)


def _with_step_summary(posted: Posted, report: Report) -> Posted:
    """Add the report to the page of the job; where that fails it is one more problem."""
    place = os.environ.get("GITHUB_STEP_SUMMARY", "")
    try:
        if not place:
            raise OSError("$GITHUB_STEP_SUMMARY is not set")  # noqa: TRY301  (told like any other reason)
        with Path(place).open("a", encoding="utf-8") as file:
            file.write(report.summary)
    except (OSError, ValueError) as error:
        return replace(posted, problems=(*posted.problems, f"no summary of the job: {error}"))
    return posted


def _tell(posted: Posted, report: Report, judged: Judged, *, as_json: bool, dry: bool) -> None:
    for problem in posted.problems:
        say(f"qwenperf: warning: {problem}")
    with verdict_survives():
        if dry:
            write_json(list(posted.requests))
        elif as_json:
            told = {"check": posted.check, "comments": list(posted.comments), "problems": list(posted.problems)}
            write_json({"conclusion": report.conclusion, "title": report.title, **told, "exit_code": judged.exit_code})
        else:
            write_lines([f"{report.conclusion}: {report.title}", *filter(None, (posted.check, *posted.comments))])
