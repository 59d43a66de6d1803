"""A machine's name is the same on the next runner of its kind."""

import json
import subprocess
import sys

from qwenperf.asv_plugin import machine

XEON = "processor\t: 0\nmodel name\t: Intel(R) Xeon(R)  Platinum 8370C CPU @ 2.80GHz\nflags\t\t: fpu\n"


def test_the_name_is_made_of_what_stays(tmp_path, monkeypatch):
    """Not of the host's name, the kernel's build or the last bytes of memory."""
    (tmp_path / "cpuinfo").write_text(XEON)
    monkeypatch.setattr(machine.platform, "node", lambda: "runner-1a2b3c")
    monkeypatch.setattr(machine.platform, "release", lambda: "6.8.0-1021-azure")
    monkeypatch.setattr(machine.os, "cpu_count", lambda: 4)
    seen = []
    for pages in (4_100_000, 4_101_234):
        monkeypatch.setattr(machine.os, "sysconf", lambda name, pages=pages: 4096 if "SIZE" in name else pages)
        seen.append(machine.stable_fields(tmp_path / "cpuinfo"))
    assert seen[0] == seen[1]
    assert seen[0]["cpu"] == "Intel Xeon Platinum 8370C CPU @ 2.80GHz"
    assert seen[0]["machine"].endswith("intel-xeon-platinum-8370c-cpu-2.80ghz-4cpu-16gib")
    assert seen[0].keys() == {"machine", "os", "arch", "cpu", "num_cpu", "ram"}


def test_asv_finds_the_machine_by_the_name_that_is_printed(tmp_path, monkeypatch):
    """One command makes it known and says what to call it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    done = subprocess.run(
        (sys.executable, "-m", "qwenperf.asv_plugin"), check=True, capture_output=True, text=True, cwd=tmp_path
    )
    name = done.stdout.strip()
    assert json.loads((tmp_path / ".asv-machine.json").read_text())[name] == machine.stable_fields()
