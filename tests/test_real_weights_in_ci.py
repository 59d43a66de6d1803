"""What becomes of a test that needs the real weights where they cannot be had."""

import pytest


@pytest.mark.parametrize(("value", "ends"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_absent_weights_fail_in_ci_and_skip_elsewhere(weights_absent, monkeypatch, value, ends):
    """A suite that skips in CI is green without having looked."""
    monkeypatch.setenv("CI", value)
    with pytest.raises(ends, match="no index"):
        weights_absent("no index")
