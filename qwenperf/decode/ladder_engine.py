"""The reference engine: one class, whatever its settings; the rung's functions come from ``rung``.

Implements every protocol of ``engine``. Knows nothing of clocks and gates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import jax
import numpy as np

from qwenperf.decode.bounds import check_prompt, check_request, check_step_tokens, check_workload
from qwenperf.decode.engine import EngineFacts, Program, Tokens
from qwenperf.decode.facts import engine_facts
from qwenperf.decode.plan import BETWEEN_REQUESTS, Planned, plan
from qwenperf.decode.programs import Built, abstract_tokens, describe
from qwenperf.decode.reading import Piece, pieces
from qwenperf.decode.reuse import emptied
from qwenperf.decode.rung import Calls
from qwenperf.decode.state import EngineState, KVCache, StepResult, StepTables, TokenBuffer, byte_size
from qwenperf.errors import CapacityError
from qwenperf.models.decoder import Params, logits
from qwenperf.models.registry import Model
from qwenperf.workloads.engine import EngineSettings


@dataclass(frozen=True, kw_only=True)
class LadderEngine:
    """A model with a set of optimisations; ``build_engine`` makes one.

    ``params`` are the model's weights in the layout of the settings; the truth is computed from the model's own.
    ``spare`` keeps the state of the last request, emptied, for the next of the same batch size, so that a cache is
    allocated once (see ``reuse``). Several threads may make requests at a time: each has a state of its own, and only
    one gets the spare one; each program is compiled once. A state in a caller's hands is for one thread.
    """

    name: str
    model: Model
    params: Params
    settings: EngineSettings
    capacity: int
    tables: StepTables
    calls: Calls
    spare: dict[int, Any] = field(default_factory=dict, repr=False)

    def generate(self, tokens_BT: Tokens, new_tokens: int) -> np.ndarray:
        """Return greedy tokens [B, new_tokens] on the host, fetched once; see ``Engine.generate``."""
        prompt_BT = self._checked(tokens_BT, new_tokens)
        if self.calls.generate is None:
            return np.stack(jax.device_get(list(self._stream(prompt_BT, new_tokens))), axis=1)
        first = self._prefill(prompt_BT)
        out_BS, state = self.calls.generate(self.params, first.token, first.state, self.tables, np.int32(new_tokens))
        self._keep(len(prompt_BT), state)
        return np.asarray(out_BS)[:, :new_tokens]

    def stream(self, tokens_BT: Tokens, new_tokens: int) -> Iterator[jax.Array]:
        """Yield tokens [B], one array a step; the request is checked at once, not at the first token."""
        return self._stream(self._checked(tokens_BT, new_tokens), new_tokens)

    def prefill(self, tokens_BT: Tokens) -> tuple[jax.Array, EngineState]:
        """Return logits [B, V] after the prompt and a state that belongs to the caller."""
        prompt_BT = check_prompt(tokens_BT, self.model.config.vocab_size)
        batch, length = prompt_BT.shape
        if length > self.capacity:
            raise CapacityError(f"a prompt of {length} needs {length} positions; the capacity is {self.capacity}.")
        if self.calls.hooks.captured:
            # An earlier request's activations would be seen behind those of the prompt.
            self.spare.pop(batch, None)
        result = self._prefill(prompt_BT)
        return result.logits, EngineState(device=result.state, length=length, batch=batch)

    def decode_step(self, tokens_B: Tokens, state: EngineState) -> tuple[jax.Array, EngineState]:
        """Append one token a row; see ``StepEngine.decode_step``."""
        tokens = check_step_tokens(tokens_B, state.batch, self.model.config.vocab_size)
        if state.length >= self.capacity:
            raise CapacityError(
                f"{state.length} positions are filled and a step needs one more; the capacity is {self.capacity}."
            )
        result = self._step(tokens, state.device)
        return result.logits, EngineState(device=result.state, length=state.length + 1, batch=state.batch)

    def uncached_logits(self, tokens_BT: Tokens) -> jax.Array:
        """Return logits [B, T, V] of the whole sequence, without a cache; compiles for each length."""
        tokens = check_prompt(tokens_BT, self.model.config.vocab_size)
        logits_BTV: jax.Array = self._uncached(self.model.params, tokens)
        return logits_BTV

    def compile(self, batch: int, prompt_length: int, new_tokens: int) -> None:
        """Compile what one workload runs, without running it; nothing where programs are not compiled ahead of time."""
        for planned in self.plan(batch, prompt_length, new_tokens):
            planned.build()

    def plan(self, batch: int, prompt_length: int, new_tokens: int) -> tuple[Planned, ...]:
        """Return the programs of one workload; those that are not compiled ahead of time are left out."""
        check_workload(batch, prompt_length, new_tokens, self.capacity)
        return plan(self.calls, self.params, self.tables, batch=batch, pieces=self._pieces(prompt_length))

    def programs(self, batch: int, prompt_length: int, new_tokens: int) -> Mapping[str, Program]:
        """Return the programs of one workload by name; empty where they are not compiled ahead of time."""
        built: dict[str, Built] = {}
        for planned in self.plan(batch, prompt_length, new_tokens):
            # A last chunk may have a program of its own: the first one's is what is shown.
            if planned.name not in built:
                built[planned.name] = planned.build()
        return {name: describe(name, program) for name, program in built.items() if name not in BETWEEN_REQUESTS}

    def facts(self, batch: int, prompt_length: int, new_tokens: int) -> EngineFacts:
        """Return sizes and work of one workload; see ``decode.facts``."""
        check_workload(batch, prompt_length, new_tokens, self.capacity)
        return engine_facts(
            config=self.model.config,
            params=self.params,
            settings=self.settings,
            capacity=self.capacity,
            allocated_bytes=self._cache_bytes(batch, prompt_length + new_tokens - 1),
            batch=batch,
            prompt_length=prompt_length,
            new_tokens=new_tokens,
        )

    def _checked(self, tokens_BT: Tokens, new_tokens: int) -> np.ndarray:
        prompt_BT = check_prompt(tokens_BT, self.model.config.vocab_size)
        check_request(prompt_BT.shape[1], new_tokens, self.capacity)
        return prompt_BT

    def _stream(self, prompt_BT: np.ndarray, new_tokens: int) -> Iterator[jax.Array]:
        result = self._prefill(prompt_BT)
        yield result.token
        for _ in range(new_tokens - 1):
            result = self._step(result.token, result.state)
            yield result.token
        self._keep(len(prompt_BT), result.state)

    def _keep(self, batch: int, state: Any) -> None:
        # A state of somebody's own step is theirs: nobody here knows what of it the next request would read.
        if self.calls.clear is not None and isinstance(state, KVCache | TokenBuffer):
            # One: those of every batch size ever asked for would fill the device.
            self.spare.clear()
            self.spare[batch] = emptied(state, self.calls.clear)

    def _prefill(self, prompt_BT: np.ndarray) -> StepResult:
        batch, length = prompt_BT.shape
        state = self.spare.pop(batch, None)
        state = self.calls.new_state(batch) if state is None else state
        for piece in self._pieces(length):
            span = (_on_device(piece.span),) if self.calls.in_pieces else ()
            tokens = _on_device(piece.cut(prompt_BT))
            result: StepResult = self.calls.prefill(self.params, tokens, state, self.tables, *span)
            state = result.state
        return result

    def _pieces(self, length: int) -> tuple[Piece, ...]:
        return pieces(length, self.settings, self.capacity)

    def _step(self, tokens_B: Any, state: Any) -> StepResult:
        result: StepResult = self.calls.decode_step(self.params, tokens_B, state, self.tables)
        return result

    def _cache_bytes(self, batch: int, positions: int) -> int:
        """Return the bytes of a cache of ``positions``, by the shapes that the engine's own functions return."""
        if self.settings.cache == "none":
            return 0
        state = jax.eval_shape(partial(self.calls.empty, batch))
        if state is None:
            tokens_BT = abstract_tokens(batch, positions)
            state = jax.eval_shape(self.calls.prefill, self.params, tokens_BT, None, self.tables).state
        return byte_size(state.layers)

    @cached_property
    def _uncached(self) -> Any:
        def uncached_logits(params: Any, tokens: jax.Array) -> jax.Array:
            return logits(params, self.model.config, tokens, window=self.settings.window)

        return jax.jit(uncached_logits)


def _on_device(array: np.ndarray) -> jax.Array:
    """Return ``array`` on the device; jnp.asarray would compile a program for each new shape."""
    placed: jax.Array = jax.device_put(array)
    return placed
