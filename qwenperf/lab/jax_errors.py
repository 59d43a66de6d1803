"""Errors of JAX that mean a common mistake of decode loops, told by what they say. Pure: text in, finding out.

JAX's own words name the line; what they do not say is what a decode loop does instead.
"""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass

from qwenperf.schema.records import Finding, Severity


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """A mistake, and the words by which it is known."""

    code: str
    words: re.Pattern[str]
    message: str
    advice: str


def _mistake(code: str, words: str, message: str, advice: str) -> Mistake:
    return Mistake(code=code, words=re.compile(words), message=message, advice=advice)


MISTAKES = (
    _mistake(
        "traced-control-flow",
        r"TracerBoolConversionError",
        "Python decides by a value that has none while the program is traced.",
        "Decide before tracing (functools.partial, or static_argnames where there are few values), or on the device "
        "with jax.lax.cond or jnp.where.",
    ),
    _mistake(
        "host-in-trace",
        r"TracerArrayConversionError",
        "numpy is handed an array that has no value while the program is traced.",
        "Use jax.numpy inside of a jitted function, and numpy before it.",
    ),
    _mistake(
        "dynamic-shape",
        r"ConcretizationTypeError|TracerIntegerConversionError|NonConcreteBooleanIndexError"
        r"|Shapes must be 1D sequences|slice indices must have static|Slice entries must be static",
        "a shape, or a number that Python asks for, depends on a value that has none while the program is traced.",
        "Give the array its full size and mask it, or take jax.lax.dynamic_slice_in_dim of a fixed size; a length that "
        "has few values may be static.",
    ),
    _mistake(
        "in-place-update",
        r"JAX arrays are immutable",
        "an array is assigned to, and arrays of JAX do not change.",
        "Write x = x.at[i].set(y), or jax.lax.dynamic_update_slice; of a donated argument neither is a copy.",
    ),
    _mistake(
        "used-after-donation",
        r"Array has been deleted|[Bb]uffer has been deleted or donated",
        "an array is used after a call that it was donated to.",
        "Go on with what that call returned, or leave the argument out of donate_argnums.",
    ),
)
"""What docs/mistakes.md says more of. The first whose words are there counts: errors of JAX are often two of these."""


def mistake_in(text: str) -> Finding | None:
    """Return the mistake that the last words of a process, or an error's, are known to mean; ``None`` of any others."""
    for known in MISTAKES:
        if known.words.search(text):
            return Finding(code=known.code, severity=Severity.WARNING, message=known.message, advice=known.advice)
    return None


def explain(error: BaseException) -> Finding | None:
    """Return the mistake that ``error`` means, and add it to what a traceback shows."""
    found = mistake_in("".join(traceback.format_exception_only(error)))
    if found is not None:
        error.add_note(f"qwenperf: {found.message} {found.advice}")
    return found
