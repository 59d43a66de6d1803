"""What is asked of an engine is whole numbers, whoever made them."""

import json

import numpy as np
import pytest

from qwenperf.errors import ConfigError
from qwenperf.workloads.case import Workload


def test_whole_numbers_of_numpy_are_whole_numbers():
    """A length that comes out of an array is as good as one that was typed, in the record too."""
    workload = Workload(prompt_length=np.int32(4), new_tokens=np.int64(8), batch=np.uint8(2))
    assert workload == Workload(prompt_length=4, new_tokens=8, batch=2)
    assert json.loads(json.dumps(vars(workload)))["new_tokens"] == 8


@pytest.mark.parametrize("value", [1, 8.0, "8", None, np.float32(8), np.arange(3), np.int64(-8)])
def test_anything_else_is_refused_with_its_value(value):
    """A fraction, a text or an array is no number of tokens."""
    with pytest.raises(ConfigError, match=r"new_tokens is .* not a whole number of at least 2"):
        Workload(prompt_length=4, new_tokens=value)
