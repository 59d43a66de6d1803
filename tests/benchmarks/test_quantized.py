"""The comparison with other libraries' quantised matrices: what it says of a peer that is known."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.models.quantize import dequantize, quantize_matrix

RANDOM = np.random.default_rng(0)
WEIGHT = jnp.asarray(RANDOM.normal(size=(6, 64)), jnp.float32)
ROWS = jnp.asarray(RANDOM.normal(size=(2, 64)), jnp.float32)


@pytest.fixture(scope="module")
def quantized(repository):
    sys.path.insert(0, str(repository))
    from benchmarks.peers import quantized

    return quantized


def test_a_peer_that_does_the_same_is_no_different(quantized):
    """Our own matrix as theirs: no difference, the same error; a scheme that the peer lacks has no row."""

    def peer(weight_OI, rows_NI, scheme):
        if scheme.offset:
            return None
        matrix = dequantize(quantize_matrix(weight_OI, scheme=scheme))
        return quantized.Theirs(bytes=7, matrix_OI=matrix, product_NO=rows_NI @ weight_OI.T)

    rows = list(quantized.compare(peer, WEIGHT, ROWS))
    assert [row.scheme for row in rows] == ["int8", "int8-g32", "int4-g32 symmetric"]
    assert all(row.largest_difference == 0 and row.our_error == row.their_error > 0 for row in rows)
    assert all(row.their_product_error < 1e-6 < row.our_product_error for row in rows)
    assert list(quantized.table("theirs", iter(rows)))[2].startswith("| int8 | 408 | 7 |")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["qwix", "aqt"])
def test_a_peer_that_is_installed_rounds_as_we_do(quantized, name):
    """To within the difference of their scales from ours."""
    pytest.importorskip(name)
    # Their arithmetic is not as strict as ours.
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        rows = list(quantized.compare(quantized.PEERS[name], WEIGHT, ROWS))
    for row in rows:
        assert row.their_error == pytest.approx(row.our_error, rel=0.2) or row.scheme == "int4-g32"
