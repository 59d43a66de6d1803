"""The environment is described, fingerprinted, and what is unfit about it is remarked on."""

import os
import subprocess
import sys

import pytest

from qwenperf.measure import environment


@pytest.fixture(scope="module")
def described():
    """This machine."""
    return environment.describe()


def codes(described, **changes):
    quiet = {**described, "x64": False, "debug_flags": [], "persistent_cache": False, "volatile": {"load": [0.1]}}
    return [finding.code for finding in environment.findings({**quiet, **changes})]


def test_machine_and_software_are_named(described):
    for key in ("cpu_model", "machine", "kernel", "python", "jax", "jaxlib", "flax", "qwenperf", "device_kind"):
        assert described[key], key
    assert described["cores"] >= 1
    assert described["platform"] == "cpu"
    assert described["device_count"] >= 1
    assert len(described["volatile"]["load"]) == 3


def test_the_fingerprint_leaves_out_the_load_and_nothing_else(described):
    loaded = {**described, "volatile": {"load": [99.0, 99.0, 99.0]}}
    assert environment.fingerprint(loaded) == environment.fingerprint(described)
    assert environment.fingerprint({**described, "jax": "0.0.1"}) != environment.fingerprint(described)
    assert environment.fingerprint({**described, "xla_flags": "--x"}) != environment.fingerprint(described)


def test_a_fit_environment_has_no_findings(described):
    assert codes(described) == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"x64": True}, "x64-enabled"),
        ({"volatile": {"load": [7.0]}, "cores": 2}, "load-high"),
        ({"debug_flags": ["jax_debug_nans"]}, "debug-flags"),
        ({"persistent_cache": True}, "persistent-cache"),
    ],
)
def test_what_is_unfit_is_a_finding_with_advice(described, changes, code):
    assert codes(described, **changes) == [code]
    assert all(finding.advice for finding in environment.findings({**described, **changes}))


def test_load_counts_per_core(described):
    assert codes(described, volatile={"load": [7.0]}, cores=64) == []


def test_flags_of_the_process_are_seen(tmp_path):
    code = (
        "from qwenperf.measure.environment import describe, findings;"
        "print(sorted(f.code for f in findings(describe()) if f.code != 'load-high'))"
    )
    flags = {"JAX_ENABLE_X64": "1", "JAX_DEBUG_NANS": "1", "JAX_COMPILATION_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **flags}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['debug-flags', 'persistent-cache', 'x64-enabled']"


def test_sizes_of_caches_are_read_with_their_unit():
    assert environment._kilobytes("32768K") == 32 * 2**20
    assert environment._kilobytes("48M") == 48 * 2**20
    assert environment._kilobytes("") == 0


def test_last_caches_of_all_cores_count_each_once(tmp_path, monkeypatch):
    """A processor of four chiplets holds four times what its first core sees, and an array in it reads as no memory."""
    monkeypatch.setattr(environment, "_core_numbers", lambda: [0, 1, 2, 3])
    for core in range(8):
        chiplet = f"{core - core % 2}-{core - core % 2 + 1}"
        for index, size, shared in ((0, "48K", str(core)), (3, "32768K", chiplet)):
            folder = tmp_path / f"cpu{core}" / "cache" / f"index{index}"
            folder.mkdir(parents=True)
            (folder / "size").write_text(f"{size}\n")
            (folder / "shared_cpu_list").write_text(f"{shared}\n")
    assert environment.last_level_caches_bytes(tmp_path) == 2 * 32 * 2**20
    assert environment.last_level_caches_bytes(tmp_path / "elsewhere") is None
