"""A trace of a million events and 200 MB, of anybody's steps, is summed up in bounded memory: as commands do it."""

import json
import os
import subprocess
import sys

import pytest

EVENTS, BYTES = 1_000_000, 200_000_000
MEMORY_BYTES, CPU_S = 1_000_000_000, 30

READ = """
import json, resource, sys
from pathlib import Path
cpu_s = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
from qwenperf.cli.traced_case import read_summary
summary = read_summary(Path(sys.argv[1]))
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
counts = {row["name"]: row["count"] for row in summary["operations"]}
print(json.dumps({"peak": int(peak.split()[1]) * 1024, "steps": summary["steps"], "counts": counts}))
"""


@pytest.fixture
def large(tmp_path, xspaces):
    """A CPU's profile, with the chatter of a thread pool and statistics that nobody reads, as in real ones."""
    plane, padding = xspaces.Plane("/host:CPU"), {f"_{index}": "x" * 40 for index in range(9)}
    plane.line("python", [plane.event("train", index * 100_000, 99_000, step_num=index) for index in range(10)])
    kinds = []
    for index in range(200):
        name = f"fusion.{index}"
        chatter = xspaces.number(1, plane.name_of(f"end: {name}"))
        kinds.append((chatter, b""))
        kinds.append((xspaces.number(1, plane.name_of(name)), plane.statistics(**plane.marks(name), **padding)))
    last = xspaces.number(3, 900_000)
    events = [
        xspaces.block(4, kinds[index % 400][0] + xspaces.number(2, index * 1_000_000) + last + kinds[index % 400][1])
        for index in range(EVENTS)
    ]
    plane.lines += xspaces.block(3, xspaces.block(2, "tf_XLAEigen/1") + b"".join(events))
    file = tmp_path / "large.xplane.pb"
    file.write_bytes(xspaces.space(plane))
    return file


@pytest.mark.slow
def test_a_million_events_take_less_than_a_gigabyte_and_half_a_minute(large):
    """Seconds of the processor, which other work on the machine does not stretch."""
    assert large.stat().st_size > BYTES
    command = [sys.executable, "-c", READ, large, str(CPU_S)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["peak"] < MEMORY_BYTES
    assert (seen["steps"], sum(seen["counts"].values())) == (10, 495_000)
