"""Results of the serving benchmarks of vLLM (``vllm bench serve --save-result``) and SGLang (``bench_serving``), in.

Both write an object a benchmark, alone in its file or a line each. What was asked for becomes the case, each number
that was measured a metric under the tool's own name: its TTFT and TPOT are a client's over a network, ours are not.
``serving_write`` writes them back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from qwenperf.formats.foreign import Told, make_run, metric
from qwenperf.formats.place import Document, Place, parse_lines
from qwenperf.schema.metrics import Direction
from qwenperf.schema.records import CaseRecord, RunRecord

ADVICE = "Give a result that `vllm bench serve --save-result` or SGLang's bench_serving wrote."

_LOW, _HIGH, _NONE = Direction.LOWER, Direction.HIGHER, Direction.NONE

RULES: tuple[tuple[str, str, Direction], ...] = (
    (r"std_\w+_ms", "ms", _NONE),
    (r"[\w.]+_ms", "ms", _LOW),
    (r"request_(throughput|goodput)", "requests/s", _HIGH),
    (r"input_sequence_throughput", "sequences/s", _HIGH),
    (r"\w*throughput\w*|max_output_tokens_per_s", "tokens/s", _HIGH),
    (r"duration", "s", _NONE),
    (r"(\w+_)?failed", "requests", _LOW),
    (r"(\w+_)?completed", "requests", _HIGH),
    (r"max_concurrent_requests|concurrency", "requests", _NONE),
    (r"(spec_decode_acceptance|accept)_length", "tokens", _HIGH),
    (r"spec_decode_acceptance_rate", "%", _HIGH),
    (r"rtfx", "ratio", _HIGH),
    (r"\w*_tokens(_retokenized)?", "tokens", _NONE),
)
"""Unit and direction of a measured number by its name, the first that fits; other numbers are facts without a unit."""

_MEASURED = r"(mean|median|std|p\d[\d.]*)_\w+_ms|\w+_throughput|duration|completed|failed|total_\w+_tokens"
"""Names under which both tools write numbers, and nobody else's metadata."""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """What sets one tool's results apart. ``asked``: keys of what was asked for; ``identity``: those of a case."""

    name: str
    asked: frozenset[str]
    identity: tuple[tuple[str, str], ...]


_TRAFFIC = (("request_rate", "rate-"), ("max_concurrency", "concurrency-"))

VLLM = Tool(
    name="vllm",
    asked=frozenset(
        "date endpoint_type backend label model_id tokenizer_id num_prompts request_rate burstiness max_concurrency "
        "ramp_up_strategy ramp_up_start_rps ramp_up_end_rps".split()
    ),
    identity=(("model_id", ""), ("backend", ""), ("label", ""), *_TRAFFIC, ("num_prompts", "prompts-")),
)
SGLANG = Tool(
    name="sglang",
    asked=frozenset(
        "tag backend dataset_name request_rate max_concurrency sharegpt_output_len random_input_len random_output_len "
        "random_range_ratio fixed_output_len server_info num_prompts".split()
    ),
    identity=(
        ("tag", ""), ("backend", ""), ("dataset_name", ""), ("random_input_len", "in-"), ("random_output_len", "out-"),
        ("random_range_ratio", "range-"), ("sharegpt_output_len", "sharegpt-out-"), ("fixed_output_len", "fixed-out-"),
        *_TRAFFIC, ("num_prompts", "prompts-"),
    ),
)  # fmt: skip

_PLAIN = {"random_range_ratio": 0}
"""What is asked where nothing is said: such a value is no part of a case's name."""

_PASSING = re.compile(
    r"(?:\w*_)?(?:commit|sha|hash|rev|revision|version|build|branch|date|time|timestamp|run|job|id|url|pr)(?:_\w*)?",
    re.IGNORECASE,
)
"""Names of metadata that say which code was measured and when, and not where and how."""

_SERVER_MODEL = ("model_path", "served_model_name")


def looks(document: Document, data: Any, tool: Tool) -> bool:  # noqa: ARG001  (the signature of all formats)
    """Say whether this is a result of ``tool``: of a file with a line each, ``data`` is the first."""
    if not isinstance(data, dict) or not {"backend", "duration", "completed"} <= data.keys():
        return False
    return ("model_id" in data) == (tool is VLLM)


def _read(documents: Sequence[Document], told: Told, tool: Tool) -> tuple[RunRecord, ...]:
    return tuple(run for document in documents for run in _lines(parse_lines(document, ADVICE), told, tool))


def _lines(places: Sequence[Place], told: Told, tool: Tool) -> Iterator[RunRecord]:
    """Yield a run a line, a line that is there twice once."""
    seen: list[Any] = []
    for index, place in enumerate(places):
        if place.value not in seen:
            seen.append(place.value)
            yield _run(place, told, tool, before=len(places) - 1 - index)


def _earlier(told: Told, milliseconds: int) -> Told:
    """Return what is told of a line with so many behind it: without times of their own, lines are in their order."""
    at, written = (
        text and (datetime.fromisoformat(text) - timedelta(milliseconds=milliseconds)).isoformat()
        for text in (told.at, told.modified_at)
    )
    return replace(told, at=at, modified_at=written)


read_vllm: Callable[[Sequence[Document], Told], tuple[RunRecord, ...]] = partial(_read, tool=VLLM)
read_sglang: Callable[[Sequence[Document], Told], tuple[RunRecord, ...]] = partial(_read, tool=SGLANG)


def _run(place: Place, told: Told, tool: Tool, *, before: int = 0) -> RunRecord:
    """Return the run of one result; it has one case. ``before``: so many are in its file behind it."""
    for key in ("backend", "duration", "completed"):
        place.at(key)
    asked: dict[str, Any] = {}
    metrics, detail = {}, {}
    for key, one in place.items():
        number = isinstance(one.value, int | float) and not isinstance(one.value, bool)
        if re.fullmatch(_MEASURED, key) and not number and one.value is not None:
            raise one.wrong("a number")
        if key in tool.asked or isinstance(one.value, str):
            asked[key] = one.free()
        elif number:
            unit, direction = rule(key)
            metrics[key] = metric(key, one.number(), unit=unit, direction=direction)
        else:
            detail[key] = one.free()
    case = CaseRecord(id=case_id(asked, tool), spec=asked, metrics=metrics, extra={"detail": detail} if detail else {})
    server = asked.get("server_info")
    environment = {"server": server} if isinstance(server, Mapping) else _metadata(asked, tool)
    date = place.maybe("date") if tool is VLLM else None
    when = "" if date is None else _when(date)
    suite = f"{tool.name}-serving"
    told = told if when else _earlier(told, before)
    return make_run(
        told, tool=tool.name, place=place, created_at=when, suite=suite, environment=environment, cases=(case,)
    )


def _metadata(asked: Mapping[str, Any], tool: Tool) -> dict[str, Any]:
    """Return what ``--metadata`` told of the machine and the server: a result with two chips is none of four."""
    return {key: one for key, one in asked.items() if key not in tool.asked and not _PASSING.fullmatch(key)}


def rule(key: str) -> tuple[str, Direction]:
    """Return unit and direction of the number under ``key``."""
    return next(((unit, way) for pattern, unit, way in RULES if re.fullmatch(pattern, key)), ("", _NONE))


def case_id(asked: Mapping[str, Any], tool: Tool) -> str:
    """Name a case after what was asked for, so that the same question is the same case next time."""
    server = asked.get("server_info")
    models = [server.get(key) for key in _SERVER_MODEL] if isinstance(server, Mapping) else []
    parts = [str(models[0] or models[1])] if any(models) else []
    seen = set(parts)
    for key, prefix in tool.identity:
        value = asked.get(key)
        text = f"{prefix}{value:g}" if isinstance(value, float) else f"{prefix}{value}"
        if value is not None and value != _PLAIN.get(key) and text not in seen:
            parts.append(text)
            seen.add(text)
    return "/".join(parts)


def _when(place: Place) -> str:
    """Return vLLM's ``20260131-235959``, which has no zone, as UTC."""
    try:
        return datetime.strptime(place.text(), "%Y%m%d-%H%M%S").replace(tzinfo=UTC).isoformat()
    except ValueError:
        raise place.wrong("a time as vLLM writes it, such as 20260131-235959") from None
