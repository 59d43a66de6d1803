"""What ``qwenperf bisect`` searches for, from its arguments: a metric of a case, named by its id or by flags."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qwenperf.cli.files import is_there
from qwenperf.cli.select import AdHoc
from qwenperf.errors import QwenperfError, UnknownNameError, UsageError
from qwenperf.schema.metrics import REGISTRY, Kind, lookup
from qwenperf.workloads.engine import parse_engine
from qwenperf.workloads.factory import is_factory
from qwenperf.workloads.models import PRESETS
from qwenperf.workloads.suites import SUITES

_LABEL = re.compile(r"b(?P<batch>\d{1,12})-p(?P<prompt>\d{1,12})-n(?P<new>\d{1,12})-(?P<dtype>\w+)")
_SIZES = ("prompt_length", "new_tokens", "batch", "dtype")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is searched for: a metric of a case.

    ``arguments`` of ``qwenperf run`` choose the case; ``flags`` are the same as data where it is of no suite. ``case``
    is its id in a commit's run, which is told a model's folder by its whole path, and ``told`` that of other commands.
    """

    case: str
    told: str
    metric: str
    engine: str
    arguments: tuple[str, ...]
    flags: AdHoc | None = None


def read_asked(words: Sequence[str], flags: Mapping[str, Any]) -> Asked:
    """Return what ``[CASE] METRIC`` and the flags ask for, before any commit is looked at.

    Raises:
      UnknownNameError: no such metric, suite or case; offers the nearest.
      UsageError: a timed metric that may be 0 or below; no case, or two.
    """
    if len(words) > 2:
        raise UsageError(
            f"{len(words)} names, {' '.join(words)!r:.200}: a case and a metric are two.",
            advice="Write the case's id before the metric.",
        )
    metric = _checked(words[-1])
    engines = () if flags["engine"] is None else (flags["engine"],)
    ad_hoc = AdHoc(model=flags["model"], engines=engines, **{name: flags[name] for name in _SIZES})
    if len(words) == 2 and ad_hoc.given:
        raise UsageError(f"{words[0]!r:.200} is a case, and --model, --engine and sizes name another one.")
    if len(words) == 2:
        return _of_id(words[0], metric, flags["suite"])
    if not ad_hoc.given:
        raise UsageError(
            f"no case is named of which {metric} is searched.",
            advice="Write its id before the metric, or --engine mypackage.module:make.",
        )
    if flags["suite"] is not None:
        raise UsageError("--suite and the flags of an ad-hoc case (--model, --engine, ...) exclude each other.")
    return _of_id(ad_hoc.cases()[0].id, metric, None)


def by_pairs(asked: Asked) -> bool:
    """Say whether pairs of processes time the metric; whole runs do otherwise."""
    from qwenperf.lab.bisect_compare import BY_REQUEST

    return asked.metric in BY_REQUEST and not _needs_its_own_process(asked.engine)


def _checked(metric: str) -> str:
    """Return a metric that can be searched by."""
    from qwenperf.lab.bisect_compare import NO_RATIO

    if lookup(metric).kind is Kind.TIMED and metric in NO_RATIO:
        known = ", ".join(name for name, one in REGISTRY.items() if one.kind is Kind.TIMED and name not in NO_RATIO)
        raise UsageError(
            f"{metric} may be 0 or below: it has no relative change to search by.", advice=f"Take one of {known}."
        )
    return metric


def _of_id(case: str, metric: str, suite: str | None) -> Asked:
    parts = case.rsplit("/", 2)
    label = _LABEL.fullmatch(parts[-1])
    if len(parts) < 3 or label is None:
        raise UnknownNameError("case", case, dict.fromkeys(one.id for each in SUITES.values() for one in each.cases))
    engine = parts[1]
    if suite is not None:
        return Asked(case=case, told=case, arguments=("--suite", suite, "--filter", case), engine=engine, metric=metric)
    # Each commit runs in a folder of its own.
    model = str(Path(parts[0]).resolve()) if parts[0] not in PRESETS and is_there(Path(parts[0])) else parts[0]
    sizes = ("--batch", label["batch"], "--prompt-length", label["prompt"], "--new-tokens", label["new"])
    return Asked(
        case="/".join((model, *parts[1:])),
        told=case,
        metric=metric,
        engine=engine,
        arguments=("--model", model, "--engine", engine, *sizes, "--dtype", label["dtype"]),
        flags=AdHoc(
            model=model,
            engines=(engine,),
            prompt_length=int(label["prompt"]),
            new_tokens=int(label["new"]),
            batch=int(label["batch"]),
            dtype=label["dtype"],
        ),
    )


def _needs_its_own_process(engine: str) -> bool:
    """Say whether an engine has settings that processes of pairs do not have."""
    from qwenperf.lab.process import needs_first_process

    if is_factory(engine):
        return False
    with suppress(QwenperfError):  # one that only other commits know
        settings = parse_engine(engine)
        return needs_first_process(settings) or settings.xla_flags != "none"
    return False
