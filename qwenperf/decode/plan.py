"""Which programs a workload runs, and what they are compiled for: known before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from qwenperf.decode.programs import AheadOfTime, Built, Compilable, InPlace, Key, NewState, abstract_tokens, build
from qwenperf.decode.reading import Piece
from qwenperf.decode.reuse import contents_of
from qwenperf.decode.rung import Calls

NEW_STATE = "new_state"
CLEAR = "clear"
BETWEEN_REQUESTS = (NEW_STATE, CLEAR)
"""Programs that make a state ready for a request, and none of its tokens."""


class Shape(NamedTuple):
    """Sizes of a request that an engine is told of before it comes."""

    batch: int
    prompt_length: int
    new_tokens: int


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One program: of which function, and for which arguments (abstract but for the weights)."""

    name: str
    call: Compilable
    arguments: tuple[Any, ...]

    @property
    def key(self) -> Key:
        """What the program is looked up by, among those of its function."""
        return self.call.key(*self.arguments)

    def build(self) -> Built:
        """Return the executable, compiled now if it is the first of its key."""
        return build(self.call, *self.arguments)

    def lower(self) -> jax.stages.Lowered:
        """Return the program as it is given to the compiler."""
        return self.call.lower(*self.arguments)


def plan(calls: Calls, params: Any, tables: Any, *, batch: int, pieces: Sequence[Piece]) -> tuple[Planned, ...]:
    """Return the programs of requests of ``batch`` prompts that are read in ``pieces``, each once.

    Functions that are not compiled ahead of time have no program before they are called, and are left out.
    """
    unique = {(planned.name, planned.key): planned for planned in _all(calls, params, tables, batch, pieces)}
    return tuple(unique.values())


def _all(calls: Calls, params: Any, tables: Any, batch: int, pieces: Sequence[Piece]) -> Iterator[Planned]:
    state = jax.eval_shape(partial(calls.empty, batch))
    if isinstance(calls.new_state, NewState):
        yield Planned(name=NEW_STATE, call=calls.new_state, arguments=(batch,))
    if isinstance(calls.prefill, AheadOfTime):
        for piece in pieces:
            given = (params, abstract_tokens(batch, piece.width), state, tables)
            span = (abstract_tokens(2),) if calls.in_pieces else ()
            yield Planned(name="prefill", call=calls.prefill, arguments=(*given, *span))
    step = (params, abstract_tokens(batch), state, tables)
    if isinstance(calls.decode_step, AheadOfTime):
        yield Planned(name="decode_step", call=calls.decode_step, arguments=step)
    if isinstance(calls.generate, AheadOfTime):
        yield Planned(name="generate", call=calls.generate, arguments=(*step, np.int32(1)))
    if isinstance(calls.clear, InPlace):
        yield Planned(name=CLEAR, call=calls.clear, arguments=(contents_of(state),))
