"""The ways in which an engine can be asked for tokens, found by what it offers: a whole request, or a stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qwenperf.adapters.prompt import greedy, logits_and_state
from qwenperf.decode.engine import Engine, StepEngine, StreamingEngine
from qwenperf.errors import MeasurementError
from qwenperf.workloads.case import Workload

_ALL = "What is timed is all the tokens that were asked for: let no end token stop a request."


@dataclass(frozen=True, kw_only=True)
class Forms:
    """One engine, one prompt, and the calls that are warmed up and timed. All results arrive on the host.

    ``requests_only`` asks for no single steps, whatever the engine offers. ``vocab_size`` is what tokens are held to,
    where it is known.
    """

    engine: Engine
    workload: Workload
    prompt_BT: np.ndarray  # noqa: N815  (axis suffix)
    requests_only: bool = False
    vocab_size: int | None = None

    def request(self) -> np.ndarray:
        """Return all new tokens of one request, [B, N]."""
        return self._on_host(self.engine.generate(self.prompt_BT, self.workload.new_tokens))

    def first_token(self) -> np.ndarray:
        """Return a request of one token, for an engine that neither streams nor steps."""
        return self._on_host(self.engine.generate(self.prompt_BT, 1))

    @property
    def streams(self) -> bool:
        """Whether tokens are had one at a time."""
        return not self.requests_only and isinstance(self.engine, StreamingEngine | StepEngine)

    def stream(self) -> Iterator[np.ndarray]:
        """Yield the new tokens of one request as they are made, [B] each."""
        if isinstance(self.engine, StreamingEngine):
            yield from map(self._on_host, self.engine.stream(self.prompt_BT, self.workload.new_tokens))
        elif isinstance(self.engine, StepEngine):
            yield from _stepped(self.engine, self.engine.name, self.prompt_BT, self.workload.new_tokens)

    def check_tokens(self, tokens_BN: np.ndarray, where: str = "") -> None:
        """Refuse what is no answer to the request; never within the clock.

        ``where`` is what the message says of the call, such as ``trial 3``.

        Raises:
          MeasurementError: another shape, no integers, or tokens outside the vocabulary; says what was seen.
        """
        self._check(tokens_BN, self.workload.new_tokens, where)

    def check_first_token(self, tokens_B1: np.ndarray, where: str = "") -> None:
        """Refuse what is no answer to a request of one token; as ``check_tokens``."""
        self._check(tokens_B1, 1, where)

    def check_stream(self, items: Sequence[np.ndarray], where: str = "") -> None:
        """Refuse a stream that is not all new tokens of the request, one item [B] each; as ``check_tokens``."""
        asked, shape = self.workload.new_tokens, (self.workload.batch,)
        if len(items) != asked or any(item.shape != shape for item in items):
            seen = ", ".join(map(str, dict.fromkeys(f"{item.dtype}{list(item.shape)}" for item in items)))
            told = f"{self.engine.name} streamed {len(items)} items{f' of {seen}' if seen else ''}"
            raise MeasurementError(f"{_at(where)}{told} instead of {asked} of {list(shape)}.", advice=_ALL)
        self._check(stack(tuple(items)), asked, where)

    def _check(self, tokens_BN: np.ndarray, new_tokens: int, where: str) -> None:
        shape = (self.workload.batch, new_tokens)
        told = f"{_at(where)}{self.engine.name} returned"
        if tokens_BN.shape != shape or tokens_BN.dtype.kind not in "iu":
            seen = f"{tokens_BN.dtype}{list(tokens_BN.shape)}"
            short = tokens_BN.ndim == 2 and tokens_BN.shape[1] < new_tokens
            raise MeasurementError(
                f"{told} {seen} instead of integer tokens {list(shape)}.", advice=_ALL if short else ""
            )
        if tokens_BN.min() < 0 or (self.vocab_size is not None and tokens_BN.max() >= self.vocab_size):
            seen = f"tokens from {tokens_BN.min()} to {tokens_BN.max()}"
            known = "no token is below 0" if self.vocab_size is None else f"the vocabulary has {self.vocab_size}"
            raise MeasurementError(f"{told} {seen}, and {known}.")

    def _on_host(self, tokens: Any) -> np.ndarray:
        """Return what the engine gave, as an array that is here."""
        try:
            return np.asarray(tokens)
        except (TypeError, ValueError) as error:
            seen = f"{self.engine.name} returned a {type(tokens).__name__}, which is no array of tokens"
            raise MeasurementError(f"{seen}: {' '.join(str(error).split()).rstrip('.')}.") from error


def _at(where: str) -> str:
    return f"{where}: " if where else ""


def _stepped(engine: StepEngine, name: str, prompt_BT: np.ndarray, new_tokens: int) -> Iterator[np.ndarray]:
    """Choose greedily from the logits of prefill and decode steps, on the device: only tokens come to the host."""
    logits_BV, state = logits_and_state(engine.prefill(prompt_BT), f"{name}.prefill")
    for left in range(new_tokens - 1, -1, -1):
        tokens_B = greedy(logits_BV)
        yield np.asarray(tokens_B)
        if left:
            result = engine.decode_step(tokens_B, state)
            logits_BV, state = logits_and_state(result, f"{name}.decode_step")


def stack(items: tuple[Any, ...]) -> np.ndarray:
    """Return streamed tokens [B] each as one request's tokens [B, N]."""
    return np.stack([np.asarray(item) for item in items], axis=-1)
