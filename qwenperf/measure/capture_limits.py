"""How long a capture may take. Imports no JAX: who waits for a capture in another process has to know."""

from __future__ import annotations

ATTEMPTS = 2
"""A profile that cannot be used is taken once more."""

STOP_S = 60.0
"""Seconds that writing a profile may take: larger ones have been seen to take minutes, and to hang."""


def longest_s(deadline_s: float, stop_s: float = STOP_S) -> float:
    """Return the seconds after which a capture has given up, but for one step and reading what was saved.

    It waits ``deadline_s`` for another capture, and takes steps for as long in each attempt.
    """
    return deadline_s + ATTEMPTS * (deadline_s + stop_s)
