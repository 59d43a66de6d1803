import pytest

from qwenperf.gate import memory
from qwenperf.schema.records import Outcome, ProgramFacts, metric

CACHE_BYTES = 100_000


def step(**facts):
    return {"program": ProgramFacts(name="decode_step", operations={"dot": 1}, **facts)}


def test_a_cache_updated_in_place_passes(make_case):
    """All its bytes are aliased."""
    verdict = memory.judge(make_case())
    assert verdict.outcome is Outcome.PASS
    assert verdict.summary == "the cache of 100 kB is updated in place"


@pytest.mark.parametrize(("aliased", "outcome"), [(50_000, Outcome.PASS), (49_999, Outcome.FAIL)])
def test_of_a_cache_divided_over_devices_one_device_s_part_must_alias(make_case, aliased, outcome):
    """A program is one device's, and so are the bytes that it updates in place."""
    divided = {"cache_part_bytes": 2_000, "cache_bytes": 4_000}
    assert memory.judge(make_case(evidence=step(alias_bytes=aliased, extra=divided))).outcome is outcome


def test_an_argument_that_did_not_alias_is_named(make_case):
    """Donated and copied all the same: half the cache."""
    verdict = memory.judge(make_case(evidence=step(alias_bytes=CACHE_BYTES // 2, unaliased_donations=("cache.v[0]",))))
    assert verdict.outcome is Outcome.FAIL
    assert verdict.summary == (
        "decode_step: only 50.0 kB of the cache's 100 kB are updated in place; "
        "`cache.v[0]` did not alias and is copied at each step"
    )


def test_a_cache_that_was_never_donated_is_told_apart(make_case):
    """Nothing aliased and nothing donated needs other advice than a lost donation."""
    verdict = memory.judge(make_case(evidence=step(alias_bytes=0)))
    assert verdict.outcome is Outcome.FAIL
    assert "does not donate its cache: 100 kB are held twice" in verdict.summary
    assert "donate_argnames" in verdict.advice


def test_a_copy_within_the_step_fails_though_the_ends_alias(make_case):
    """In place from outside, copied inside."""
    copies = ("copy.3: f32[1,2,56,32] copied in main",)
    verdict = memory.judge(make_case(evidence=step(alias_bytes=CACHE_BYTES, cache_copies=copies)))
    assert verdict.outcome is Outcome.FAIL
    assert "copies or rewrites an array of the cache's shape 1 time: copy.3: f32[1,2,56,32]" in verdict.summary


@pytest.mark.parametrize(
    ("copies", "outcome"),
    [
        (("copy.12: bf16[2,3,16] copied in main.14", "copy.14: bf16[2,3,16] copied in main.14"), Outcome.PASS),
        (("a: bf16[2,8,64] copied in main", "b: pred[2047] rewritten as a whole in main"), Outcome.PASS),
        (("a: bf16[2,8,64] copied in main", "b: bf16[2,8,64] copied in main"), Outcome.FAIL),
        (("a: something copied in main",), Outcome.FAIL),
        (("a: f32[1,2,3,16] copied in main", "b: something copied in main"), Outcome.FAIL),
    ],
)
def test_copies_too_small_to_matter_are_a_detail(make_case, copies, outcome):
    """Compilers copy tiny arrays; under 4096 bytes in all that costs nothing. What has no known size is not small."""
    verdict = memory.judge(make_case(evidence=step(alias_bytes=CACHE_BYTES, cache_copies=copies)))
    assert verdict.outcome is outcome
    if outcome is Outcome.PASS:
        assert verdict.detail == tuple(f"too small to matter: {copy}" for copy in copies)


@pytest.mark.parametrize(
    ("copies", "by_compiler"),
    [
        (("copy.4: f32[1,64,16] copied in main.4", "copy.5: f32[1,64,16] copied in main.4"), True),
        (("copy.4: f32[1,64,16] copied in main.4", "copy.5: f32[1,64,16] copied in main.4 from mine.py:12"), False),
        (("copy.4: f32[1,64,16] copied in main.4", "add.5: f32[1,64,16] rewritten as a whole in main"), False),
    ],
)
def test_copies_of_the_compiler_s_own_have_other_advice(make_case, copies, by_compiler):
    """Who updates with dynamic_update_slice already is not helped by being told to."""
    verdict = memory.judge(make_case(evidence=step(alias_bytes=CACHE_BYTES, cache_copies=copies)))
    assert verdict.outcome is Outcome.FAIL
    assert ("the compiler put them in" in verdict.advice) is by_compiler
    assert ("Update the cache with dynamic_update_slice" in verdict.advice) is not by_compiler


def test_another_lost_donation_is_mentioned(make_case):
    """The cache is fine; the other argument is worth a line."""
    verdict = memory.judge(make_case(evidence=step(alias_bytes=CACHE_BYTES, unaliased_donations=("tokens",))))
    assert verdict.outcome is Outcome.PASS
    assert verdict.detail == ("donated without effect: `tokens`",)


@pytest.mark.parametrize(
    ("loop", "told"),
    [
        ({"alias_bytes": 0}, "generate does not donate its cache"),
        (
            {"alias_bytes": CACHE_BYTES, "cache_copies": ("copy.3: f32[4,2000] copied in body",)},
            "generate copies or rewrites an array",
        ),
    ],
)
def test_a_loop_on_the_device_is_read_beside_the_step(make_case, loop, told):
    """A request runs the loop: a copy in its body fails, however clean the single step is."""
    programs = (ProgramFacts(name="generate", operations={"while": 1}, **loop),)
    verdict = memory.judge(make_case(evidence={"programs": programs}))
    assert verdict.outcome is Outcome.FAIL
    assert told in verdict.summary


@pytest.mark.parametrize(
    ("donation", "shapes"),
    [("state.k", ()), ("state.k f32[2,36,64]", ("f32[2,36,64]",)), ("mine f32[2,36,64]", ("f32[2,36,64]",))],
)
def test_a_cache_array_that_did_not_alias_fails_though_the_bytes_add_up(make_case, donation, shapes):
    """Other arguments may alias as many bytes as the cache has: names and shapes decide."""
    facts = step(alias_bytes=CACHE_BYTES, unaliased_donations=(donation,), cache_shapes=shapes)
    verdict = memory.judge(make_case(evidence=facts))
    assert verdict.outcome is Outcome.FAIL
    assert f"`{donation}` was donated and did not alias" in verdict.summary


@pytest.mark.parametrize("evidence", [{"program": None}, step()])
def test_a_program_that_was_not_read_is_never_a_pass(make_case, evidence):
    """No alias facts, no verdict."""
    assert memory.judge(make_case(evidence=evidence)).outcome is Outcome.SKIPPED


def test_an_engine_without_a_cache_is_skipped(make_case):
    """There is nothing to alias."""
    verdict = memory.judge(make_case(metrics={"kv_cache_allocated_bytes": metric("kv_cache_allocated_bytes", 0)}))
    assert (verdict.outcome, verdict.summary) == (Outcome.SKIPPED, "the engine has no cache")


def test_a_cache_of_unknown_size_is_skipped(make_case):
    """How much should alias is not known."""
    case = make_case()
    case.metrics.pop("kv_cache_allocated_bytes")
    assert memory.judge(case).outcome is Outcome.SKIPPED
