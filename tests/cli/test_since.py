"""``--since``: what is an age, what a commit, and what could be either."""

from datetime import UTC, datetime

import pytest

from qwenperf.cli.since import read_since
from qwenperf.errors import UsageError

NOW = datetime(2026, 11, 28, tzinfo=UTC)
COMMITS = {"365d00aa": 1_700_000_000.0, "1234567d": 1_710_000_000.0}


def since(text):
    return read_since(text, NOW, lambda begin: [one for one in COMMITS.items() if one[0].startswith(begin)])


def test_an_age_is_an_age():
    assert since("30d") == datetime(2026, 10, 29, tzinfo=UTC)
    assert since("366d") == datetime(2025, 11, 27, tzinfo=UTC)


def test_the_beginning_of_a_commit_is_that_commit():
    assert since("365D00").timestamp() == COMMITS["365d00aa"]
    assert since("1234567d").timestamp() == COMMITS["1234567d"]


def test_what_could_be_either_is_asked_about():
    """A year's days are the beginning of a hash here: neither is taken in silence."""
    with pytest.raises(UsageError, match="is an age, and begins a commit too") as told:
        since("365d")
    assert told.value.advice == "Give more of the hash, or the age in hours (h) or weeks (w)."
