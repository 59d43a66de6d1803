"""From the flags of ``qwenperf compare`` to the cases, margins and looks of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import click

from qwenperf.errors import ConfigError, UnknownNameError, UsageError

_DEFAULT_CASES = ("--model", "4x128", "--engine", "cached", "--prompt-length", "16", "--new-tokens", "64")


def case_arguments(flags: Mapping[str, Any]) -> list[str]:
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

    open_outcomes = {Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.SKIPPED}
    cases = read_comparison(flags["rerun_failed"]).cases
    found = [case.id for case in cases if open_outcomes & {verdict.outcome for verdict in case.verdicts}]
    if not found:
        raise UsageError(f"every case of {flags['rerun_failed']} passed: nothing to measure again.")
    return found


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
