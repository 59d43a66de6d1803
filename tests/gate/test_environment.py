import pytest

from qwenperf.gate.environment import environment_class


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"platform": "cpu", "machine": "x86_64", "cores": 2, "device_kind": "cpu"}, "cpu-x86_64-2core"),
        (
            {"platform": "gpu", "device_kind": "NVIDIA H100 80GB HBM3", "device_count": 1},
            "gpu-nvidia-h100-80gb-hbm3-x1",
        ),
        ({"platform": "tpu", "device_kind": "TPU v5 lite", "device_count": 4}, "tpu-v5-lite-x4"),
        ({"platform": "cpu"}, "cpu-unknown-unknown"),
        ({}, "unknown"),
    ],
)
def test_a_machine_has_a_class_that_a_glob_can_name(environment, expected):
    """Coarse, lower case, and unknown where nothing was recorded."""
    assert environment_class(environment) == expected
