"""Our quantised matrices beside those of qwix and AQT, on the same weights: bytes, rounding error, both products.

    python -m benchmarks.peers.quantized

Needs ``qwix`` or ``aqtp``, which nothing else here does; whichever is installed is compared with. All round to the
nearest multiple of a scale; both peers take max |w| / 127.5 and f32 scales by default, we take max |w| / 127 for an
output and bf16 scales for groups.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

MODEL = "smollm2-135m"
MATRIX = ("mlp", "up_proj")
_ROWS, _GROUP = 2, 32


@dataclass(frozen=True, kw_only=True)
class Theirs:
    """What a library makes of a matrix [O, I]: its bytes, what they stand for, and int8 rows [N, I] times it."""

    bytes: int
    matrix_OI: Any  # noqa: N815  (axis suffix)
    product_NO: Any  # noqa: N815  (axis suffix)


Peer = Callable[[Any, Any, Any], Theirs | None]
"""From a matrix [O, I], rows [N, I] and one of our schemes to theirs; ``None`` where the library has no such form."""


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


def schemes() -> dict[str, Any]:
    """Return what is compared, by the name that the table has for it."""
    from qwenperf.models.quantize import Scheme

    return {
        "int8": Scheme(),
        "int8-g32": Scheme(grouped=True),
        "int4-g32 symmetric": Scheme(bits=4, grouped=True),
        "int4-g32": Scheme(bits=4, grouped=True, offset=True),
    }


def compare(peer: Peer, weight_OI: Any, rows_NI: Any) -> Iterator[Compared]:
    """Yield each scheme that the peer has; products are those of int8 rows with the quantised matrix."""
    for name, scheme in schemes().items():
        theirs = peer(weight_OI, rows_NI, scheme)
        if theirs is not None:
            yield _compare(name, weight_OI, rows_NI, scheme, theirs)


def _compare(name: str, weight_OI: Any, rows_NI: Any, scheme: Any, theirs: Theirs) -> Compared:
    import jax.numpy as jnp

    from qwenperf.models.quantize import dequantize, quantize_matrix
    from qwenperf.models.quantized_product import quantized_product

    node = quantize_matrix(weight_OI, scheme=scheme)
    ours_OI, theirs_OI = (np.asarray(matrix) for matrix in (dequantize(node), theirs.matrix_OI))
    exact_NO = np.asarray(rows_NI) @ np.asarray(weight_OI).T
    our_NO = quantized_product(jnp.expand_dims(rows_NI, 0), node, "int8")[0]
    return Compared(
        scheme=name,
        our_bytes=sum(leaf.nbytes for leaf in node.values()),
        their_bytes=theirs.bytes,
        our_error=_error(ours_OI, weight_OI),
        their_error=_error(theirs_OI, weight_OI),
        largest_difference=float(np.abs(ours_OI - theirs_OI).max()),
        our_product_error=_error(our_NO, exact_NO),
        their_product_error=_error(theirs.product_NO, exact_NO),
    )


def qwix(weight_OI: Any, rows_NI: Any, scheme: Any) -> Theirs:
    """Quantise with qwix: channelwise, or in tiles of 32; with an offset where our scheme has one."""
    import jax.numpy as jnp

    library = importlib.import_module("qwix")
    groups = {"tiled_axes": {1: _GROUP}} if scheme.grouped else {}
    method = {"calibration_method": "minmax"} if scheme.offset else {}
    kind = jnp.int8 if scheme.bits == 8 else jnp.int4
    quantized = library.quantize(weight_OI, kind, channelwise_axes=[0], **groups, **method)
    their_rows = library.quantize(rows_NI, jnp.int8, channelwise_axes=[0], **groups)
    zero_point = 0 if quantized.zero_point is None else quantized.zero_point.size * scheme.bits // 8
    return Theirs(
        bytes=quantized.qvalue.size * scheme.bits // 8 + quantized.scale.nbytes + zero_point,
        matrix_OI=library.dequantize(quantized),
        product_NO=library.dot_general(their_rows, quantized, (((1,), (1,)), ((), ()))),
    )


def aqt(weight_OI: Any, rows_NI: Any, scheme: Any) -> Theirs | None:
    """Quantise with AQT: a scale for the last axis, which is cut in groups of 32 where our scheme is."""
    if scheme.offset:
        return None
    config, quantizer = (importlib.import_module(f"aqt.jax.v2.{name}") for name in ("config", "aqt_quantizer"))
    size = _GROUP if scheme.grouped else weight_OI.shape[1]
    weight_OGI, rows_NGI = (x.reshape(len(x), -1, size) for x in (weight_OI, rows_NI))
    quantized, _ = quantizer.quantizer_make(scheme.bits).quant(weight_OGI, calibration_axes=(2,))
    product = config.dot_general_make(8, scheme.bits)
    product_GNO = product(rows_NGI, weight_OGI, (((2,), (2,)), ((1,), (1,))))
    return Theirs(
        bytes=quantized.qvalue.size * scheme.bits // 8 + sum(scale.nbytes for scale in quantized.scale),
        matrix_OI=quantized.dequant().reshape(weight_OI.shape),
        product_NO=product_GNO.sum(0),
    )


PEERS: dict[str, Peer] = {"qwix": qwix, "aqt": aqt}
"""By the module that has to be there."""


def _error(found: Any, exact: Any) -> float:
    found, exact = (np.asarray(value, np.float64) for value in (found, exact))
    return float(np.sqrt(np.mean((found - exact) ** 2) / np.mean(exact**2)))


def table(name: str, compared: Iterator[Compared]) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    yield f"| scheme | bytes | {name} | error | {name} | largest difference | error of int8 product | {name} |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for row in compared:
        yield (
            f"| {row.scheme} | {row.our_bytes:,} | {row.their_bytes:,} | {row.our_error:.4%} | {row.their_error:.4%} "
            f"| {row.largest_difference:.2e} | {row.our_product_error:.4%} | {row.their_product_error:.4%} |"
        )


def main() -> None:
    """Print a table for each peer that is installed: one matrix of the real weights, and seeded rows."""
    import jax.numpy as jnp

    from qwenperf.models.registry import load_model

    there = {name: peer for name, peer in PEERS.items() if importlib.util.find_spec(name) is not None}
    if not there:
        raise SystemExit("Neither qwix nor AQT is installed. Install one beside qwenperf: pip install qwix aqtp.")
    block, name = MATRIX
    weight_OI = load_model(MODEL).params["layers"][0][block][name]["weight"]
    rows_NI = jnp.asarray(np.random.default_rng(0).normal(size=(_ROWS, weight_OI.shape[1])).astype(np.float32))
    for name, peer in there.items():
        for line in table(name, compare(peer, weight_OI, rows_NI)):
            print(line)  # noqa: T201  # a script talks to its user


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    main()
