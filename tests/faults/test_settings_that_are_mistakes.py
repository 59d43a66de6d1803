"""Settings that are mistakes on purpose, or costs of a form, and the gates that must see them."""

import pytest

from qwenperf.decode.build import build_engine
from qwenperf.schema.records import Outcome


def told(verdict):
    """Everything that a verdict says."""
    return "\n".join((verdict.summary, *verdict.detail, verdict.advice))


def test_a_static_position_fails_shapes(model, judge):
    """One program a position: the step is named, and the advice is to pass the position as an array."""
    verdicts = judge(build_engine(model, "cached-host+position=static", capacity=12))
    assert verdicts["tokens"].outcome is Outcome.PASS
    assert verdicts["shapes"].outcome is Outcome.FAIL
    message = told(verdicts["shapes"])
    assert "decode_step compiled" in message
    # JAX 0.12 has no words for a static argument.
    assert "changed static" in message or "JAX does not say why" in message
    assert "Pass it as an array" in message


@pytest.mark.parametrize(("changes", "outcome"), [("", Outcome.FAIL), ("+key_block=16", Outcome.PASS)])
def test_a_cache_that_is_cast_where_it_is_written_fails_cache_alias(model, judge, changes, outcome):
    """On CPU the cast is fused with the write, and the int8 cache copied in each step; a loop over blocks undoes it."""
    verdicts = judge(build_engine(model, f"cached-host+cache_dtype=int8{changes}", capacity=128))
    assert verdicts["cache-alias"].outcome is outcome
    if outcome is Outcome.FAIL:
        assert "s8[2,128,16]" in told(verdicts["cache-alias"])
