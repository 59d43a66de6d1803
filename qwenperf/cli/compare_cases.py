"""From the flags of ``qwenperf compare`` to the cases, margins and looks of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qwenperf.errors import ConfigError, EnvironmentUnfitError, UnknownNameError, UsageError

if TYPE_CHECKING:
    from qwenperf.schema.records import Finding, Verdict
    from qwenperf.workloads.case import Case

CHOSEN = "cases"
"""What a comparison's plan calls the flags that chose its cases."""

_DEFAULT_CASES = ("--model", "4x128", "--engine", "cached", "--prompt-length", "16", "--new-tokens", "64")


def case_arguments(flags: Mapping[str, Any]) -> list[str]:
    """Return the flags of `qwenperf run` that choose the cases."""
    return [*chosen_arguments(flags), *_filters(flags)]


def chosen_arguments(flags: Mapping[str, Any]) -> list[str]:
    """Return the flags of `qwenperf run` that choose among which cases filters are applied.

    Where none is given, `--rerun-failed` chooses as the comparison that it names did.
    """
    names = ("suite", "model", "prompt_length", "new_tokens", "batch", "dtype")
    given = [(f"--{name.replace('_', '-')}", flags[name]) for name in names if flags[name] is not None]
    given += [("--engine", engine) for engine in flags["case_engines"]]
    return [str(part) for pair in given for part in pair] or _chosen_before(flags) or list(_DEFAULT_CASES)


def chosen_engines(flags: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the engines that the flags name, or those of an earlier comparison or by default; not those of a suite."""
    return tuple(value for name, value in pairwise(chosen_arguments(flags)) if name == "--engine")


def own_engines(flags: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names among which engines of somebody's own may be that lie in the working folder.

    Of two revisions there are none: each side's engine is the one in its own tree.
    """
    one_code = flags["engines"] or flags["aa"] or flags["jax"]
    return (*(flags["engines"] or ()), *chosen_arguments(flags)) if one_code else ()


def lost_weights(cases: Sequence[Case]) -> tuple[Finding, ...]:
    """Return a finding where a case has real weights that cannot be had: both sides then run on seeded ones."""
    from qwenperf.models.weights import fetch_weights, unavailable_finding
    from qwenperf.workloads.models import SMOLLM2

    if all(case.model != SMOLLM2 for case in cases):
        return ()
    try:
        fetch_weights()
    except EnvironmentUnfitError as error:
        return (unavailable_finding(error),)
    return ()


def _filters(flags: Mapping[str, Any]) -> list[str]:
    """Return the filters of `qwenperf run`; of an earlier comparison's cases those that did not pass and that match.

    Raises:
      UsageError: none of them is left.
    """
    names = list(flags["filters"])
    if flags["rerun_failed"] is not None:
        names = [name for name in _unsettled(flags["rerun_failed"]) if _matches(name, flags["filters"])]
        if not names:
            raise UsageError(f"no case that did not pass in {flags['rerun_failed']} matches {flags['filters']}.")
    return [part for name in names for part in ("--filter", name)]


def _matches(name: str, globs: Sequence[str]) -> bool:
    return not globs or any(fnmatchcase(part, glob) for glob in globs for part in (name, *name.split("/")))


def _chosen_before(flags: Mapping[str, Any]) -> list[str]:
    """Return what chose the cases of an earlier comparison; of one that does not say it, nothing."""
    if flags["rerun_failed"] is None:
        return []
    from qwenperf.cli.explain import read_comparison

    chosen = read_comparison(flags["rerun_failed"]).plan.get(CHOSEN)
    return [str(part) for part in chosen] if isinstance(chosen, Sequence) and not isinstance(chosen, str) else []


def _unsettled(place: Path) -> list[str]:
    """Return the cases of an earlier comparison that failed, that nobody could tell, or that were not measured.

    Raises:
      UsageError: there is none.
    """
    from qwenperf.cli.explain import read_comparison

    found = [case.id for case in read_comparison(place).cases if any(map(_is_open, case.verdicts))]
    if not found:
        raise UsageError(f"every case of {place} passed: nothing to measure again.")
    return found


def _is_open(verdict: Verdict) -> bool:
    from qwenperf.gate.comparison import INVENTORY
    from qwenperf.gate.speed import GATE as SPEED
    from qwenperf.schema.records import Outcome

    if verdict.outcome is Outcome.SKIPPED:
        return verdict.gate in {INVENTORY, SPEED}
    return verdict.outcome in {Outcome.FAIL, Outcome.INCONCLUSIVE}


def looks(text: str) -> tuple[int, ...]:
    """Read numbers of pairs, separated by commas."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ConfigError(f"--looks is {text!r}.", advice="Write numbers of pairs, such as 6,12,20.") from None


def named_values(texts: Sequence[str], form: str) -> dict[str, str]:
    """Read ``name=value`` from the right: an engine's own name may hold equal signs."""
    for text in texts:
        if "=" not in text:
            raise ConfigError(f"{text!r} is not {form}.")
    return dict(text.rsplit("=", 1) for text in texts)


def number(text: str) -> float:
    """Read a margin.

    Raises:
      ConfigError: no number above 0.
    """
    try:
        value = float(text)
    except ValueError:
        raise ConfigError(f"--margin-of: {text!r} is no number.") from None
    if not (math.isfinite(value) and value > 0):
        raise ConfigError(f"--margin-of: {text!r} is no relative slowdown above 0.")
    return value


def check_known(margins: Mapping[str, float], cases: Sequence[str]) -> None:
    """Refuse a margin of a case that is not compared."""
    for name in margins:
        if name not in cases:
            raise UnknownNameError("case", name, cases)


def quarantine(value: object) -> Mapping[str, Any]:
    """Return the table of quarantined cases of a project."""
    if not isinstance(value, Mapping):
        raise ConfigError("[tool.qwenperf.quarantine] is not a table.")
    return value


def refuse_flags_of_measuring(context: click.Context) -> None:
    """Refuse what has no meaning for two saved runs, which nothing is measured for.

    Raises:
      UsageError: such a flag was given; names it.
    """
    source = click.core.ParameterSource.COMMANDLINE
    given = [name for name in context.params if context.get_parameter_source(name) is source]
    for name in given:
        if name not in {"base", "head", "as_json", "debug", "inconclusive"}:
            raise UsageError(f"--{name.replace('_', '-')} says how to measure, and two saved runs are only read.")
