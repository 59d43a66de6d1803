"""``qwenperf compare BASE HEAD``: measure two trees of code, or two engines, together and say what changed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from qwenperf.cli.config import find_project
from qwenperf.cli.files import named_path
from qwenperf.cli.interrupts import interrupts
from qwenperf.cli.output import debug_option, json_option, write, write_json
from qwenperf.cli.streams import say, verdict_survives
from qwenperf.errors import ConfigError, UsageError
from qwenperf.gate.excuses import TRAILER, from_table, from_trailers
from qwenperf.settings import INCONCLUSIVE

if TYPE_CHECKING:
    from qwenperf.schema.comparison import ComparisonRecord
    from qwenperf.stats.spending import Plan

    Compare = Callable[[int | None], tuple[ComparisonRecord, Path]]

_DEFAULT_CASES = ("--model", "4x128", "--engine", "cached", "--prompt-length", "16", "--new-tokens", "64")


@click.command("compare")
@click.argument("base", required=False)
@click.argument("head", required=False, default=".")
@click.option("--engines", nargs=2, metavar="BASE HEAD", help="Compare two engines in the same code instead.")
@click.option("--aa", is_flag=True, help="Measure the same code on both sides: what this machine can tell apart.")
@click.option("--suite", help="Compare the cases of a suite (default: the cached engine on a small model).")
@click.option(
    "--filter", "filters", metavar="GLOB", multiple=True, help="Only cases whose id, model or engine matches."
)
@click.option("--model", help="Compare this model with the flags below, as in `qwenperf run`.")
@click.option("--engine", "case_engines", multiple=True, help="Engine of the case, repeatable.")
@click.option("--prompt-length", type=int, metavar="N", help="Tokens of the prompt.")
@click.option("--new-tokens", type=int, metavar="N", help="Tokens to generate.")
@click.option("--batch", type=int, metavar="N", help="Prompts at once.")
@click.option("--dtype", help="Of weights and activations.")
@click.option("--margin", type=float, default=0.03, show_default=True, help="Relative slowdown that is accepted.")
@click.option("--margin-of", metavar="CASE=X", multiple=True, help="Another margin for one case.")
@click.option("--looks", default="6,12,20", show_default=True, help="Pairs after which a decision is tried.")
@click.option("--rounds", type=int, default=6, show_default=True, help="Rounds of four trials in a pair.")
@click.option("--trial", "trial_s", type=float, default=0.1, show_default=True, metavar="S", help="Seconds a trial.")
@click.option("--cores", type=int, metavar="N", help="Pin both sides to the first N cores.")
@click.option("--all-pairs", is_flag=True, help="Measure all pairs, also when every case is decided.")
@click.option("--rerun-failed", type=named_path, metavar="COMPARISON", help="Only cases that did not pass in this one.")
@click.option("--alias", "aliases", metavar="OLD=NEW", multiple=True, help="A case that was renamed.")
@click.option(
    "--out", type=named_path, metavar="DIR", help="Where the folder of the comparison goes (default: profiles)."
)
@click.option("--inconclusive", help=f"What noise does to the exit code: {' or '.join(INCONCLUSIVE)} (default: warn).")
@json_option
@debug_option
def command(base: str | None, head: str, as_json: bool, **flags: Any) -> int:  # noqa: FBT001
    """Compare HEAD (default: the working tree) with BASE (default: where it was forked from the main branch).

    BASE and HEAD are revisions of this repository, or two saved runs. Both sides are measured on this machine in pairs
    of fresh processes, by turns.
    """
    project = find_project(Path.cwd())
    settings = project.settings({"inconclusive": flags["inconclusive"]})
    flags["quarantine"] = from_table(_table(project.table.get("quarantine", {})))
    out = flags["out"] or Path(settings.out)
    if base and (Path(base) / "run.json").is_file():
        return _saved(Path(base), Path(head), settings.inconclusive, as_json=as_json)
    sides = _sides(base, head, flags)
    return _measure(sides, out, settings.inconclusive, flags, as_json=as_json)


def _sides(base: str | None, head: str, flags: dict[str, Any]) -> tuple[Any, Any]:
    from qwenperf.lab.revisions import WORKING_TREE, Repository
    from qwenperf.lab.sides import Side

    if flags["engines"] or flags["aa"]:
        if base:
            raise UsageError("--engines and --aa compare one tree of code with itself: name no revision.")
        here = Side(name="base", label="this code", kind="same", root=package_root(), python=sys.executable)
        labels = flags["engines"] or (None, None)
        first, second = (replace(here, engine=_checked(engine), label=engine or here.label) for engine in labels)
        return first, replace(second, name="head")
    repository = Repository.find(Path.cwd())
    start = base or repository.merge_base()
    say(f"comparing with {base or 'where this was forked from the main branch'}")
    if head in {WORKING_TREE, "HEAD"} and start != WORKING_TREE:
        flags["quarantine"] += from_trailers(repository.trailers(start, TRAILER))
    return repository.side("base", start), repository.side("head", head or WORKING_TREE)


def _table(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError("[tool.qwenperf.quarantine] is not a table.")
    return value


def package_root() -> Path:
    """Return the folder that this package was imported from."""
    import qwenperf

    return Path(qwenperf.__file__).resolve().parent.parent


def _checked(engine: str | None) -> str | None:
    from qwenperf.cli.select import check_engine

    return None if engine is None else check_engine(engine)


def _measure(sides: tuple[Any, Any], out: Path, inconclusive: str, flags: Mapping[str, Any], *, as_json: bool) -> int:
    from qwenperf.cli.compare_progress import PairProgress
    from qwenperf.gate.comparison import exit_code
    from qwenperf.lab.compare import Comparison, create_folder, same_code
    from qwenperf.lab.inventory import take_inventory
    from qwenperf.lab.pairs import PairOptions
    from qwenperf.report.comparison import comparison_report
    from qwenperf.schema.codec import to_json
    from qwenperf.stats.spending import Plan

    base, head = sides
    plan = Plan(looks=_looks(flags["looks"]), margin=flags["margin"])
    inventory = take_inventory(base, head, _case_arguments(flags), _pairs(flags["aliases"], "--alias OLD=NEW"))
    margins = {name: _number(text) for name, text in _pairs(flags["margin_of"], "--margin-of CASE=X").items()}
    _check_known(margins, [case.id for case in inventory.shared])

    def compare(cores: int | None) -> tuple[ComparisonRecord, Path]:
        folder = create_folder(out)
        options = PairOptions(rounds=flags["rounds"], trial_s=flags["trial_s"], cores=cores)
        facts = {"plan": {"margins": margins, "aa": flags["aa"]}, "extra": {"same_code": same_code(base, head)}}
        comparison = Comparison(
            base=base, head=head, inventory=inventory, plan=plan, options=options, folder=folder,
            listener=PairProgress(say), stop_early=not (flags["all_pairs"] or flags["aa"]), facts=facts,
            excuses=flags["quarantine"],
        )  # fmt: skip
        with interrupts():
            return comparison.run(), folder / "comparison.json"

    record, file = compare(flags["cores"])
    lines = _sight_lines(record, plan, compare if flags["cores"] is None else None) if flags["aa"] else []
    with verdict_survives():
        if as_json:
            write_json(to_json(record))
        else:
            write((*comparison_report(record, str(file)), *(Text(line) for line in lines)))
    return exit_code(record, inconclusive)


def _sight_lines(record: ComparisonRecord, plan: Plan, compare: Compare | None) -> list[str]:
    """Say what this machine can tell apart; ``compare`` measures again, pinned to one core."""
    from qwenperf.gate.same import pinning_line, sights

    free = sights(record, plan)
    lines = [one.text() for one in free]
    if compare is None or record.interrupted:
        return lines
    say("the same again, pinned to one core")
    pinned, _ = compare(1)
    return [line for line in (*lines, pinning_line(free, sights(pinned, plan))) if line]


def _saved(base: Path, head: Path, inconclusive: str, *, as_json: bool) -> int:
    """Compare two saved runs by what does not depend on the clock."""
    from qwenperf.cli.saved_run import read_run
    from qwenperf.gate.comparison import exit_code
    from qwenperf.gate.saved import compare_saved
    from qwenperf.report.comparison import comparison_report
    from qwenperf.schema.codec import to_json

    record = compare_saved(*(read_run(place)[0] for place in (base, head)))
    with verdict_survives():
        if as_json:
            write_json(to_json(record))
        else:
            write(comparison_report(record, "none: both runs were saved before"))
    return exit_code(record, inconclusive)


def _case_arguments(flags: Mapping[str, Any]) -> list[str]:
    """Return the flags of `qwenperf run` that choose the cases."""
    names = ("suite", "model", "prompt_length", "new_tokens", "batch", "dtype")
    given = [(f"--{name.replace('_', '-')}", flags[name]) for name in names if flags[name] is not None]
    given += [("--engine", engine) for engine in flags["case_engines"]]
    chosen = [str(part) for pair in given for part in pair] or list(_DEFAULT_CASES)
    return [*chosen, *(part for glob in (*flags["filters"], *_unsettled(flags)) for part in ("--filter", glob))]


def _unsettled(flags: Mapping[str, Any]) -> list[str]:
    """Return the cases of an earlier comparison that failed or that nobody could tell."""
    if flags["rerun_failed"] is None:
        return []
    from qwenperf.cli.explain import read_comparison
    from qwenperf.schema.records import Outcome

    open_outcomes = {Outcome.FAIL, Outcome.INCONCLUSIVE}
    cases = read_comparison(flags["rerun_failed"]).cases
    found = [case.id for case in cases if open_outcomes & {verdict.outcome for verdict in case.verdicts}]
    if not found:
        raise UsageError(f"every case of {flags['rerun_failed']} passed: nothing to measure again.")
    return found


def _looks(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ConfigError(f"--looks is {text!r}.", advice="Write numbers of pairs, such as 6,12,20.") from None


def _pairs(texts: Sequence[str], form: str) -> dict[str, str]:
    """Read ``name=value`` from the right: an engine's own name may hold equal signs."""
    for text in texts:
        if "=" not in text:
            raise ConfigError(f"{text!r} is not {form}.")
    return dict(text.rsplit("=", 1) for text in texts)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"--margin-of: {text!r} is no number.") from None


def _check_known(margins: Mapping[str, float], cases: Sequence[str]) -> None:
    from qwenperf.errors import UnknownNameError

    for name in margins:
        if name not in cases:
            raise UnknownNameError("case", name, cases)
