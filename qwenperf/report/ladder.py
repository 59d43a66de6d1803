"""What each setting buys on this machine, alone and together: a table a setting. Pure: records in, rich out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from qwenperf import units
from qwenperf.gate.limits import Reading, reading
from qwenperf.report.cells import tokens
from qwenperf.report.speedup import value
from qwenperf.schema.records import CaseRecord, Status
from qwenperf.workloads.approximate import LOGIT_ERROR
from qwenperf.workloads.engine import RUNGS
from qwenperf.workloads.ladder import PLATFORMS, Pair, Step, best_engine, ladder_steps
from qwenperf.workloads.setting import SETTINGS, Value

_DECODE = "decode_tokens_per_s"
_SEEN_IN: Mapping[str, str] = {
    "prefill_chunk": "prefill_tokens_per_s",
    "bucket": "prefill_tokens_per_s",
    "reuse": "request_tokens_per_s",
    "start": "cold_tokens_per_s",
    "compile_cache": "cold_tokens_per_s",
}
"""The rate in which a setting shows, where that is not decoding."""

_WORDS = {
    _DECODE: "decode",
    "prefill_tokens_per_s": "prefill",
    "request_tokens_per_s": "whole requests",
    "cold_tokens_per_s": "the first request, compiles counted",
}

_LEGEND = """alone: rate over that of cached. together: over that of the best engine, with this one value changed.
range: as wide as both readings allow. size: weights and cache; temp: scratch of the decode step.
tokens: as uncached decoding, or the largest error of a logit, as a share of the largest logit."""


def ladder_report(suite: str, cases: Sequence[CaseRecord]) -> Iterator[RenderableType]:
    """Yield the tables of all settings for cases of one model and workload."""
    found = {str(case.spec.get("engine")): case for case in cases}
    platform = PLATFORMS[suite]
    told = _bases(found, platform)
    if told:
        yield Text(told)
        yield Text()
    known = [step for step in ladder_steps(platform) if step.alone.engine in found]
    yield from _lacking(dict.fromkeys(step.alone.base for step in known if step.alone.base not in found))
    for name, steps in groupby(known, key=lambda step: step.setting):
        yield from _setting(name, [_Row(step=step, cases=found) for step in steps], found)
    yield Text(_LEGEND, style="dim")
    yield from (Text(line) for line in _fastest([_Row(step=step, cases=found) for step in known], platform))


def _bases(found: Mapping[str, CaseRecord], platform: str) -> str:
    best = best_engine(platform)
    speeds = {name: value(found[name], _DECODE) for name in ("cached", best) if name in found}
    told = [f"{name}: {units.significant(speed)} tokens/s" for name, speed in speeds.items() if speed is not None]
    if best == "cached":
        told.append(f"best-{platform} is cached: no other value was measured to be faster, so alone is together")
    return ". ".join(told)


def _lacking(bases: Iterable[str]) -> Iterator[Text]:
    for base in bases:
        yield Text(f"no `{base}` in this run to compare with: add --filter {base}", style="yellow")


@dataclass(frozen=True, kw_only=True)
class _Row:
    """One value of one setting, and the cases of the run by engine."""

    step: Step
    cases: Mapping[str, CaseRecord]

    @property
    def case(self) -> CaseRecord:
        return self.cases[self.step.alone.engine]

    @property
    def name(self) -> str:
        return _text(self.step.value)

    def ratio(self, pair: Pair | None) -> Reading | None:
        """Return the rate of the engine over its base's; ``None`` where one of them has none."""
        cases = [] if pair is None else [self.cases.get(engine) for engine in (pair.engine, pair.base)]
        metric = _SEEN_IN.get(self.step.setting, _DECODE)
        rates = [case.metrics.get(metric) for case in cases if case is not None and case.status is Status.MEASURED]
        if len(rates) != 2:
            return None
        first, second = (None if one is None else reading(one) for one in rates)
        return first.over(second) if first and second and second.low > 0 else None

    def cells(self) -> Iterator[str]:
        alone, together = self.ratio(self.step.alone), self.ratio(self.step.together)
        yield self.name
        yield _times(alone)
        yield _range(alone)
        yield _times(together)
        yield from _sizes(self.case)


def _setting(name: str, rows: list[_Row], found: Mapping[str, CaseRecord]) -> Iterator[RenderableType]:
    setting = SETTINGS[name]
    rate = _WORDS[_SEEN_IN.get(name, _DECODE)]
    yield Text.assemble((f"{name}", "bold"), f" ({rate}): {setting.about}")
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("value", no_wrap=True)
    for column in ("alone", "range", "together", "size", "temp", "compile", "tokens"):
        table.add_column(column, justify="right", no_wrap=True)
    if "cached" in found:
        table.add_row(_text(getattr(RUNGS["cached"], name)), "base", "", "", *_sizes(found["cached"]))
    for row in rows:
        table.add_row(*row.cells())
    yield table
    yield from (Text(line) for line in _notes(rows, found))
    yield Text()


def _notes(rows: list[_Row], found: Mapping[str, CaseRecord]) -> Iterator[str]:
    """Yield which values are one and the same program, and which stand beside another engine than ``cached``."""
    seen: dict[str, str] = {}
    for row in rows:
        base = row.step.alone.base
        if base != "cached":
            yield f"{row.name}: beside {base}."
        known = {_fingerprint(found.get(base)): _text(getattr(RUNGS["cached"], row.step.setting)), **seen}
        own = _fingerprint(row.case)
        if own and own in known:
            yield f"{row.name}: the same decode step as {known[own]}."
        elif own:
            seen[own] = row.name


def _fingerprint(case: CaseRecord | None) -> str:
    program = case.evidence.program if case else None
    return program.fingerprint if program else ""


def _fastest(rows: list[_Row], platform: str) -> Iterator[str]:
    """Yield which exact values are faster than ``cached`` here, beyond both ranges."""
    faster = []
    for row in rows:
        ratio, name = row.ratio(row.step.alone), row.step.setting
        exact = row.step.value not in LOGIT_ERROR.get(name, {}) and name not in ("window", "hooks")
        if exact and ratio is not None and ratio.least > 1:
            faster.append(f"{name}={row.name} ({_times(ratio)})")
    yield f"faster than cached here, and exact: {', '.join(faster) or 'none, beyond the ranges'}."
    yield f"Taken by default: best-{platform}, see qwenperf/workloads/defaults.py."


def _sizes(case: CaseRecord) -> Iterator[str]:
    parts = [value(case, name) for name in ("weight_bytes", "kv_cache_allocated_bytes")]
    size = None if parts[0] is None else parts[0] + (parts[1] or 0)
    yield units.quantity(size, "bytes")
    yield units.quantity(value(case, "temp_bytes"), "bytes")
    yield units.quantity(value(case, "compile_s"), "s")
    yield tokens(case).removeprefix("off ") if case.status is Status.MEASURED else case.status.value.replace("_", " ")


def _times(ratio: Reading | None) -> str:
    return "-" if ratio is None else f"{units.significant(ratio.value)}x"


def _range(ratio: Reading | None) -> str:
    if ratio is None or ratio.low == ratio.high:
        return "-"
    return f"{units.significant(ratio.low, 2)}-{units.significant(ratio.high, 2)}"


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
