"""``qwenperf convert FILE...``: other tools' files into runs, and runs into other tools' files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from qwenperf.cli.files import is_there, named_path, read_text
from qwenperf.cli.foreign_files import read_place
from qwenperf.cli.output import debug_option, json_option, write_json, write_lines
from qwenperf.cli.streams import say
from qwenperf.errors import OutputError, QwenperfError, UsageError
from qwenperf.formats.convert import FORMATS, OWN, READABLE, WRITABLE, write
from qwenperf.formats.foreign import moment
from qwenperf.formats.place import Document
from qwenperf.lab.run_folder import write_text, writing
from qwenperf.schema.records import RunRecord


@click.command("convert", epilog=f"Formats: {'; '.join(f'{one.name}: {one.about}' for one in FORMATS.values())}.")
@click.argument("files", type=named_path, nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--from",
    "source",
    type=click.Choice(READABLE),
    metavar="FORMAT",
    help="What FILE is (default: found out by its content).",
)
@click.option(
    "--to",
    "target",
    type=click.Choice(WRITABLE),
    metavar="FORMAT",
    default=OWN,
    show_default=True,
    help="What to write.",
)
@click.option(
    "--out", type=named_path, metavar="PATH", help="Write here instead of to stdout: a file, or a folder of several."
)
@click.option("--force", is_flag=True, help="Overwrite files that are there.")
@click.option("--commit", default="", metavar="HASH", help="The commit that was measured, where FILE does not say.")
@click.option("--committed-at", default="", metavar="TIME", help="When that was made, where FILE does not say.")
@click.option("--at", default="", metavar="TIME", help="When it was measured, ISO 8601, where FILE does not say.")
@click.option("--suite", default="", metavar="NAME", help="A name for the suite of the runs.")
@json_option
@debug_option
def command(files: tuple[Path, ...], out: Path | None, as_json: bool, **flags: Any) -> int:  # noqa: FBT001
    """Convert FILEs: a file of one of the formats below, a run's folder, or a results folder of asv.

    Runs of other tools are runs like ours: history, service and reports take them. Their metrics keep their names and
    units.
    """
    told = {name: _time(name, flags[name]) for name in ("at", "committed_at")}
    told |= {name: flags[name] for name in ("commit", "suite")}
    runs = [run for file in files for run in read_place(file, flags["source"] or "", **told)]
    for run in runs:
        for finding in run.findings if run.extra.get("source") else ():
            say(f"qwenperf: note: {finding.message} {finding.advice}".rstrip())
    documents = write(runs, flags["target"])
    kept = () if out is None or flags["force"] else _kept(documents, flags["target"], out)
    if kept:
        say(f"qwenperf: note: {len(kept)} of them were read before and stay as they are; --force reads them anew.")
    written = _save([one for one in documents if one not in kept], flags["target"], out, force=flags["force"])
    if as_json:
        texts = {} if out is not None else {"documents": [{"name": one.name, "text": one.text} for one in documents]}
        write_json({"format": flags["target"], "runs": [_told(run) for run in runs], "written": written, **texts})
    elif out is None:
        _print(documents, flags["target"])
    else:
        write_lines(written)
    return 0


def _time(name: str, text: str) -> str:
    try:
        return moment(text) if text else ""
    except ValueError:
        option = f"--{name.replace('_', '-')}"
        raise UsageError(f"{option} is {text!r}, which is no time.", advice="Write 2026-01-31T23:59:59Z.") from None


def _kept(documents: Sequence[Document], target: str, out: Path) -> list[Document]:
    """Return the runs that ``out`` has from the same part of another tool's file: what lies beside that has changed."""
    from qwenperf.schema.codec import loads
    from qwenperf.store.told import is_told_again

    found = []
    for one in documents if target == OWN else ():
        place = out / one.name
        if is_there(place) and _differs(place, one.text):
            with suppress(OSError, ValueError, QwenperfError):
                if is_told_again(loads(read_text(place)), loads(one.text)):
                    found.append(one)
    return found


def _save(documents: Sequence[Document], target: str, out: Path | None, *, force: bool) -> list[str]:
    """Write files whole or not at all, none of them over another without being told to.

    Raises:
      OutputError: a file is there, two would be one, one would be elsewhere, or it cannot be written.
    """
    if out is None:
        return []
    into = FORMATS[target].folder
    named = [(out / one.name if into else out, one.text) for one in documents]
    places = list(dict(named).items())
    for place, text in named:
        if into and (".." in place.parts[len(out.parts) :] or not place.is_relative_to(out)):
            raise OutputError(f"{place} is not in {out}.", advice="Give what it is named after an ordinary name.")
        if dict(named)[place] != text:
            raise OutputError(f"two of them would be {place}.", advice="Convert them into folders of their own.")
    for place, text in places:
        if not into and place.is_dir():
            raise OutputError(f"{place} is a folder.", advice=f"{target} is one file: name it.")
        if not force and is_there(place) and _differs(place, text):
            raise OutputError(f"{place} is there already.", advice="Give another name, or --force to overwrite it.")
    for place, text in places:
        with writing(place):
            place.parent.mkdir(parents=True, exist_ok=True)
        write_text(place, text)
    return [str(place) for place, _ in places]


def _differs(place: Path, text: str) -> bool:
    try:
        return read_text(place) != text
    except (OSError, ValueError):
        return True


def _print(documents: Sequence[Document], target: str) -> None:
    if len(documents) > 1:
        raise UsageError(f"{target} is {len(documents)} files here.", advice="Give a folder with --out.")
    write_lines([documents[0].text.rstrip("\n")])


def _told(run: RunRecord) -> dict[str, Any]:
    return {
        "id": run.id,
        "suite": run.suite,
        "created_at": run.created_at,
        "commit": run.commit.get("sha", ""),
        "cases": len(run.cases),
        "metrics": sum(len(case.metrics) for case in run.cases),
        "findings": [finding.message for finding in run.findings],
    }
