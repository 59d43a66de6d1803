"""Make tests/golden/hlo: programs as the compilers of a CPU and of TPUs leave them, and what the compilers say of them.

Run by hand, with the TPU compiler installed (no TPU is needed), from the root of the repository:

    pip install 'qwenperf[tpu]' && python tools/make_golden_hlo.py

Folders of source files are replaced, so that the texts are the same wherever they are made.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from qwenperf.aot.models import case_program
from qwenperf.aot.topology import resolve
from qwenperf.measure import memory
from qwenperf.workloads.case import Case, Workload

GOLDEN = Path(__file__).parent.parent / "tests" / "golden" / "hlo"
FIGURES = ("flops", "bytes accessed", "optimal_seconds")
# Name, target, layers, batch, dtype: one decode step each.
PROGRAMS = (
    ("cpu-unrolled", "cpu", "unrolled", 1, "f32"),
    ("cpu-scanned", "cpu", "scanned", 1, "f32"),
    ("cpu-bf16-unrolled", "cpu", "unrolled", 1, "bf16"),
    ("cpu-bf16-scanned", "cpu", "scanned", 1, "bf16"),
    ("v5e-unrolled", "v5e-1", "unrolled", 1, "bf16"),
    ("v5e-scanned", "v5e-1", "scanned", 1, "bf16"),
    ("v5e-4-scanned", "v5e-4", "scanned", 4, "bf16"),
    ("v7x-1-scanned", "v7x-1", "scanned", 1, "bf16"),
)


def main() -> None:
    """Compile all programs, and write their texts and figures."""
    GOLDEN.mkdir(exist_ok=True)
    figures = {}
    for name, target, layers, batch, dtype in PROGRAMS:
        workload = Workload(prompt_length=8, new_tokens=120, batch=batch, dtype=dtype)
        case = Case(model="4x128", engine=f"cached+layers={layers}", workload=workload)
        text, figures[name] = compiled(case, target)
        write(GOLDEN / f"{name}.hlo.gz", text)
        print(name, len(text))
    (GOLDEN / "figures.json").write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n")


def compiled(case: Case, target: str) -> tuple[str, dict[str, Any]]:
    """Return the text of a case's decode step for a target, and what the compiler says of it."""
    asked = case_program(case, "decode_step", resolve(target))
    program = asked.jitted.lower(*asked.arguments).compile()
    cost = memory.cost(program)
    told = {
        "sizes": memory.sizes(program),
        "cost": {name: cost[name] for name in FIGURES if name in cost},
        "weight_bytes": asked.weight_bytes,
        "cache_bytes": asked.cache_bytes,
    }
    return plain(program.as_text()), told


def plain(text: str) -> str:
    """Leave out of a text where its source files are, and what a TPU's compiler notes of types that it replaced."""
    text = re.sub(r'"/[^"]*/(?:src/)?(qwenperf|tools)/([^"]*)"', r'"/src/\1/\2"', text)
    noted = r'"float_type_correction_info":\{.*?"is_dynamic_dimension":\[[^\]]*\]\}'
    return re.sub(noted, '"float_type_correction_info":{}', text)


def write(path: Path, text: str) -> None:
    """Write a gzipped text that is the same each time."""
    with path.open("wb") as file, gzip.GzipFile("", mode="wb", fileobj=file, mtime=0, compresslevel=9) as packed:
        packed.write(text.encode())


if __name__ == "__main__":
    main()
