"""Two runs side by side: what is said of a metric that differs."""

import pytest

from qwenperf.schema.records import metric
from qwenperf.service.web.compare import beside


@pytest.mark.parametrize(
    ("name", "base", "head", "better"),
    [
        ("weight_bytes", 2, 1, True),
        ("weight_bytes", 1, 2, False),
        ("tokens_equal", 0.5, 1.0, True),
        ("max_logit_error", 3.0e-7, 3.2e-7, None),
        ("max_logit_error", 3.2e-7, 3.0e-7, None),
    ],
)
def test_an_exact_number_that_differs_is_better_or_worse_unless_it_is_rounding(name, base, head, better):
    """Any other order of sums changes a rounding error: a new value of it is told, and is neither."""
    seen = beside(name, metric(name, base), metric(name, head))
    assert (seen.apart, seen.better) == (True, better)
