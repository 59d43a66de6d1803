"""Where an engine leaves uncached decoding is found exactly, and a tie is told from a bug."""

import numpy as np
import pytest

from qwenperf.lab.divergence import Logits, compare, equal_share, relative_rounding

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
    assert found.max_logit_error == pytest.approx(1e-6, rel=0.2)
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
    assert found.max_logit_error == pytest.approx(0.25)


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
