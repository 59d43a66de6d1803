"""The package's table of contents is complete."""

import qwenperf


def test_every_public_name_is_there():
    """What __all__ lists can be imported, and help lists it."""
    assert set(qwenperf.__all__) <= set(dir(qwenperf))
    for name in qwenperf.__all__:
        assert getattr(qwenperf, name) is not None
