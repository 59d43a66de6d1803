"""``qwenperf upgrade --jax 0.10.2,0.12.0``: what other versions of JAX do to the same code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qwenperf.cli.bisect_progress import BisectProgress
from qwenperf.cli.compare_cases import case_arguments, looks, quarantine
from qwenperf.cli.compare_progress import PairProgress
from qwenperf.cli.compare_sides import package_root
from qwenperf.cli.config import find_project
from qwenperf.cli.files import is_there, named_path
from qwenperf.cli.interrupts import interrupts
from qwenperf.cli.output import debug_option, json_option, write, write_json
from qwenperf.cli.select import check_engine, check_model
from qwenperf.cli.streams import say, verdict_survives
from qwenperf.errors import UsageError
from qwenperf.gate.excuses import from_table
from qwenperf.settings import INCONCLUSIVE
from qwenperf.workloads.models import PRESETS

if TYPE_CHECKING:
    from qwenperf.lab.upgrade_compare import UpgradeOptions
    from qwenperf.lab.version_sides import Version

_ONE_OR_MORE, _ABOVE_0 = click.IntRange(min=1), click.FloatRange(min=0, min_open=True)
_LEAST_RUNS = 6
"""Pairs of runs below which nothing can be judged; see ``stats.spending``."""


@click.command("upgrade")
@click.option(
    "--jax", "jaxes", metavar="A,B,...", help="Versions of JAX; the first is what the others are compared with."
)
@click.option(
    "--libtpu",
    "libtpus",
    metavar="A,B,...",
    help="Versions of the TPU's compiler: one for each JAX, or for the one JAX.",
)
@click.option("--python", metavar="PATH", help="The Python for every environment (default: one that each JAX takes).")
@click.option("--suite", help="Measure the cases of a suite (default: the cached engine on a small model).")
@click.option(
    "--filter", "filters", metavar="GLOB", multiple=True, help="Only cases whose id, model or engine matches."
)
@click.option("--model", help="Measure this model with the flags below, as in `qwenperf run`.")
@click.option("--engine", "case_engines", multiple=True, help="Engine of the case, repeatable.")
@click.option("--prompt-length", type=int, metavar="N", help="Tokens of the prompt.")
@click.option("--new-tokens", type=int, metavar="N", help="Tokens to generate.")
@click.option("--batch", type=int, metavar="N", help="Prompts at once.")
@click.option("--dtype", help="Of weights and activations.")
@click.option(
    "--target", "targets", multiple=True, metavar="NAME,...", help="Chips to compile for, as in `qwenperf aot`."
)
@click.option("--aot/--no-aot", default=True, help="Compile for chips that are not here (default: yes).")
@click.option(
    "--margin",
    type=_ABOVE_0,
    default=0.03,
    show_default=True,
    help="Relative slowdown, or more memory, that is accepted.",
)
@click.option("--compile-margin", type=_ABOVE_0, default=0.1, show_default=True, help="The same of compile seconds.")
@click.option(
    "--runs",
    type=click.IntRange(min=0),
    metavar="N",
    help="Pairs of whole runs a version (default: as many as decide); 0 judges none.",
)
@click.option(
    "--looks", default="6,12,20", show_default=True, help="Pairs of processes after which a decision is tried."
)
@click.option("--rounds", type=_ONE_OR_MORE, default=6, show_default=True, help="Rounds of four trials in a pair.")
@click.option("--trial", "trial_s", type=_ABOVE_0, default=0.1, show_default=True, metavar="S", help="Seconds a trial.")
@click.option("--cores", type=_ONE_OR_MORE, metavar="N", help="Pin the processes of pairs to the first N cores.")
@click.option("--out", type=named_path, metavar="DIR", help="Where the folder of the upgrade goes (default: profiles).")
@click.option("--inconclusive", help=f"What noise does to the exit code: {' or '.join(INCONCLUSIVE)} (default: warn).")
@json_option
@debug_option
def command(as_json: bool, **flags: Any) -> int:  # noqa: FBT001
    """Run the same code under several versions of JAX and say what each changes.

    Compile seconds, memory, times, tokens, compiled programs. Each version has an environment of its own, made once,
    with a Python that it takes. A version that cannot be had is told; the others are measured. What is worse than under
    the first version ends with exit code 1.
    """
    from qwenperf.lab.upgrade_record import exit_code
    from qwenperf.report.upgrade import upgrade_report
    from qwenperf.schema.upgrade import upgrade_to_json

    versions = _versions(flags["jaxes"], flags["libtpus"])
    project = find_project(Path.cwd())
    settings = project.settings({"inconclusive": flags["inconclusive"]})
    options = _options(flags, settings.inconclusive, from_table(quarantine(project.table.get("quarantine", {}))))
    with interrupts():
        record, file = _measure(versions, options, flags["out"] or Path(settings.out), flags)
    with verdict_survives():
        if as_json:
            write_json(upgrade_to_json(record))
        else:
            write(upgrade_report(record, str(file)))
    return exit_code(record)


def _versions(jaxes: str | None, libtpus: str | None) -> tuple[Version, ...]:
    """Return the versions that two lists name together.

    Raises:
      UsageError: fewer than two, lists of different lengths, one twice, or what is no version.
    """
    from qwenperf.lab.version_sides import Version

    old, new = ([part.strip() for part in (text or "").split(",") if part.strip()] for text in (jaxes, libtpus))
    count = max(len(old), len(new))
    if count < 2:
        raise UsageError(
            "an upgrade compares two versions or more.", advice="Write --jax 0.10.2,0.12.0 or --libtpu A,B."
        )
    if min(len(old), len(new)) not in {0, 1, count}:
        raise UsageError(
            f"--jax names {len(old)} versions and --libtpu {len(new)}.", advice="Give one for each, or one for all."
        )
    versions = tuple(Version(jax=_one_of(old, number), libtpu=_one_of(new, number)) for number in range(count))
    labels = [version.label for version in versions]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice:
        raise UsageError(f"{twice} is named twice.")
    return versions


def _one_of(given: Sequence[str], number: int) -> str | None:
    """Return the version that goes with others of this ``number``: the only one goes with all."""
    return None if not given else given[0] if len(given) == 1 else given[number]


def _options(flags: Mapping[str, Any], inconclusive: str, excuses: Any) -> UpgradeOptions:
    """Return how to measure, checked before any environment is made."""
    from qwenperf.aot.topology import resolve_all
    from qwenperf.lab.pairs import PairOptions
    from qwenperf.lab.upgrade_compare import UpgradeOptions
    from qwenperf.stats.spending import Plan

    if flags["targets"] and not flags["aot"]:
        raise UsageError("--target and --no-aot exclude each other.")
    if flags["targets"]:
        resolve_all(",".join(flags["targets"]))
    model = None if flags["model"] is None else _whole_path(check_model(flags["model"]))
    for engine in flags["case_engines"]:
        check_engine(engine)
    if flags["runs"] and flags["runs"] < _LEAST_RUNS:
        raise UsageError(
            f"--runs {flags['runs']}: fewer than {_LEAST_RUNS} pairs decide nothing.", advice="0 judges none."
        )
    arguments = case_arguments({**flags, "model": model, "rerun_failed": None})
    return UpgradeOptions(
        arguments=arguments, plan=Plan(looks=looks(flags["looks"]), margin=flags["margin"]),
        pairs=PairOptions(rounds=flags["rounds"], trial_s=flags["trial_s"], cores=flags["cores"]),
        runs=flags["runs"], compile_margin=flags["compile_margin"], inconclusive=inconclusive, excuses=excuses,
        aot=[*arguments, *_target_arguments(flags)] if flags["aot"] else None,
    )  # fmt: skip


def _whole_path(model: str) -> str:
    """Return the path of a model on disk as a whole one: each version runs in a folder of its own."""
    return str(Path(model).resolve()) if model not in PRESETS and is_there(Path(model)) else model


def _target_arguments(flags: Mapping[str, Any]) -> Iterator[str]:
    for target in flags["targets"]:
        yield from ("--target", target)


def _measure(
    versions: tuple[Version, ...], options: UpgradeOptions, out: Path, flags: Mapping[str, Any]
) -> tuple[Any, Path]:
    from qwenperf.lab.commit import describe_commit
    from qwenperf.lab.upgrade import FILE, Upgrade, create_upgrade_folder
    from qwenperf.lab.version_sides import code_alone, version_side

    root = package_root()
    code = code_alone(root)
    folder = create_upgrade_folder(out)
    upgrade = Upgrade(
        versions=versions, options=options, folder=folder, say=say, commit=describe_commit(root),
        make=lambda version: version_side("base", code, version, tpu=flags["aot"], python=flags["python"]),
        pair_listener=lambda: PairProgress(say), run_listener=BisectProgress(say),
    )  # fmt: skip
    return upgrade.run(), folder / FILE
