"""The way into the room: formats by name, telling them apart, reading and writing them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from qwenperf.errors import FormatError, UnknownNameError
from qwenperf.formats import (
    asv_read,
    asv_write,
    bencher,
    github_action,
    junit,
    openmetrics,
    pytest_benchmark,
    serving,
    serving_write,
)
from qwenperf.formats.foreign import Told, own_run
from qwenperf.formats.place import Document
from qwenperf.schema.codec import dumps, loads
from qwenperf.schema.names import folder_name
from qwenperf.schema.records import SCHEMA, RunRecord

Reader = Callable[[Sequence[Document], Told], tuple[RunRecord, ...]]
Writer = Callable[[Sequence[RunRecord]], tuple[Document, ...]]
Looks = Callable[[Document, Any], bool]

OWN = "qwenperf"


@dataclass(frozen=True, kw_only=True)
class Format:
    """One format. ``folder``: it is written as files of a folder; without ``read`` it is only written."""

    name: str
    about: str
    write: Writer
    read: Reader | None = None
    looks: Looks | None = None
    folder: bool = False


def _read_own(documents: Sequence[Document], told: Told) -> tuple[RunRecord, ...]:
    return tuple(own_run(loads(document.text, document.name), told, document.name) for document in documents)


def _write_own(runs: Sequence[RunRecord]) -> tuple[Document, ...]:
    return tuple(Document(name=f"{folder_name(run.id)}/run.json", text=dumps(run)) for run in runs)


def _looks_own(document: Document, data: Any) -> bool:  # noqa: ARG001  (the signature of all formats)
    return isinstance(data, dict) and data.get("schema") == SCHEMA


FORMATS: Mapping[str, Format] = {
    one.name: one
    for one in (
        Format(
            name=OWN, about="runs of qwenperf: run.json", read=_read_own, write=_write_own, looks=_looks_own,
            folder=True,
        ),
        Format(
            name=asv_read.TOOL, about="results folder of airspeed velocity", read=asv_read.read, write=asv_write.write,
            looks=asv_read.looks, folder=True,
        ),
        Format(
            name=pytest_benchmark.TOOL, about="JSON of pytest-benchmark", read=pytest_benchmark.read,
            write=pytest_benchmark.write, looks=pytest_benchmark.looks,
        ),
        Format(
            name=github_action.DASHBOARD, about="data.js of github-action-benchmark",
            read=github_action.read_dashboard, write=github_action.write_dashboard,
            looks=github_action.looks_dashboard,
        ),
        Format(
            name=github_action.SMALLER, about="its array of a customSmallerIsBetter tool",
            read=github_action.read_smaller, write=github_action.write_smaller,
        ),
        Format(
            name=github_action.BIGGER, about="its array of a customBiggerIsBetter tool", read=github_action.read_bigger,
            write=github_action.write_bigger,
        ),
        Format(
            name=serving.VLLM.name, about="result of vLLM's serving benchmark", read=serving.read_vllm,
            write=serving_write.write_vllm, looks=partial(serving.looks, tool=serving.VLLM),
        ),
        Format(
            name=serving.SGLANG.name, about="result of SGLang's serving benchmark", read=serving.read_sglang,
            write=serving_write.write_sglang, looks=partial(serving.looks, tool=serving.SGLANG),
        ),
        Format(
            name=bencher.TOOL, about="Bencher Metric Format", read=bencher.read, write=bencher.write,
            looks=bencher.looks,
        ),
        Format(name=openmetrics.TOOL, about="OpenMetrics text", write=openmetrics.write),
        Format(name=junit.TOOL, about="JUnit XML of the verdicts", write=junit.write),
    )
}  # fmt: skip
"""Every format by name, in the order in which files are tried."""

READABLE = tuple(name for name, one in FORMATS.items() if one.read is not None)
WRITABLE = tuple(FORMATS)


def detect(document: Document) -> str:
    """Return the format of ``document`` by what is in it.

    Raises:
      FormatError: it is none, or does not say which; names what it could be.
    """
    data = _first(document)
    for name, one in FORMATS.items():
        if one.looks is not None and one.looks(document, data):
            return name
    if github_action.looks_array(document, data):
        advice = f"Say which way its numbers improve: --from {github_action.SMALLER} or --from {github_action.BIGGER}."
        raise FormatError(f"{document.name} is an array of github-action-benchmark.", advice=advice)
    advice = f"Say it with --from: {', '.join(READABLE)}."
    raise FormatError(f"cannot tell the format of {document.name}.", advice=advice)


def read(documents: Sequence[Document], told: Told, name: str = "") -> tuple[RunRecord, ...]:
    """Return the runs in ``documents``, of the format ``name`` or of whatever each is found to be.

    Raises:
      FormatError: a file that cannot be read; names file and key.
      UnknownNameError: no such format.
    """
    by_format: dict[str, list[Document]] = {}
    for document in documents:
        by_format.setdefault(name or detect(document), []).append(document)
    runs: list[RunRecord] = []
    for known, group in by_format.items():
        reader = _format(known, READABLE).read
        assert reader is not None
        try:
            runs += reader(group, told)
        except RecursionError:
            names = ", ".join(document.name for document in group)
            raise FormatError(f"{names} is nested too deeply.", advice="No tool writes such a file.") from None
    return tuple(runs)


def write(runs: Sequence[RunRecord], name: str) -> tuple[Document, ...]:
    """Return the files of ``runs`` in the format ``name``.

    Raises:
      FormatError: the format cannot hold them; says why.
      UnknownNameError: no such format.
    """
    if not runs:
        raise FormatError("there is no run to write.", advice="Does the file hold any?")
    try:
        return _format(name, WRITABLE).write(runs)
    except (LookupError, TypeError, AttributeError) as error:
        named = [run.id for run in runs if "source" in run.extra]
        if not named:
            raise
        seen = f"`source` of run {named[0]} is not what reading a file of another tool leaves there"
        raise FormatError(f"{seen}: {error!r}.", advice="Read that tool's own file again.") from error


def _format(name: str, known: Sequence[str]) -> Format:
    if name not in known:
        raise UnknownNameError("format", name, known)
    return FORMATS[name]


def _first(document: Document) -> Any:
    """Return the first JSON value of a text; ``None`` where it does not begin like JSON, as ``data.js``.

    Raises:
      FormatError: it begins like JSON and is none; says why.
    """
    text = document.text.lstrip()
    try:
        return json.JSONDecoder().raw_decode(text)[0]
    except (ValueError, RecursionError) as error:
        if text.startswith(("{", "[")):
            raise FormatError(f"{document.name} is not JSON: {error}.", advice="Was it cut short?") from error
        return None
