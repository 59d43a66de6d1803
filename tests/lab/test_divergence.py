"""Where an engine leaves uncached decoding is found exactly, and a tie is told from a bug."""

import numpy as np
import pytest

from qwenperf.errors import MeasurementError
from qwenperf.lab.divergence import compare, equal_share, of_rows, worse
from qwenperf.lab.logits import Logits, relative_rounding

VOCAB = 11


@pytest.fixture
def uncached():
    """Logits [2, 5, 11] whose largest is 4 and leads by 2."""
    logits = np.random.default_rng(0).uniform(-1, 1, (2, 5, VOCAB)).astype(np.float32)
    for row in range(2):
        for step in range(5):
            logits[row, step, (3 * row + step) % VOCAB] = 3 if step else 4
    return logits


@pytest.fixture
def greedy(uncached):
    """The tokens of uncached decoding."""
    return uncached.argmax(-1)


def test_equal_tokens_are_equal(uncached, greedy):
    """No position, no margins, the whole share, and the error of the logits."""
    found = compare(greedy, Logits(uncached=uncached, engine=uncached + np.float32(4e-6)), "f32")
    assert found.equal
    assert found.position is None
    assert equal_share(found, 5) == 1
    assert found.max_logit_error == pytest.approx(4e-6 / 3, rel=0.1)
    assert found.max_logit_error < found.logit_tolerance


def test_the_first_difference_is_found_with_both_margins(uncached, greedy):
    """Row, position, both tokens and how sure each side was."""
    tokens, engine = greedy.copy(), uncached.copy()
    tokens[1, 2], engine[1, 2, 7] = 7, 5
    tokens[0, 4] = 9
    found = compare(tokens, Logits(uncached=uncached, engine=engine), "f32")
    assert (found.equal, found.row, found.position) == (False, 1, 2)
    assert (found.expected_token, found.actual_token) == (greedy[1, 2], 7)
    assert found.reference_margin == pytest.approx(3 - uncached[1, 2, 7])
    assert found.engine_margin == pytest.approx(-2)
    assert not found.near_tie
    assert equal_share(found, 5) == pytest.approx(2 / 5)


@pytest.mark.parametrize(
    ("dtype", "gap", "near_tie"), [("f32", 1e-5, True), ("f32", 1e-2, False), ("bf16", 1e-2, True)]
)
def test_a_tie_within_the_rounding_of_the_dtype_is_no_bug(uncached, greedy, dtype, gap, near_tie):
    """What is a tie in bf16 is a bug in f32."""
    expected = greedy[0, 3]
    other = (expected + 1) % VOCAB
    uncached[0, 3, other] = uncached[0, 3, expected] - np.float32(gap)
    tokens = greedy.copy()
    tokens[0, 3] = other
    found = compare(tokens, Logits(uncached=uncached), dtype)
    assert (found.position, found.near_tie) == (3, near_tie)
    assert found.tolerance == pytest.approx(relative_rounding(dtype) * 3, rel=1e-3)


def test_a_bug_behind_a_tie_is_seen_in_the_logits(uncached, greedy):
    """Steps after the first difference are compared too, fed the same tokens."""
    engine = uncached.copy()
    engine[0, 4, 2] += 1
    found = compare(greedy, Logits(uncached=uncached, engine=engine), "f32")
    assert found.worst_step == 4
    assert found.max_logit_error == pytest.approx(1 / 3)


def tied(uncached, greedy, row, step, gap=1e-5):
    """Make the runner-up of a cell as good as its best, and return it."""
    expected = greedy[row, step]
    other = (expected + 1) % VOCAB
    uncached[row, step, other] = uncached[row, step, expected] - np.float32(gap)
    return other


@pytest.mark.parametrize(("row", "step"), [(1, 1), (0, 3), (1, 4)])
def test_a_tie_excuses_neither_another_row_nor_a_later_token(uncached, greedy, row, step):
    """The bug is what is reported; the share of equal tokens ends at the tie before it."""
    tokens = greedy.copy()
    tokens[0, 1] = tied(uncached, greedy, 0, 1)
    tokens[row, step] = (greedy[row, step] + 3) % VOCAB
    found = compare(tokens, Logits(uncached=uncached), "f32")
    assert (found.near_tie, found.row, found.position) == (False, row, step)
    assert found.reference_margin > 1
    assert equal_share(found, 5) == pytest.approx(1 / 5)


def test_ties_alone_stay_ties(uncached, greedy):
    """Several ties are no bug, and the first of them is reported."""
    tokens = greedy.copy()
    tokens[1, 1], tokens[0, 3] = tied(uncached, greedy, 1, 1), tied(uncached, greedy, 0, 3)
    found = compare(tokens, Logits(uncached=uncached), "f32")
    assert (found.near_tie, found.row, found.position) == (True, 1, 1)
    assert (found.extra["differences"], found.extra["beyond_rounding"]) == (2, 0)


@pytest.mark.parametrize("side", ["uncached", "engine"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_logits_that_are_not_finite_are_never_equal(uncached, greedy, side, bad):
    """NaN's argmax may agree by accident; that is no agreement and no tie."""
    engine = uncached.copy()
    (uncached if side == "uncached" else engine)[1, 3, greedy[1, 3]] = bad
    found = compare(greedy, Logits(uncached=uncached, engine=engine), "f32")
    assert (found.equal, found.near_tie, found.row, found.position) == (False, False, 1, 3)
    assert found.extra["not_finite"]
    assert found.max_logit_error is None


@pytest.mark.parametrize("side", ["uncached", "engine"])
def test_each_row_and_step_is_held_to_its_own_scale(uncached, greedy, side):
    """A row of huge logits hides no error of another: 1 of 3 is too much wherever it is."""
    engine = uncached.copy()
    uncached[0] *= 1e5
    engine[0] *= 1e5
    (uncached if side == "uncached" else engine)[1, 4, 2] += 1
    found = compare(greedy, Logits(uncached=uncached, engine=engine), "f32")
    assert (found.equal, found.worst_step) == (True, 4)
    assert found.max_logit_error == pytest.approx(1 / 3)


MASKS = [-np.inf, -1e9, np.finfo(np.float32).min, -65504.0, -1e4]


@pytest.mark.parametrize("mask", MASKS)
def test_a_masked_vocabulary_hides_no_error_of_the_rest(uncached, mask):
    """A mask is no logit: it gives no scale, neither to the logits nor to a tie."""
    uncached[..., -1] = mask
    expected = uncached.argmax(-1)
    engine = uncached.copy()
    engine[0, 2, 4] += 1
    found = compare(expected, Logits(uncached=uncached, engine=engine), "f32")
    assert (found.equal, found.worst_step) == (True, 2)
    assert found.max_logit_error == pytest.approx(1 / 3)
    tokens = expected.copy()
    tokens[1, 3] = (expected[1, 3] + 1) % (VOCAB - 1)
    assert not compare(tokens, Logits(uncached=uncached, engine=uncached), "f32").near_tie


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("share", [1, 8])
def test_a_vocabulary_that_both_sides_mask_is_no_difference(uncached, mask, share):
    """The same places on both sides agree, few or most of the vocabulary; masks may differ by their rounding."""
    uncached[..., -share:] = mask
    engine = uncached.copy()
    engine[..., -share:] *= np.float32(0.99)
    found = compare(uncached.argmax(-1), Logits(uncached=uncached, engine=engine), "f32")
    assert (found.equal, found.max_logit_error) == (True, 0)


@pytest.mark.parametrize("mask", MASKS[1:])
@pytest.mark.parametrize("side", ["uncached", "engine"])
def test_a_finite_mask_on_one_side_only_is_an_error_of_that_logit(uncached, greedy, mask, side):
    """What one side forbids, the other may choose some day."""
    engine = uncached.copy()
    (uncached if side == "uncached" else engine)[0, 1, 6] = mask
    found = compare(greedy, Logits(uncached=uncached, engine=engine), "f32")
    assert found.worst_step == 1
    assert 1000 < found.max_logit_error < np.inf


@pytest.mark.parametrize(
    ("uncached_has", "engine_has", "told"),
    [
        (np.nan, 0, "uncached has NaN among its logits"),
        (0, np.nan, "the engine has NaN among its logits"),
        (0, np.inf, "the engine has +inf among its logits"),
        (np.inf, np.inf, "uncached has +inf among its logits"),
        (0, -np.inf, "the logit of 6 is -inf for the engine only"),
        (-np.inf, 0, "the logit of 6 is -inf for uncached only"),
    ],
)
def test_what_is_not_finite_is_told(uncached, greedy, uncached_has, engine_has, told):
    """NaN, +inf, and a mask on one side only are no equal logits, and the side is named."""
    engine = uncached.copy()
    uncached[0, 1, 6], engine[0, 1, 6] = uncached_has, engine_has
    found = compare(greedy, Logits(uncached=uncached, engine=engine), "f32")
    assert (found.equal, found.near_tie, found.row, found.position) == (False, False, 0, 1)
    assert found.extra["not_finite"] == told


def test_a_step_that_masks_everything_is_no_agreement(uncached):
    """Without one finite logit there is nothing to choose from."""
    uncached[0, 1] = -np.inf
    found = compare(uncached.argmax(-1), Logits(uncached=uncached, engine=uncached.copy()), "f32")
    assert found.extra["not_finite"] == "uncached has -inf for the whole vocabulary"


def test_a_masked_token_is_a_bug(uncached, greedy):
    """A token that uncached decoding forbids is never a tie."""
    uncached[0, 3, 9] = -np.inf
    tokens = greedy.copy()
    tokens[0, 3] = 9
    found = compare(tokens, Logits(uncached=uncached), "f32")
    assert (found.equal, found.near_tie, found.extra["masked"]) == (False, False, True)


@pytest.mark.parametrize("fault", ["not_finite", "masked"])
def test_a_fault_behind_another_difference_is_reported(uncached, greedy, fault):
    """The share of equal tokens still ends at the first difference."""
    tokens = greedy.copy()
    tokens[0, 1] = (greedy[0, 1] + 3) % VOCAB
    uncached[1, 3, 9] = np.nan if fault == "not_finite" else -np.inf
    tokens[1, 3] = 9
    found = compare(tokens, Logits(uncached=uncached), "f32")
    assert (found.row, found.position, found.extra["equal_tokens"]) == (1, 3, 1)
    assert found.extra[fault]


def test_of_two_comparisons_nothing_that_counts_is_dropped(uncached, greedy):
    """Neither the fault, nor the larger error, nor a stray token, in whichever of both it is."""
    nan, far = uncached.copy(), uncached.copy()
    nan[1, 3, 2] = np.nan
    far[0, 4, 2] += 1
    tokens = greedy.copy()
    tokens[0, 1] = (greedy[0, 1] + 3) % VOCAB
    stray = compare(tokens, Logits(uncached=uncached, engine=far), "f32")
    broken = compare(tokens, Logits(uncached=uncached, engine=nan), "f32")
    for both in ((stray, broken), (broken, stray)):
        found = worse(*both)
        assert (found.row, found.position, found.extra["not_finite"]) == (1, 3, "the engine has NaN among its logits")
        assert found.extra["not_own_choice"]["position"] == 1
        assert (found.max_logit_error, found.worst_step) == (pytest.approx(1 / 3), 4)
        assert found.logit_tolerance == relative_rounding("f32")


def test_an_error_where_the_truth_is_all_zeros_is_an_error(uncached):
    """Nothing is within the rounding of zero but zero."""
    engine = uncached.copy()
    uncached[0, 2] = 0
    engine[0, 2] = np.where(np.arange(VOCAB) == 0, 1e-3, 0)
    found = compare(uncached.argmax(-1), Logits(uncached=uncached, engine=engine), "f32")
    assert found.max_logit_error == 1


@pytest.mark.parametrize("token", [-1, VOCAB, 2**40])
def test_a_token_outside_the_vocabulary_is_named(uncached, greedy, token):
    """No index of numpy's says so."""
    tokens = greedy.astype(np.int64)
    tokens[1, 2] = token
    with pytest.raises(MeasurementError, match=rf"token {token} \(row 1, token 2\), outside the vocabulary of 11"):
        compare(tokens, Logits(uncached=uncached), "f32")


def test_without_steps_only_tokens_are_compared(uncached, greedy):
    """An engine that gives no logits has no engine margin and no logit error."""
    tokens = (greedy + 1) % VOCAB
    found = compare(tokens, Logits(uncached=uncached), "f32")
    assert (found.position, found.engine_margin, found.max_logit_error) == (0, None, None)
    assert equal_share(found, 5) == 0


def test_the_induction_finds_where_free_running_decoding_leaves():
    """One forward over the engine's own tokens gives the position at which separate greedy decoding differs first."""
    table = np.random.default_rng(3).normal(size=(VOCAB, VOCAB)).astype(np.float32)

    def decode(first, flip_at=None):
        tokens = [first]
        for step in range(8):
            token = int(table[tokens[-1]].argmax())
            tokens.append((token + 1) % VOCAB if step == flip_at else token)
        return np.asarray([tokens[1:]])

    free, faulty = decode(2), decode(2, flip_at=5)
    fed = np.concatenate([[[2]], faulty[:, :-1]], axis=1)
    found = compare(faulty, Logits(uncached=table[fed]), "f32")
    assert found.position == int((free != faulty)[0].argmax()) == 5


def _spoil(random, tokens, uncached, engine):
    """Plant some of: another token, a tie, a masked token, an error of a logit, a number that is none."""
    rows, steps, vocabulary = uncached.shape
    for fault in random.choice(["token", "tie", "mask", "error", "nan", "own"], random.integers(0, 4)):
        row, step, other = random.integers(rows), random.integers(steps), random.integers(vocabulary)
        if fault == "tie":
            uncached[row, step, other] = engine[row, step, other] = uncached[row, step].max() - np.float32(1e-6)
        if fault == "mask":
            uncached[row, step, other] = engine[row, step, other] = -np.inf
        if fault in ("token", "tie", "mask"):
            tokens[row, step] = other
        if fault == "error":
            engine[row, step, other] += np.float32(0.1)
        if fault == "nan":
            engine[row, step, other] = np.nan
        if fault == "own":
            engine[row, step, other] = 9


@pytest.mark.parametrize("steps", [True, False], ids=["steps", "tokens only"])
def test_rows_compared_one_by_one_say_what_the_batch_says(steps):
    """The same record, whatever is wrong and in how many rows: where it is, how much of it, and how sure both are."""
    kinds = set()
    for seed in range(200):
        random = np.random.default_rng(seed)
        uncached = random.uniform(-1, 1, (3, 4, VOCAB)).astype(np.float32)
        engine, tokens = uncached.copy(), uncached.argmax(-1)
        _spoil(random, tokens, uncached, engine)
        whole, *alone = (
            compare(tokens[part], Logits(uncached=uncached[part], engine=engine[part] if steps else None), "f32")
            for part in (slice(None), [0], [1], [2])
        )
        assert of_rows(alone) == whole
        kinds.add((whole.equal, whole.near_tie, *sorted(whole.extra)))
    assert len(kinds) >= (6 if steps else 4)
