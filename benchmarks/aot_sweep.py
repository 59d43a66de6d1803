"""Is an estimate possible, and does more work take longer? `python -m benchmarks.aot_sweep` asks it over many sizes.

Models that differ in layers, batch and context are compiled for chips that need not be here, and for this CPU. Of each
program: no estimate below what the chip's published peaks allow for the bytes and the arithmetic that any decoder of
this shape needs (reckoned here from the configuration, not from the program), utilisation of at most 1, and neither
arguments nor arithmetic that shrink when a size grows. For the CPU, which has no published peaks, only what grows is
asked. Peak and seconds depend on the compiler's plan too, which may be better for more work: where they shrink is told.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from qwenperf.aot.ids import PROGRAMS, program_id
from qwenperf.aot.topology import resolve_all
from qwenperf.lab.aot import run_aot
from qwenperf.lab.aot_children import AotOptions
from qwenperf.lab.aot_items import Item
from qwenperf.lab.run_folder import create_run_folder
from qwenperf.program.roofline import peaks_of
from qwenperf.schema.analysis import AotCase
from qwenperf.workloads.case import Case, Workload
from qwenperf.workloads.models import PRESETS

TARGETS = "v5e-1,v7x-1,cpu"
LAYERS, BATCHES, CONTEXTS = (1, 2, 4, 8), (1, 4, 16, 64), (128, 512, 2048)
ROOM = 0.01
"""A compiler may find a better plan for more work: a number may shrink by this share of itself."""

GROWING = ("argument_bytes", "flops")
"""What may not shrink: it follows from the sizes alone."""

PLANNED = ("peak_bytes", "seconds")
"""What may, and is told: the compiler has another plan for another size. Bytes moved are nothing but such a plan."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """One point of the sweep."""

    layers: int = 2
    batch: int = 1
    context: int = 128


@dataclass(frozen=True, kw_only=True)
class Point:
    """What was compiled at one point."""

    sizes: Sizes
    program: str
    target: str
    record: AotCase

    def value(self, fact: str) -> float | None:
        """Return a fact of the program, or its estimated seconds."""
        record = self.record
        if fact == "seconds":
            return None if record.estimate is None else record.estimate.seconds
        return None if record.program is None else getattr(record.program, fact)


def axes(layers: Sequence[int], batches: Sequence[int], contexts: Sequence[int]) -> Mapping[str, tuple[Sizes, ...]]:
    """Return the lines of the sweep: along each axis all sizes, the others as they are by default."""
    start = Sizes()
    return {
        "layers": tuple(replace(start, layers=size) for size in layers),
        "batch": tuple(replace(start, batch=size) for size in batches),
        "context": tuple(replace(start, context=size) for size in contexts),
    }


def compiled(
    folder: Path, config: Mapping[str, object], sizes: Sequence[Sizes], *, targets: str, engine: str, jobs: int
) -> Iterator[Point]:
    """Compile both programs of all points for each target, in processes that a compiler may crash.

    Raises:
      KeyboardInterrupt: somebody ended it.
    """
    cases = {one: _case(folder, config, one, engine) for one in sizes}
    found = resolve_all(targets)
    made = create_run_folder(folder / "records", datetime.now(UTC))
    record = run_aot(list(cases.values()), found, folder=made, options=AotOptions(jobs=jobs), listener=_Progress())
    if record.interrupted:
        raise KeyboardInterrupt
    known = {case.id: case for case in record.cases}
    for one, case in cases.items():
        for target in found:
            for program in PROGRAMS:
                told = known[program_id(case.id, target.name, program)]
                yield Point(sizes=one, program=program, target=target.name, record=told)


def _case(folder: Path, config: Mapping[str, object], sizes: Sizes, engine: str) -> Case:
    """Return the case of one point; its model is a folder that holds a configuration alone."""
    place = folder / f"layers-{sizes.layers}"
    place.mkdir(exist_ok=True)
    (place / "config.json").write_text(json.dumps({**config, "num_hidden_layers": sizes.layers}))
    work = Workload(prompt_length=sizes.context // 2, new_tokens=sizes.context // 2, batch=sizes.batch, dtype="bf16")
    return Case(model=str(place), engine=engine, workload=work)


class _Progress:
    """Names each program that ended."""

    def started(self, item: Item) -> None:
        """Say nothing."""

    def ended(self, record: AotCase) -> None:
        """Say which it was, and how it ended."""
        print(f"{record.status.value}: {record.id}", file=sys.stderr, flush=True)  # noqa: T201 - progress


def floor_s(point: Point, config: Mapping[str, object]) -> float | None:
    """Return the least seconds that the chip's peaks allow: weights read once, two operations a weight and token."""
    target = point.record.target
    peaks = peaks_of(target, "bf16")
    if peaks is None:
        return None
    width, wide, vocabulary = (int(str(config[name])) for name in ("hidden_size", "intermediate_size", "vocab_size"))
    heads, kv_heads = (int(str(config[name])) for name in ("num_attention_heads", "num_key_value_heads"))
    layer = 2 * width * width + 2 * width * (width // heads) * kv_heads + 3 * width * wide
    matrices = point.sizes.layers * layer + width * vocabulary
    rows = point.sizes.batch * (point.sizes.context // 2 if point.program == "prefill" else 1)
    # Logits are of one token a row, of a prefill too.
    flops = 2 * (point.sizes.layers * layer * rows + width * vocabulary * point.sizes.batch) / target.devices
    return max(2 * matrices / target.devices / peaks.bytes_per_s, flops / peaks.flops_per_s)


def problems(points: Sequence[Point], lines: Mapping[str, Sequence[Sizes]], config: Mapping[str, object]) -> list[str]:
    """Return what should not be: estimates that no chip can keep, and numbers that shrink when a size grows."""
    found = [told for point in points for told in _impossible(point, config)]
    return found + shrinking(points, lines, GROWING)


def shrinking(points: Sequence[Point], lines: Mapping[str, Sequence[Sizes]], facts: Sequence[str]) -> list[str]:
    """Return where one of the facts shrinks though a size grows."""
    found: list[str] = []
    known = {(point.target, point.program, point.sizes): point for point in points}
    for target, program in dict.fromkeys((point.target, point.program) for point in points):
        for axis, line in lines.items():
            for less, more in pairwise(line):
                pair = known[target, program, less], known[target, program, more]
                found += (told for fact in facts for told in _shrinks(axis, *pair, fact))
    return found


def _impossible(point: Point, config: Mapping[str, object]) -> Iterator[str]:
    where = f"{point.program} on {point.target} with {point.sizes}"
    if point.record.program is None:
        yield f"{where}: not compiled: {point.record.error}"
        return
    least, estimate = floor_s(point, config), point.record.estimate
    if least is None or estimate is None:
        return
    if estimate.seconds is None or estimate.seconds < least:
        yield f"{where}: estimated {estimate.seconds} s, and the chip needs {least:.3g} s at least"
    for name in ("mfu", "mbu"):
        value = getattr(estimate, name)
        if value is None or not 0 < value <= 1:
            yield f"{where}: {name} {value}"


def _shrinks(axis: str, less: Point, more: Point, fact: str) -> Iterator[str]:
    before, after = less.value(fact), more.value(fact)
    if before is not None and after is not None and after < before * (1 - ROOM):
        sizes = f"{getattr(less.sizes, axis)} to {getattr(more.sizes, axis)}"
        yield f"{less.program} on {less.target}: {axis} {sizes}: {fact} shrinks from {before:.6g} to {after:.6g}"


def outcome(points: Sequence[Point], lines: Mapping[str, Sequence[Sizes]], config: Mapping[str, object]) -> str:
    """Say in words what is wrong, and where a compiler plans better for more work."""
    found, planned = problems(points, lines, config), shrinking(points, lines, PLANNED)
    told = [f"{len(points)} programs: nothing is impossible, and nothing shrinks."] if not found + planned else found
    if planned:
        better = "With a better plan of the compiler for more work:"
        told += [*([] if found else [f"{len(points)} programs: nothing is impossible."]), better, *planned]
    return "\n".join(told)


def table(points: Sequence[Point], lines: Mapping[str, Sequence[Sizes]], config: Mapping[str, object]) -> str:
    """Return a Markdown table: the estimate of each point over what its chip needs at least."""
    rows = ["| target | program | axis | sizes | estimate over the least possible |", "| --- | --- | --- | --- | --- |"]
    known = {(point.target, point.program, point.sizes): point for point in points}
    for target, program in dict.fromkeys((point.target, point.program) for point in points):
        for axis, line in lines.items():
            own = [known[target, program, sizes] for sizes in line]
            told = [_ratio(point, config) for point in own]
            if all(told):
                sizes = ", ".join(str(getattr(one, axis)) for one in line)
                rows.append(f"| {target} | {program} | {axis} | {sizes} | {', '.join(told)} |")
    return "\n".join(rows)


def _ratio(point: Point, config: Mapping[str, object]) -> str:
    least, seconds = floor_s(point, config), point.value("seconds")
    return "" if least is None or seconds is None else f"{seconds / least:.2f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Sweep and say what is wrong; 1 where anything is."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.aot_sweep", description=__doc__)
    parser.add_argument("--model", default="qwen2.5-0.5b", help="the preset whose widths are taken")
    parser.add_argument("--engine", default="cached+layers=scanned")
    parser.add_argument("--target", default=TARGETS)
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (default: 2)")
    for name, usual in (("layers", LAYERS), ("batch", BATCHES), ("context", CONTEXTS)):
        parser.add_argument(f"--{name}", type=int, nargs="+", default=usual, help=f"default: {usual}")
    asked = parser.parse_args(arguments)
    config = PRESETS[asked.model]
    lines = axes(asked.layers, asked.batch, asked.context)
    sizes = list(dict.fromkeys(one for line in lines.values() for one in line))
    with tempfile.TemporaryDirectory(prefix="qwenperf-sweep-") as name:
        told = {"targets": asked.target, "engine": asked.engine, "jobs": asked.jobs}
        points = list(compiled(Path(name), config, sizes, **told))
    print(table(points, lines, config))  # noqa: T201 - the result
    print(f"\n{outcome(points, lines, config)}")  # noqa: T201 - the result
    return 1 if problems(points, lines, config) else 0


if __name__ == "__main__":
    sys.exit(main())
