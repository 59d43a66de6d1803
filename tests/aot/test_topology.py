"""Names of targets, and the devices behind them."""

from importlib.util import find_spec

import jax
import pytest

import qwenperf
from qwenperf.aot import platforms, topology
from qwenperf.aot.gpus import H100
from qwenperf.aot.topology import Target, described, devices, known_targets, resolve, resolve_all, target_record
from qwenperf.errors import EnvironmentUnfitError, UsageError
from qwenperf.schema.records import Status


@pytest.mark.parametrize(
    ("name", "canonical", "topology", "chips"),
    [
        ("v5e-1", "v5e-1", "v5e:2x2", 1),
        ("v5e-8", "v5e-8", "v5e:2x4", 8),
        ("V6E-8", "v6e-8", "v6e:2x4", 8),
        ("v5litepod-4", "v5e-4", "v5e:2x2", 4),
        ("v7x-4", "v7x-4", "tpu7x:2x2x1", 4),
        ("tpu7x:2x2x1", "v7x-4", "tpu7x:2x2x1", 4),
        ("v5e:1x1", "v5e-1", "v5e:2x2", 1),
        ("v4:2x4x4", "v4-32", "v4:2x4x4", 32),
        ("v4:2x2x4", "v4-16", "v4:2x2x4", 16),
        ("v6e:8x4", "v6e:8x4", "v6e:8x4", 32),
        (" cpu ", "cpu", "", 1),
        ("cuda", "cuda", "", 1),
    ],
)
def test_a_name_counts_chips_and_a_layout_is_a_name_too(name, canonical, topology, chips):
    """Chips below a host are the first of the smallest host, which every version of the compiler knows."""
    target = resolve(name)
    assert (target.name, target.topology, target.chips) == (canonical, topology, chips)


@pytest.mark.parametrize("name", "v5e v5e-3 v9-4 v5e:2x2x1 v7x:2x2 v5e:0x4 tpu v5e- v5e-99999".split())
def test_an_unknown_name_lists_those_that_are_known(name):
    """One line, with every name and the form of a layout."""
    with pytest.raises(UsageError, match=r"unknown target .*Known: v2-1, .*v7x-64; cpu, cuda; or a layout"):
        resolve(name)


def test_every_known_name_is_one():
    """What is listed can be asked for, and has figures of one device."""
    for name in known_targets():
        record = described(resolve(name))
        assert record.name == name
        assert (record.hbm_bytes is not None) == (record.platform == "tpu" or "described" in record.extra)


def test_a_list_of_names_has_each_once():
    """Commas, spaces and repetitions are all right, and nothing is not."""
    assert [target.name for target in resolve_all("v7x-4, cpu,tpu7x-4,")] == ["v7x-4", "cpu"]
    with pytest.raises(UsageError, match="none is named"):
        resolve_all(" , ")


@pytest.mark.parametrize(("name", "count"), [("v5e-1", 1), ("v5e-4", 4), ("v7x-1", 2), ("v7x-4", 8), ("cpu", 1)])
def test_devices_are_those_of_the_chips(name, count):
    """A v7x chip is two devices; the record says what one of them has."""
    target = resolve(name)
    found = devices(target)
    assert len(found) == count
    record = target_record(target)
    assert (record.devices, record.chips) == (count, target.chips)
    assert record == described(target)


def test_a_layout_that_the_compiler_does_not_have_is_one_error():
    """The compiler's own words, in one line."""
    with pytest.raises(EnvironmentUnfitError, match=r"the TPU compiler has no layout 'v5e:3x5'"):
        devices(resolve("v5e:3x5"))


def test_a_missing_compiler_is_one_line_that_names_the_extra(monkeypatch):
    """On macOS, on ARM, or without the extra; nothing of JAX's own message."""
    monkeypatch.setattr(platforms, "_LIBRARY", "no_such_library")
    monkeypatch.delenv("TPU_LIBRARY_PATH", raising=False)
    with pytest.raises(EnvironmentUnfitError, match=r"^the TPU compiler is not installed: .*'qwenperf\[tpu\]'"):
        platforms.check_compiler("tpu")
    assert platforms.missing_compiler("cpu") == ""


def test_cuda_needs_its_plugin_and_no_gpu(monkeypatch):
    """The plugin compiles for a GPU that is described where there is none."""
    monkeypatch.setattr(platforms, "_CUDA_PLUGINS", ("no_such_plugin",))
    assert platforms.missing_compiler("cuda").startswith("cuda is not available because JAX's CUDA plugin is not")
    monkeypatch.setattr(platforms, "_CUDA_PLUGINS", ("jax",))
    assert platforms.missing_compiler("cuda") == ""


def test_a_gpu_that_is_there_is_seen_by_its_device(tmp_path):
    assert not platforms.gpu_is_here(tmp_path)
    (tmp_path / "nvidia0").touch()
    assert platforms.gpu_is_here(tmp_path)


def test_where_there_is_no_gpu_cuda_is_one_that_is_described(monkeypatch):
    """With what its maker publishes of it; of one that is there nothing is told before it was asked."""
    monkeypatch.setattr(topology, "gpu_is_here", lambda: False)
    record = described(resolve("cuda"))
    assert (record.topology, record.hbm_bytes_per_s, record.extra) == (
        "NVIDIA H100 80GB HBM3",
        3.35e12,
        {"described": True},
    )
    assert 'device_description_str: "NVIDIA H100 80GB HBM3"' in H100.description()
    assert "cuda_compute_capability { major: 9 minor: 0 }" in H100.description()
    assert set(H100.sources) == {"info", "hbm_bytes_per_s", "flops_per_s"}
    monkeypatch.setattr(topology, "gpu_is_here", lambda: True)
    assert described(resolve("cuda")).hbm_bytes is None


def test_a_plugin_that_makes_no_gpu_of_a_description_says_so(monkeypatch):
    """An older one, or none of its libraries: one line with its reason."""
    monkeypatch.setattr(topology, "gpu_is_here", lambda: False)
    monkeypatch.setattr(topology, "check_compiler", lambda _platform: None)
    if find_spec("jax_plugins") is not None and any(map(find_spec, platforms._CUDA_PLUGINS)):
        pytest.skip("the plugin is installed")
    with pytest.raises(EnvironmentUnfitError, match="cuda is not available because its plugin makes no NVIDIA H100"):
        topology.devices(Target(name="cuda", platform="cuda"))


@pytest.mark.skipif(not any(map(find_spec, platforms._CUDA_PLUGINS)), reason="JAX's CUDA plugin is not installed")
@pytest.mark.slow
def test_a_program_is_compiled_for_a_gpu_that_is_not_there(monkeypatch):
    """As for a TPU: sizes, operations and an estimate."""
    monkeypatch.setattr(topology, "gpu_is_here", lambda: False)
    shape = jax.ShapeDtypeStruct((256, 256), "bfloat16")
    (case,) = qwenperf.compile_for(lambda x, w: x @ w, shape, shape, targets="cuda").cases
    assert case.status is Status.MEASURED, case.error
    assert case.program.flops == 2 * 256**3
    assert case.estimate.seconds > 0


def test_processes_that_compile_for_a_gpu_share_its_memory(monkeypatch):
    """Each would take most of it when it starts; who has said otherwise is left alone, and a TPU's needs nothing."""
    monkeypatch.setattr(platforms, "gpu_is_here", lambda: True)
    name = "XLA_PYTHON_CLIENT_PREALLOCATE"
    assert platforms.compiler_environ({}, cuda=True)[name] == "false"
    assert platforms.compiler_environ({name: "true"}, cuda=True)[name] == "true"
    assert name not in platforms.compiler_environ({})
    monkeypatch.setattr(platforms, "gpu_is_here", lambda: False)
    assert platforms.compiler_environ({}, cuda=True)["JAX_PLATFORMS"] == "cpu"
