"""Generation as people use it: sampling, stop tokens, prompts of different lengths, streams.

    generator = build_generator(model, "cached", capacity=512)
    out = generator.generate([[1, 2, 3], [4]], 50, sampling=Sampling(top_p=0.9), keys=keys, stop=[2])

A generator runs a model as an engine's settings say: layouts of weights and cache, the loop on the host or on the
device. It compiles once for a batch and a width of prompts; whatever else a request asks for is data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from qwenperf.decode.build import build_engine
from qwenperf.decode.hooks import Hook
from qwenperf.decode.ladder_engine import LadderEngine
from qwenperf.decode.programs import NewState, compile_ahead, compile_options, named
from qwenperf.decode.prompts import Prompts
from qwenperf.decode.requests import Checked, Limits, check
from qwenperf.decode.reuse import emptied
from qwenperf.decode.rows import RowResult, RowState, generate_rows, prefill_rows, step_rows
from qwenperf.errors import ConfigError
from qwenperf.models.registry import Model
from qwenperf.models.variant import variant_of
from qwenperf.workloads.engine import EngineSettings, parse_engine


@dataclass(frozen=True, kw_only=True)
class Emitted:
    """One step of a stream.

    Attributes:
      tokens: int32 [B], on the device; the padding token in rows that had ended before.
      ended: bool [B], on the device: which rows have ended with this token or before.
      captured: what hooks captured in this step, by point: [B, T, D] of the prompt first, then [B, 1, D].
    """

    tokens: jax.Array
    ended: jax.Array
    captured: Mapping[str, jax.Array]


@dataclass(frozen=True, kw_only=True)
class Generated:
    """What came of a request.

    Attributes:
      tokens: int32 [B, new tokens], on the host; behind a row's last token there is the padding token.
      counts: int32 [B]: how many tokens of each row count, its stop token among them.
      stopped: bool [B]: which rows ended by a stop token; the others got as many tokens as were asked for.
      pads: int32 [B]: the first position of each row in ``captured``.
      captured: what hooks captured, by point, [B, positions, D], on the device; as many positions as the capacity.
    """

    tokens: np.ndarray
    counts: np.ndarray
    stopped: np.ndarray
    pads: np.ndarray
    captured: Mapping[str, jax.Array]

    def rows(self) -> list[list[int]]:
        """Return each row's tokens, those that count."""
        return [row[:count].tolist() for row, count in zip(self.tokens, self.counts, strict=True)]


@dataclass(frozen=True, kw_only=True)
class Generator:
    """Generates from ragged batches; ``build_generator`` makes one.

    ``spare`` keeps the state of the last finished request, emptied, for the next of the same batch size (see
    ``reuse``). A request that is refused or given up leaves nothing behind.
    """

    engine: LadderEngine
    limits: Limits
    new_state: NewState
    prefill: Any
    step: Any
    loop: Any
    spare: dict[int, RowState] = field(default_factory=dict, repr=False)

    def generate(self, prompts: Prompts, new_tokens: int, **wishes: Any) -> Generated:
        """Return at most ``new_tokens`` tokens for each prompt; fewer where a row meets a stop token.

        Args:
          prompts: token ids: a list of lists, or an array [B, T].
          new_tokens: the most tokens that a row gets.
          **wishes: see ``stream``.

        Raises:
          TokenError: prompts, stop or padding tokens that the model does not know.
          CapacityError: the longest prompt and the new tokens do not fit the cache.
          ConfigError: sampling or keys that are none, or not one for each prompt.
        """
        request = check(prompts, new_tokens, self.limits, **wishes)
        if self.engine.settings.loop == "host":
            return self._collected(request)
        first = self._prefill(request)
        out_BS, state = self.loop(self.engine.params, first.token, first.state, self.engine.tables, request.data)
        return self._finished(request, np.asarray(out_BS)[:, :new_tokens], state)

    def stream(self, prompts: Prompts, new_tokens: int, **wishes: Any) -> Iterator[Emitted]:
        """Yield a step at a time, until all rows have ended; the request is checked at once.

        Args:
          prompts: token ids: a list of lists, or an array [B, T].
          new_tokens: the most tokens that a row gets.
          **wishes: ``sampling``, a ``Sampling`` or one for each prompt (greedy by default); ``keys``, one typed key a
            prompt; ``stop``, tokens that end a row, or a list of them for each prompt (the model's ``end_tokens`` by
            default, none with ``stop=()``); ``pad``, the token that follows; ``attention_mask``, of an array of
            prompts that has padding at either end.

        Raises:
          TokenError, CapacityError, ConfigError: as ``generate``.
        """
        return self._stream(check(prompts, new_tokens, self.limits, **wishes))

    def _stream(self, request: Checked, kept: list[RowState] | None = None) -> Iterator[Emitted]:
        result = self._prefill(request)
        for index in range(request.new_tokens):
            yield Emitted(tokens=result.token, ended=result.ended, captured=result.captured)
            # The host waits for a token only where one may be the last.
            if index + 1 == request.new_tokens or (request.may_end and np.asarray(result.ended).all()):
                break
            result = self.step(self.engine.params, result.token, result.state, self.engine.tables, request.data)
        if kept is None:
            self._spare(request, result.state)
        else:
            kept.append(result.state)

    def _collected(self, request: Checked) -> Generated:
        kept: list[RowState] = []
        columns = jax.device_get([emitted.tokens for emitted in self._stream(request, kept)])
        out_BN = np.full((len(request.tokens), request.new_tokens), request.data.pad, np.int32)
        out_BN[:, : len(columns)] = np.stack(columns, axis=1)
        return self._finished(request, out_BN, kept[0])

    def _finished(self, request: Checked, out_BN: np.ndarray, state: RowState) -> Generated:
        done = Generated(
            tokens=out_BN,
            counts=np.asarray(state.counts),
            stopped=np.asarray(state.ended),
            pads=np.asarray(request.data.pads),
            captured=state.cache.seen or {},
        )
        self._spare(request, state)
        return done

    def _spare(self, request: Checked, state: RowState) -> None:
        # What was captured is the caller's, and would be seen behind what the next request captures.
        clear = self.engine.calls.clear
        if clear is not None and not state.cache.seen:
            self.spare.clear()
            self.spare[len(request.tokens)] = state._replace(cache=emptied(state.cache, clear))

    def _prefill(self, request: Checked) -> RowResult:
        batch = len(request.tokens)
        state = self.spare.pop(batch, None)
        state = self.new_state(batch) if state is None else state
        tokens = jax.device_put(request.tokens)
        result: RowResult = self.prefill(self.engine.params, tokens, state, self.engine.tables, request.data)
        return result


def build_generator(
    model: Model,
    settings: EngineSettings | str = "cached",
    *,
    capacity: int | None = None,
    hooks: Hook | Iterable[Hook] = (),
) -> Generator:
    """Return a generator for ``model``; nothing is compiled before its first request.

    Args:
      model: configuration and weights.
      settings: an engine with a static cache, by name (see ``workloads.engine``) or as settings.
      capacity: positions (prompt and new tokens) that a request may need at most.
      hooks: one hook or several: what to capture or replace inside its programs (see ``hooks``).

    Raises:
      UnknownNameError: no such rung, setting or hook point; offers the nearest.
      ConfigError: a capacity that the model does not have, or settings that a generator cannot honour.
    """
    chosen = parse_engine(settings) if isinstance(settings, str) else settings
    _check_settings(chosen)
    engine = build_engine(model, chosen, capacity=capacity, hooks=hooks)
    bound = {"config": model.config, "variant": variant_of(chosen), "hooks": engine.calls.hooks}

    def ready(name: str, function: Any, **more: Any) -> Any:
        call = named(name, function, **bound, **more)
        return compile_ahead(call, donate=chosen.donate, options=compile_options(chosen))

    limits = Limits(
        vocab_size=model.config.vocab_size, capacity=engine.capacity, bucket=chosen.bucket, stop=model.end_tokens
    )
    return Generator(
        engine=engine,
        limits=limits,
        new_state=NewState(make=partial(_new_state, engine)),
        prefill=ready("prefill_rows", prefill_rows),
        step=ready("step_rows", step_rows),
        loop=ready("generate_rows", generate_rows, capacity=engine.capacity),
    )


_REFUSED = {"position": "one program a position", "prefill_chunk": "prompts of one length", "start": "declared shapes"}
"""Settings that a generator cannot honour, and what they mean."""


def _check_settings(settings: EngineSettings) -> None:
    if settings.cache != "static" or not settings.jit:
        raise ConfigError(
            f"a generator needs cache='static' and jit=True; this engine has cache={settings.cache!r}, "
            f"jit={settings.jit}."
        )
    plain = EngineSettings()
    for name, meaning in _REFUSED.items():
        value = getattr(settings, name)
        if value != getattr(plain, name):
            raise ConfigError(f"a generator cannot honour {name}={value!r}: it means {meaning}.")


def _new_state(engine: LadderEngine, batch: int) -> RowState:
    nothing = jnp.zeros(batch, jnp.int32)
    return RowState(cache=engine.calls.empty(batch), ended=nothing.astype(jnp.bool_), counts=nothing)
