"""Products of matrices that a library computes: by what they are called, and what they cost, from shapes alone.

Compiled programs and traces both go by this, and neither room imports the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

_NAMES = ("matmul", "gemm", "dot")


def is_product(target: str) -> bool:
    """Say whether what a custom call calls is a product of two matrices, by its name."""
    return any(part in target.lower() for part in _NAMES)


def product_flops(left: Sequence[int], right: Sequence[int], result: Sequence[int]) -> float:
    """Return the operations of a product, two for each pair of numbers, from the sizes of its factors and its result.

    (rows x inner) times (inner x columns) is (rows x columns): the root of the three is what each pair meets, whichever
    axes are which. More axes than two of the right factor are a batch.
    """
    sizes = [math.prod(one) for one in (left, right, result)]
    if not all(sizes):
        return 0.0
    batch = (math.prod(result[:-2]) or 1) if len(right) > 2 else 1
    return 2.0 * math.sqrt(sizes[0]) * math.sqrt(sizes[1]) * math.sqrt(sizes[2] / batch)
