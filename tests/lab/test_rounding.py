import pytest

from qwenperf.lab.logits import relative_rounding
from qwenperf.lab.rounding import products_here, products_in


@pytest.mark.parametrize(
    ("platform", "precision", "expected"),
    [
        ("cpu", None, "f32"),
        ("cpu", "bfloat16", "f32"),
        ("gpu", None, "tf32"),
        ("gpu", "default", "tf32"),
        ("gpu", "highest", "f32"),
        ("gpu", "BF16_BF16_F32", "bf16"),
        ("tpu", None, "bf16"),
        ("tpu", "high", "f32"),
        ("tpu", "float32", "f32"),
    ],
)
def test_f32_products_of_an_accelerator_are_less_than_f32_unless_asked_for(platform, precision, expected):
    """An H100 showed logits off by 2e-3 of the largest at f32, which is TF32's rounding and no bug."""
    assert products_in("f32", platform=platform, precision=precision) == expected


def test_bf16_is_bf16_everywhere():
    """What is rounded already is not rounded further."""
    assert {products_in("bf16", platform=one, precision=None) for one in ("cpu", "gpu", "tpu")} == {"bf16"}


def test_every_answer_has_a_tolerance_and_the_coarser_one_is_larger():
    """A divergence can be held to each; this process runs on a CPU."""
    assert relative_rounding("f32") < relative_rounding("tf32") < relative_rounding("bf16")
    assert products_here("f32") == "f32"
