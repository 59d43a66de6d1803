"""``qwenperf aot diff BASE HEAD``: what the compiler makes of two revisions, two versions or two saved records."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qwenperf.cli.aot import DEFAULT_ENGINE, joined_targets
from qwenperf.cli.compare_cases import quarantine
from qwenperf.cli.compare_own import with_engines_beside, with_own_engines
from qwenperf.cli.compare_sides import package_root
from qwenperf.cli.config import find_project
from qwenperf.cli.engine_path import engine_found_here, engine_here_option
from qwenperf.cli.files import is_there, named_path, read_text, reason
from qwenperf.cli.interrupts import interrupts
from qwenperf.cli.output import debug_option, json_option, write, write_json
from qwenperf.cli.select import check_engine
from qwenperf.cli.streams import say, verdict_survives
from qwenperf.errors import OutputError, RecordError, UsageError
from qwenperf.gate.excuses import TRAILER, Excuse, from_table, from_trailers
from qwenperf.workloads.factory import is_factory
from qwenperf.workloads.models import PRESETS

if TYPE_CHECKING:
    from qwenperf.lab.sides import Side
    from qwenperf.schema.analysis import AotRecord

RECORD = "aot.json"
_PASSED_ON = ("suite", "model", "prompt_length", "new_tokens", "batch", "dtype", "jobs")
_SEVERAL = ("engine", "target", "filter")


@click.command("diff")
@click.argument("base", required=False)
@click.argument("head", required=False)
@click.option("--engines", nargs=2, metavar="BASE HEAD", help="Compare two engines in the same code instead.")
@click.option("--jax", nargs=2, metavar="BASE HEAD", help="Compare two versions of JAX under the same code instead.")
@click.option("--libtpu", nargs=2, metavar="BASE HEAD", help="Compare two versions of the TPU's compiler instead.")
@click.option("--model", help="As in `qwenperf aot`.")
@click.option("--engine", multiple=True, help="As in `qwenperf aot`, repeatable; one of yours is each side's own.")
@engine_here_option
@click.option("--target", multiple=True, metavar="NAME,...", help="As in `qwenperf aot`.")
@click.option("--prompt-length", type=int, metavar="N", help="Tokens of the prompt.")
@click.option("--new-tokens", type=int, metavar="N", help="Tokens to generate.")
@click.option("--batch", type=int, metavar="N", help="Prompts at once.")
@click.option("--dtype", help="Of weights and activations.")
@click.option("--suite", help="As in `qwenperf aot`.")
@click.option("--filter", multiple=True, metavar="GLOB", help="As in `qwenperf aot`.")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Processes at a time.")
@click.option("--check-repeat", is_flag=True, help="As in `qwenperf aot`: both sides have to know it.")
@click.option("--out", type=named_path, metavar="DIR", help="Keep the records of both sides in this folder.")
@json_option
@debug_option
def command(base: str | None, head: str | None, as_json: bool, **flags: Any) -> int:  # noqa: FBT001
    """Say what HEAD (default: the working tree) changed in the compiled programs of BASE.

    BASE and HEAD are two revisions of this repository (default: where it was forked from the main branch), or two
    saved records (aot.json, or the folder that holds it). With --jax or --libtpu the same code is compiled by two
    versions, each in an environment of its own. The other flags choose programs and targets, as in `qwenperf aot`.
    In a repository of your own, name the engine in it: --engine package.module:make.
    """
    from qwenperf.gate.aot import exit_code
    from qwenperf.gate.aot_difference import compare_records
    from qwenperf.gate.excuses import excuse
    from qwenperf.report.aot_difference import difference_report
    from qwenperf.schema.codec import to_json

    project = find_project(Path.cwd())
    excuses = from_table(quarantine(project.table.get("quarantine", {})))
    with interrupts():
        (old, new), labels, accepted = _records(base, head, flags)
    if flags["out"]:
        _keep(flags["out"], old, new)
    judged = excuse(compare_records(old, new), (*excuses, *accepted), datetime.now(UTC).date())
    with verdict_survives():
        if as_json:
            write_json(to_json(judged))
        else:
            write(difference_report(old, judged, labels))
    return exit_code(judged)


def _records(
    base: str | None, head: str | None, flags: Mapping[str, Any]
) -> tuple[tuple[AotRecord, AotRecord], tuple[str, str], tuple[Excuse, ...]]:
    """Return the records of both sides, their labels, and what the commits between them accept."""
    saved = [name for name in (base, head) if name and _is_record(name)]
    if len(saved) == 2:
        _refuse_flags("two saved records", flags, ("engines", "jax", "libtpu", "check_repeat", *_PASSED_ON, *_SEVERAL))
        return (_read(saved[0]), _read(saved[1])), (saved[0], saved[1]), ()
    if saved:
        other = next((name for name in (base, head) if name and name not in saved), "")
        told = f", and {other!r} is none: no such file, and no folder with {RECORD}" if other else ""
        raise UsageError(f"{saved[0]} is a saved record{told}. Give two of them, or two revisions.")
    _check(flags)
    from qwenperf.lab.aot_sides import compile_side, with_engine_of, with_model_of

    (first, second), excuses = _sides(base, head, flags)
    # Told, because an older base may have another default.
    chosen = flags["engine"] or flags["engines"] or flags["suite"]
    arguments = [*_arguments(flags), *(() if chosen else ("--engine", DEFAULT_ENGINE))]
    found, model = [], flags["model"]
    with engine_found_here(_of_one_code(flags), here=flags["engine_here"]):
        for side in (first, second):
            say(f"compiling {side.name}: {side.label}")
            found.append(compile_side(side, arguments))
    if model is not None:
        found = [with_model_of(record, model, _elsewhere(model)) for record in found]
    return (with_engine_of(second, found[0], first), found[1]), (first.label, second.label), excuses


def _of_one_code(flags: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the engines that may lie in the working folder: of two revisions each has its own."""
    if flags["engines"]:
        return tuple(flags["engines"])
    return tuple(flags["engine"]) if flags["jax"] or flags["libtpu"] else ()


def _check(flags: Mapping[str, Any]) -> None:
    """Refuse, before anything is compiled, what our own code knows to be no target, no engine, or none with programs.

    Raises:
      UsageError: names it.
      ConfigError: an engine that has no program for a target before it runs.
    """
    from qwenperf.aot.engines import settings_for
    from qwenperf.aot.topology import resolve_all

    targets = resolve_all(joined_targets(flags["target"]))
    for engine in flags["engines"] or ():
        check_engine(engine)
        for target in () if is_factory(engine) else targets:
            settings_for(engine, target.platform)


def _sides(
    base: str | None, head: str | None, flags: Mapping[str, Any]
) -> tuple[tuple[Side, Side], tuple[Excuse, ...]]:
    from qwenperf.lab.revisions import WORKING_TREE, Repository, own_code
    from qwenperf.lab.sides import Side

    versions = {name: flags[name] for name in ("jax", "libtpu") if flags[name]}
    if sum(map(bool, (base, versions, flags["engines"]))) > 1:
        raise UsageError("revisions, --engines and --jax or --libtpu exclude each other.")
    if flags["engines"] and flags["engine"]:
        raise UsageError("--engines and --engine exclude each other.")
    if flags["engines"]:
        here = Side(name="base", label="", kind="same", root=own_code(package_root()), python=sys.executable)
        first, second = (replace(here, engine=engine, label=engine) for engine in flags["engines"])
        return (first, replace(second, name="head")), ()
    if versions:
        return _of_versions(versions, flags), ()
    repository = Repository.find(Path.cwd())
    start = base or repository.merge_base()
    end = head or WORKING_TREE
    accepted: tuple[Excuse, ...] = ()
    if start != WORKING_TREE:
        accepted = from_trailers(repository.trailers(start, TRAILER, end))
    sides = (repository.side("base", start), repository.side("head", end))
    asked = {"engines": None, "jax": None, "aa": False, "suite": flags["suite"]}
    return with_engines_beside(with_own_engines(sides, flags["engine"], asked), flags["engine"]), accepted


def _of_versions(versions: Mapping[str, tuple[str, str]], flags: Mapping[str, Any]) -> tuple[Side, Side]:
    """Return this code under two versions; neither environment is made, which takes long, before both exist."""
    from qwenperf.aot.topology import resolve_all
    from qwenperf.lab.version_sides import Version, code_alone, find

    old, new = (Version(**{package: pair[index] for package, pair in versions.items()}) for index in (0, 1))
    told = "; ".join(f"{name} {' and '.join(pair)}" for name, pair in versions.items())
    say(f"making or finding environments with {told}")
    root = package_root()
    tpu = any(target.platform == "tpu" for target in resolve_all(joined_targets(flags["target"])))
    base, head = (find(root, version, tpu=tpu) for version in (old, new))
    code = code_alone(root)
    return base.side("base", code), head.side("head", code)


def _arguments(flags: Mapping[str, Any]) -> Iterator[str]:
    """Yield the flags of ``qwenperf aot`` that choose programs and targets."""
    for name in _PASSED_ON:
        if flags[name] is not None:
            value = str(flags[name])
            yield from (f"--{name.replace('_', '-')}", _elsewhere(value) if name == "model" else value)
    for name in _SEVERAL:
        for value in flags[name]:
            yield from (f"--{name}", value)
    if flags["check_repeat"]:
        yield "--check-repeat"


def _elsewhere(model: str) -> str:
    """Return what another folder calls a model: each side runs in one of its own."""
    return str(Path(model).resolve()) if model not in PRESETS and is_there(Path(model)) else model


def _refuse_flags(what: str, flags: Mapping[str, Any], names: tuple[str, ...]) -> None:
    given = [f"--{name.replace('_', '-')}" for name in names if flags[name] not in (None, (), False)]
    if given:
        raise UsageError(f"{given[0]} has no meaning for {what}: nothing is compiled.")


def _is_record(name: str) -> bool:
    path = Path(name)
    return is_there(path) and (path.is_file() or is_there(path / RECORD))


def _read(name: str) -> AotRecord:
    from qwenperf.schema.codec import aot_loads

    place = Path(name)
    file = place / RECORD if place.is_dir() else place
    try:
        return aot_loads(read_text(file), str(file))
    except (OSError, ValueError) as error:
        raise RecordError(f"cannot read {file}: {reason(error)}.") from error


def _keep(folder: Path, base: AotRecord, head: AotRecord) -> None:
    from qwenperf.schema.codec import dumps

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, record in (("base", base), ("head", head)):
            (folder / f"{name}.{RECORD}").write_text(dumps(record), encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot write to {folder}: {error.strerror or error}.") from error
