"""Writes what is generated from the code: docs/metrics.md, docs/cli.md, tables of docs/ladder.md, JSON schemas.

Of docs/ladder.md it writes what stands between marks; the rest of that page is written by hand.

python tools/generate_docs.py [FILE ...]           writes the files
python tools/generate_docs.py --check [FILE ...]   writes nothing; ends with 1 and names each file out of date
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click

from qwenperf.cli import main as command
from qwenperf.schema.metrics import REGISTRY, Kind, MetricDefinition
from qwenperf.schema.published import (
    aot_schema,
    bisection_schema,
    comparison_schema,
    regressions_schema,
    run_schema,
    upgrade_schema,
)
from qwenperf.workloads.approximate import LOGIT_ERROR
from qwenperf.workloads.claims import CLAIMS, FLAT_CLAIMS, SIZE_CLAIMS, Source
from qwenperf.workloads.engine import RUNGS, EngineSettings
from qwenperf.workloads.setting import SETTINGS

ROOT = Path(__file__).resolve().parent.parent

DIRECTIONS = {"lower": "lower is better", "higher": "higher is better", "none": "a fact"}

METRICS_HEAD = """# Metrics

Made from the registry `qwenperf/schema/metrics.py` by `tools/generate_docs.py`: change it there.

Every metric in `run.json` has one of these names, and the unit, direction and kind that stand here. *Deterministic*
metrics are the same on every repetition of a program, on any machine with the same versions; *timed* ones carry noise
and come with their readings (`samples`), an `interval` for the median, and the `coverage` that it really has: with few
readings it is below 95% (3 readings: 75%, 5 readings: 93.75%). A metric that could not be had is absent, never 0.

*Position* counts tokens of the sequence from 0; *steady* is what comes after warm-up; a *step* makes one token for
each row of the batch. Roofline figures are measured on the same machine, by kernels that the record names.
"""


def metrics_page() -> str:
    """Return docs/metrics.md."""
    parts = [METRICS_HEAD]
    for kind, title in ((Kind.TIMED, "Timed"), (Kind.DETERMINISTIC, "Deterministic")):
        rows = [_row(one) for one in REGISTRY.values() if one.kind is kind]
        parts.append(
            "\n".join(
                [
                    f"## {title}\n",
                    "| metric | unit | direction | formula | meaning |",
                    "| --- | --- | --- | --- | --- |",
                    *rows,
                ]
            )
            + "\n"
        )
    return "\n".join(parts)


def _row(one: MetricDefinition) -> str:
    cells = (f"`{one.name}`", one.unit, DIRECTIONS[one.direction], f"`{one.formula}`", one.description)
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def ladder_page() -> str:
    """Return docs/ladder.md with the tables between its marks made anew."""
    page = (ROOT / "docs" / "ladder.md").read_text(encoding="utf-8")
    for name, rows in (("rungs", _rungs()), ("settings", _settings()), ("claims", _claims())):
        start, end = f"<!-- {name}: generated -->\n", f"<!-- end of {name} -->"
        before, _, rest = page.partition(start)
        table = "\n".join(rows)
        page = f"{before}{start}{table}\n{end}{rest.partition(end)[2]}"
    return page


def _rungs() -> Iterator[str]:
    yield "| rung | made of |\n| --- | --- |"
    plain = EngineSettings(loop="device").to_json()
    for name, settings in RUNGS.items():
        own = [f"`{key}={str(value).lower()}`" for key, value in settings.to_json().items() if value != plain[key]]
        yield f"| `{name}` | {', '.join(own) or 'everything that is fastest'} |"


def _settings() -> Iterator[str]:
    yield "| setting | values | what they are | the mistake it undoes | exact |\n| --- | --- | --- | --- | --- |"
    cached = RUNGS["cached"].to_json()
    for name, one in SETTINGS.items():
        values = [f"{str(value).lower()}{' (cached)' * (value == cached[name])}" for value in one.values]
        bounds = LOGIT_ERROR.get(name, {})
        exact = ", ".join(f"{value}: {bound}" for value, bound in bounds.items()) or "yes"
        cells = (f"`{name}`", ", ".join(values), one.about, one.mistake or "-", exact)
        yield "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def _claims() -> Iterator[str]:
    yield "| setting | compared | claimed | how it was had | in words |\n| --- | --- | --- | --- | --- |"
    for claim in CLAIMS:
        low, high = f"{claim.low:g}", f"{claim.high:g}"
        engines = " over ".join(f"`{case.split('/')[-2]}`" for case in (claim.fast, claim.slow))
        ratio = "-".join(dict.fromkeys((low, high)))
        yield f"| {claim.name} | {engines} | {ratio}x | {HAD[claim.source]} | {claim.said} |"
    for flat in FLAT_CLAIMS:
        yield f"| {flat.name} | `scaling_per_100_tokens` of `cached` | 0% | expected | {flat.said} |"
    for size in SIZE_CLAIMS:
        yield f"| {size.name} | `{size.metric}` | {size.claimed_bytes / 1e6:g} MB | counted | {size.said} |"


HAD = {
    Source.COLD: "timed, compiles counted",
    Source.STEADY: "timed after warm-up",
    Source.ESTIMATED: "estimated",
    Source.COUNTED: "counted on paper",
}


def schema_file() -> str:
    """Return qwenperf/schema/run.v1.json."""
    return json.dumps(run_schema(), indent=2) + "\n"


def comparison_schema_file() -> str:
    """Return qwenperf/schema/comparison.v1.json."""
    return json.dumps(comparison_schema(), indent=2) + "\n"


def aot_schema_file() -> str:
    """Return qwenperf/schema/aot.v1.json."""
    return json.dumps(aot_schema(), indent=2) + "\n"


def bisection_schema_file() -> str:
    """Return qwenperf/schema/bisection.v1.json."""
    return json.dumps(bisection_schema(), indent=2) + "\n"


def regressions_schema_file() -> str:
    """Return qwenperf/schema/regressions.v1.json."""
    return json.dumps(regressions_schema(), indent=2) + "\n"


def upgrade_schema_file() -> str:
    """Return qwenperf/schema/upgrade.v1.json."""
    return json.dumps(upgrade_schema(), indent=2) + "\n"


def commands_page() -> str:
    """Return docs/cli.md: the help of every command, as people see it at 80 columns."""
    parts = ["# Commands\n\nMade from the commands' own help by `tools/generate_docs.py`.\n"]
    for path, one in _commands(("qwenperf",), command):
        # As the commands themselves are started: click keeps the help option of whoever asks first.
        helps = command.context_settings["help_option_names"]
        name = " ".join(path)
        context = click.Context(one, info_name=name, help_option_names=helps, terminal_width=80, max_content_width=80)
        parts.append(f"## {' '.join(path)}\n\n```text\n{one.get_help(context)}\n```\n")
    return "\n".join(parts)


def _commands(path: tuple[str, ...], one: click.Command) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, one
    if isinstance(one, click.Group):
        context = click.Context(one)
        for name in one.list_commands(context):
            inner = one.get_command(context, name)
            if inner is not None:
                yield from _commands((*path, name), inner)


FILES: dict[str, Callable[[], str]] = {
    "docs/metrics.md": metrics_page,
    "docs/cli.md": commands_page,
    "docs/ladder.md": ladder_page,
    "qwenperf/schema/run.v1.json": schema_file,
    "qwenperf/schema/comparison.v1.json": comparison_schema_file,
    "qwenperf/schema/aot.v1.json": aot_schema_file,
    "qwenperf/schema/bisection.v1.json": bisection_schema_file,
    "qwenperf/schema/regressions.v1.json": regressions_schema_file,
    "qwenperf/schema/upgrade.v1.json": upgrade_schema_file,
}


def main(words: Sequence[str] | None = None) -> int:
    """Write or check every generated file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 when a file is out of date")
    parser.add_argument("files", nargs="*", metavar="FILE", help=f"only these of {', '.join(FILES)}")
    options = parser.parse_args(words)
    if unknown := set(options.files) - set(FILES):
        parser.error(f"not generated here: {', '.join(sorted(unknown))}")
    check = options.check
    stale = [name for name in options.files or FILES if not _is_current(ROOT / name, FILES[name]())]
    for name in stale:
        print(f"{name} is out of date: run python tools/generate_docs.py" if check else f"wrote {name}")
        if not check:
            (ROOT / name).write_text(FILES[name](), encoding="utf-8")
    return int(check and bool(stale))


def _is_current(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main())
