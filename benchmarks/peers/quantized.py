"""Our quantised matrices beside those of qwix, on the same weights: bytes, rounding error, and the two products.

    python -m benchmarks.peers.quantized

Needs ``qwix``, which nothing else here does. Both round to the nearest multiple of a scale; qwix takes max |w| / 127.5
and f32 scales by default, we take max |w| / 127 for an output and bf16 scales for groups.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

MODEL = "smollm2-135m"
MATRIX = ("mlp", "up_proj")
_ROWS = 2


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One scheme on one matrix. Errors are root mean squares as shares of the matrix's, or of the exact product's."""

    scheme: str
    our_bytes: int
    their_bytes: int
    our_error: float
    their_error: float
    largest_difference: float
    our_product_error: float
    their_product_error: float


def compare(weight_OI: Any, rows_NI: Any) -> Iterator[Compared]:
    """Yield each scheme; products are those of int8 rows with the quantised matrix."""
    from qwenperf.models.quantize import Scheme

    yield _compare("int8", weight_OI, rows_NI, Scheme(), {})
    yield _compare("int8-g32", weight_OI, rows_NI, Scheme(grouped=True), {})
    yield _compare("int4-g32 symmetric", weight_OI, rows_NI, Scheme(bits=4, grouped=True), {})
    offset = Scheme(bits=4, grouped=True, offset=True)
    yield _compare("int4-g32", weight_OI, rows_NI, offset, {"calibration_method": "minmax"})


def _compare(name: str, weight_OI: Any, rows_NI: Any, scheme: Any, theirs: Mapping[str, Any]) -> Compared:
    import jax.numpy as jnp

    from qwenperf.models.quantize import dequantize, quantize_matrix
    from qwenperf.models.quantized_product import quantized_product

    qwix = importlib.import_module("qwix")
    groups = {"tiled_axes": {1: 32}} if scheme.grouped else {}
    kind = jnp.int8 if scheme.bits == 8 else jnp.int4
    quantized = qwix.quantize(weight_OI, kind, channelwise_axes=[0], **groups, **theirs)
    node = quantize_matrix(weight_OI, scheme=scheme)
    ours_OI, theirs_OI = (np.asarray(matrix) for matrix in (dequantize(node), qwix.dequantize(quantized)))
    exact_NO = np.asarray(rows_NI) @ np.asarray(weight_OI).T
    our_NO = quantized_product(jnp.expand_dims(rows_NI, 0), node, "int8")[0]
    their_rows = qwix.quantize(rows_NI, jnp.int8, channelwise_axes=[0], **groups)
    their_NO = qwix.dot_general(their_rows, quantized, (((1,), (1,)), ((), ())))
    zero_point = 0 if quantized.zero_point is None else quantized.zero_point.size * scheme.bits // 8
    return Compared(
        scheme=name,
        our_bytes=sum(leaf.nbytes for leaf in node.values()),
        their_bytes=quantized.qvalue.size * scheme.bits // 8 + quantized.scale.nbytes + zero_point,
        our_error=_error(ours_OI, weight_OI),
        their_error=_error(theirs_OI, weight_OI),
        largest_difference=float(np.abs(ours_OI - theirs_OI).max()),
        our_product_error=_error(our_NO, exact_NO),
        their_product_error=_error(their_NO, exact_NO),
    )


def _error(found: Any, exact: Any) -> float:
    found, exact = (np.asarray(value, np.float64) for value in (found, exact))
    return float(np.sqrt(np.mean((found - exact) ** 2) / np.mean(exact**2)))


def table(compared: Iterator[Compared]) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    yield "| scheme | bytes | qwix | error | qwix | largest difference | error of int8 product | qwix |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for row in compared:
        yield (
            f"| {row.scheme} | {row.our_bytes:,} | {row.their_bytes:,} | {row.our_error:.4%} | {row.their_error:.4%} "
            f"| {row.largest_difference:.2e} | {row.our_product_error:.4%} | {row.their_product_error:.4%} |"
        )


def main() -> None:
    """Print the table for one matrix of the real weights and seeded rows."""
    import jax.numpy as jnp

    from qwenperf.models.registry import load_model

    if importlib.util.find_spec("qwix") is None:
        raise SystemExit("qwix is not installed. Install it beside qwenperf: pip install qwix.")
    block, name = MATRIX
    weight_OI = load_model(MODEL).params["layers"][0][block][name]["weight"]
    rows_NI = np.random.default_rng(0).normal(size=(_ROWS, weight_OI.shape[1])).astype(np.float32)
    for line in table(compare(weight_OI, jnp.asarray(rows_NI))):
        print(line)  # noqa: T201  # a script talks to its user


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    main()
