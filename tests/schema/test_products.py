"""What a library's product costs, from shapes alone."""

import pytest

from qwenperf.schema.products import is_product, product_flops


@pytest.mark.parametrize(
    ("left", "right", "result", "expected"),
    [
        ((3, 5), (5, 7), (3, 7), 2 * 3 * 5 * 7),
        ((5, 3), (7, 5), (3, 7), 2 * 3 * 5 * 7),
        ((2, 4, 3, 5), (2, 4, 5, 7), (2, 4, 3, 7), 2 * 8 * 3 * 5 * 7),
        ((0, 5), (5, 7), (0, 7), 0),
    ],
)
def test_it_is_two_operations_for_each_pair_that_is_multiplied_and_added(left, right, result, expected):
    assert product_flops(left, right, result) == pytest.approx(expected)


def test_products_are_known_by_name():
    assert all(map(is_product, ("__onednn$matmul", "__cublas$gemm", "custom_Dot")))
    assert not any(map(is_product, ("TopK", "Sharding", "")))
