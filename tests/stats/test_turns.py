"""What a side took in a round."""

import pytest

from qwenperf.stats.turns import side_time


def test_a_side_has_the_geometric_mean_of_its_turns():
    """Whoever began."""
    assert side_time((1.0, 8.0, 2.0, 4.0), "ABBA", "A") == pytest.approx(2.0)
    assert side_time((1.0, 8.0, 2.0, 4.0), "ABBA", "B") == pytest.approx(4.0)


def test_a_clock_that_saw_nothing_gives_0():
    """No ratio is made of it."""
    assert side_time((0.0, 1.0, 1.0, 1.0), "ABBA", "A") == 0.0
