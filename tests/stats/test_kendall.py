"""The distribution behind the interval of a slope, against counting every order."""

from itertools import combinations, permutations

import pytest

from qwenperf.stats import kendall
from qwenperf.stats.summary import theil_sen


def counted(xs):
    """Count the turned pairs of every order of distinct y."""
    pairs = [(i, j) for i, j in combinations(range(len(xs)), 2) if xs[i] != xs[j]]
    turned = [sum(order[i] > order[j] for i, j in pairs) for order in permutations(range(len(xs)))]
    return [turned.count(number) for number in range(len(pairs) + 1)]


@pytest.mark.parametrize("xs", [(0, 1, 2), (0, 1, 2, 3), (0, 0, 1, 1), (0, 0, 0, 1, 2, 2), (0, 1, 2, 3, 4, 5)])
def test_counts_are_those_of_all_orders(xs):
    """Ties in x included, up to a common factor."""
    expected = counted(xs)
    found = kendall.counts([xs.count(x) for x in dict.fromkeys(xs)])
    factor = sum(expected) // sum(found)
    assert [factor * count for count in found] == expected


@pytest.mark.parametrize(("points", "coverage"), [(3, 2 / 3), (4, 11 / 12)])
def test_few_points_say_the_coverage_that_they_have(points, coverage):
    """From the lowest slope to the highest is the widest interval there is, and it is no 95%."""
    found = theil_sen(range(points), [0.0, 2.0, 1.0, 5.0][:points])
    assert found.coverage == pytest.approx(coverage)
    assert (found.low, found.high) == (-1.0, max(2.0, 4.0 * (points > 3)))


@pytest.mark.parametrize("groups", [[1] * 5, [1] * 20, [2] * 10, [1] * 41, [3] * 50])
def test_the_depth_is_the_deepest_that_is_confident_and_leaves_both_ends_alike(groups):
    """One deeper would not be."""
    depth, coverage = kendall.depth(groups, 0.95)
    assert coverage >= 0.95
    tail = kendall._exact_tail(groups) if sum(groups) <= kendall.EXACT else kendall._normal_tail(groups)
    assert 1 - 2 * tail(depth + 1) < 0.95


def test_counting_and_the_normal_distribution_agree_where_they_meet():
    """At 40 points the depths differ by one at most."""
    exact, normal = kendall._exact_tail([1] * 40), kendall._normal_tail([1] * 40)
    assert exact(300) == pytest.approx(normal(300), abs=0.001)
