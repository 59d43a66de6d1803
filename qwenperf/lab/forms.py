"""The ways in which an engine can be asked for tokens, found by what it offers: a whole request, or a stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from qwenperf.adapters.prompt import greedy, logits_and_state
from qwenperf.decode.engine import Engine, StepEngine, StreamingEngine
from qwenperf.errors import MeasurementError
from qwenperf.workloads.case import Workload


@dataclass(frozen=True, kw_only=True)
class Forms:
    """One engine, one prompt, and the calls that are warmed up and timed. All results arrive on the host.

    ``requests_only`` asks for no single steps, whatever the engine offers.
    """

    engine: Engine
    workload: Workload
    prompt_BT: np.ndarray  # noqa: N815  (axis suffix)
    requests_only: bool = False

    def request(self) -> np.ndarray:
        """Return all new tokens of one request, [B, N]."""
        return np.asarray(self.engine.generate(self.prompt_BT, self.workload.new_tokens))

    def first_token(self) -> np.ndarray:
        """Return a request of one token, for an engine that neither streams nor steps."""
        return np.asarray(self.engine.generate(self.prompt_BT, 1))

    @property
    def streams(self) -> bool:
        """Whether tokens are had one at a time."""
        return not self.requests_only and isinstance(self.engine, StreamingEngine | StepEngine)

    def stream(self) -> Iterator[np.ndarray]:
        """Yield the new tokens of one request as they are made, [B] each."""
        if isinstance(self.engine, StreamingEngine):
            yield from map(np.asarray, self.engine.stream(self.prompt_BT, self.workload.new_tokens))
        elif isinstance(self.engine, StepEngine):
            yield from _stepped(self.engine, self.engine.name, self.prompt_BT, self.workload.new_tokens)

    def check_tokens(self, tokens_BN: np.ndarray, vocab_size: int | None) -> None:
        """Refuse what is no answer to the request.

        Raises:
          MeasurementError: another shape, no integers, or tokens outside the vocabulary; says what was seen.
        """
        shape = (self.workload.batch, self.workload.new_tokens)
        if tokens_BN.shape != shape or tokens_BN.dtype.kind not in "iu":
            seen = f"{tokens_BN.dtype}{list(tokens_BN.shape)}"
            raise MeasurementError(f"{self.engine.name} returned {seen} instead of integer tokens {list(shape)}.")
        if tokens_BN.min() < 0 or (vocab_size is not None and tokens_BN.max() >= vocab_size):
            seen = f"tokens from {tokens_BN.min()} to {tokens_BN.max()}"
            known = "no token is below 0" if vocab_size is None else f"the vocabulary has {vocab_size}"
            raise MeasurementError(f"{self.engine.name} returned {seen}, and {known}.")


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
