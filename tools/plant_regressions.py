"""Compiles a decode step and the same step with one thing wrong each, for ``qwenperf aot diff`` to find (docs/aot.md).

python tools/plant_regressions.py [FOLDER]      writes FOLDER/<name>.json (default: profiles/planted); needs libtpu
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

from qwenperf import compile_for
from qwenperf.schema.codec import dumps

STEPS = Path(__file__).resolve().parent.parent / "tests" / "aot" / "steps.py"


def main(words: list[str]) -> None:
    """Write a record of each step."""
    spec = importlib.util.spec_from_file_location("steps", STEPS)
    assert spec is not None
    assert spec.loader is not None
    steps = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(steps)
    folder = Path(words[0] if words else "profiles/planted")
    folder.mkdir(parents=True, exist_ok=True)
    for name, (function, arguments, options) in programs(steps).items():
        record = compile_for(function, *arguments, name="step", **options)
        (folder / f"{name}.json").write_text(dumps(record), encoding="utf-8")
        print(f"{folder / name}.json: {record.cases[0].status}")


def programs(steps: Any) -> dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]]:
    """Return what is compiled: the function, its shapes, and how they lie."""
    divided = {"targets": "v5e-4", "mesh": {"tensor": 4}}
    return {
        "step": (steps.step, steps.arguments(), {}),
        "not-donated": (steps.not_donated, steps.arguments(), {}),
        "f32-weights": (steps.weights_in_f32, steps.arguments(), {}),
        "large-cache": (steps.step, steps.arguments(positions=1 << 20), {}),
        "scanned": (steps.scanned, steps.stacked_arguments(), {}),
        "scanned-turned": (steps.scanned_transposed, steps.stacked_arguments(turned=True), {}),
        "divided": (steps.step, steps.arguments(), {**divided, "specs": steps.divisions()}),
        "divided-fused": (
            steps.step,
            steps.arguments(steps.FUSED),
            {**divided, "specs": steps.divisions(steps.FUSED)},
        ),
        "flash": (steps.flash, steps.attention_arguments(), {}),
        "all-scores": (steps.materialised, steps.attention_arguments(), {}),
    }


if __name__ == "__main__":
    main(sys.argv[1:])
