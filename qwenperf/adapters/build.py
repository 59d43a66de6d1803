"""One way in: whatever somebody calls their engine, as an engine.

An engine of ours passes through; a pair, an object with steps, a model with its parameters and a bare function each get
their adapter. Whether an object has a name of its own changes nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from qwenperf.adapters.callable import CallableEngine
from qwenperf.adapters.flax import flax_engine
from qwenperf.adapters.joined import PARTS, JoinedEngine, joined, with_truth
from qwenperf.adapters.steps import StepsEngine
from qwenperf.decode.engine import Engine, StepEngine
from qwenperf.decode.ladder_engine import LadderEngine
from qwenperf.errors import UsageError

ACCEPTED = (
    "Give a generate(tokens, new_tokens) function, an object with such a method or with prefill and decode_step, "
    "a (prefill, decode_step) pair, or a (model, params) pair whose model has apply()."
)

Logits = Callable[[Any], jax.Array]

_OURS = (CallableEngine, JoinedEngine, StepsEngine, LadderEngine)
"""What returns just what ``decode.engine`` asks for; anything else may return more, and is looked at."""


def as_engine(subject: Any, *, uncached: Logits | None = None, name: str = "") -> Engine:
    """Return ``subject`` as an engine.

    Args:
      subject: see ``ACCEPTED``.
      uncached: tokens [B, T] to logits [B, T, V] of the whole sequence; the truth to compare tokens with.
      name: what messages call it, where ``subject`` has no name.

    Raises:
      UsageError: nothing that generates tokens; names what was seen.
    """
    if isinstance(subject, tuple):
        return _pair(subject, uncached, name)
    _check_parts(subject)
    if isinstance(subject, _OURS):
        return subject if uncached is None else with_truth(subject, uncached)
    uncached = uncached or getattr(subject, "uncached_logits", None)
    name = _own_name(subject) or name or _name(subject)
    if isinstance(subject, StepEngine):
        return _stepping(subject, uncached, name)
    call = getattr(subject, "generate", subject)
    if not callable(call):
        raise UsageError(f"{_describe(subject)} is no engine.", advice=ACCEPTED)
    whole = CallableEngine(name=name, call=call, uncached_logits=uncached)
    return whole if call is subject else joined(name, subject, generate=whole.generate, uncached_logits=uncached)


def _stepping(subject: StepEngine, uncached: Logits | None, name: str) -> Engine:
    """Return an object with steps as an engine: what it has of its own is used, a loop of its steps for the rest."""
    steps = StepsEngine(name=name, first=subject.prefill, step=subject.decode_step, uncached_logits=uncached)
    call = getattr(subject, "generate", None)
    whole = steps.generate if call is None else CallableEngine(name=name, call=call).generate
    checked = {"prefill": steps.prefill, "decode_step": steps.decode_step}
    return joined(name, subject, steps, generate=whole, **checked, uncached_logits=uncached)


def _pair(pair: tuple[Any, ...], uncached: Logits | None, name: str) -> Engine:
    if len(pair) == 2 and all(callable(part) for part in pair):
        return StepsEngine(name=name or _name(pair[1]), first=pair[0], step=pair[1], uncached_logits=uncached)
    if len(pair) == 2 and callable(getattr(pair[0], "apply", None)):
        return flax_engine(pair[0], pair[1], uncached=uncached, name=name)
    raise UsageError(f"({', '.join(_describe(part) for part in pair)}) is no engine.", advice=ACCEPTED)


def _check_parts(subject: Any) -> None:
    """Refuse what has the name of a method and is none, before something calls it."""
    for part in PARTS:
        value = getattr(subject, part, None)
        if value is not None and not callable(value):
            raise UsageError(f"{part} of {_name(subject)} is {_describe(value)}.", advice="It must be a method.")


def _own_name(subject: Any) -> str:
    own = getattr(subject, "name", "")
    return own if isinstance(own, str) else ""


def _name(subject: Any) -> str:
    inner = getattr(subject, "func", subject)
    return getattr(inner, "__name__", type(inner).__name__)


def _describe(subject: Any) -> str:
    return f"{type(subject).__name__} {subject!r}"[:80]
