"""Calls of somebody's function, repeated and watched for compiles. Times nothing, so it may run beside anything."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import jax
import numpy as np

from qwenperf.adapters import StepsEngine
from qwenperf.decode.engine import Engine, StepEngine
from qwenperf.errors import RefusedCallError, UsageError
from qwenperf.lab.growth import States
from qwenperf.measure import environment
from qwenperf.measure.compiles import CompileLog
from qwenperf.schema.records import CaseRecord, Evidence, Finding, metric

WARM_STEPS = 2
"""Decode steps that may compile: the first takes prefill's state, the second takes a step's own."""

_FRESH = "Hand over fresh arguments for each call with calls=[...], or the (prefill, decode_step) pair."


@dataclass(kw_only=True)
class Watched:
    """What a block or a series of calls compiled; ``result`` is the last call's."""

    name: str
    log: CompileLog = field(default_factory=CompileLog)
    result: Any = None
    findings: tuple[Finding, ...] = ()
    workload: Mapping[str, int] | None = None

    @property
    def has_jax(self) -> bool:
        """Whether anything of JAX was seen: a program that compiled or was loaded, or an array that came back."""
        return bool(self.log.events) or any(
            isinstance(leaf, jax.Array) for leaf in jax.tree_util.tree_leaves(self.result)
        )

    def record(self) -> CaseRecord:
        """Return the compiles as a case, so that a gate can read them."""
        counts = {f"compiles_{phase}": self.log.count(phase) for phase in ("cold", "warmup", "steady")}
        return CaseRecord(
            id=self.name,
            spec={"calls": self.name} | ({"workload": self.workload} if self.workload else {}),
            metrics={name: metric(name, count) for name, count in counts.items()},
            evidence=Evidence(compiles=self.log.events),
            findings=self.findings,
        )


@contextmanager
def steady_block(name: str) -> Iterator[Watched]:
    """Watch a block that should compile nothing; a refused call within is evidence, and ends the block.

    Raises:
      EnvironmentUnfitError: JAX is set to debug; without compiled programs nothing would ever be compiled again.
    """
    environment.check_fit()
    watched = Watched(name=name)
    with watched.log, watched.log.phase("steady"), _kept_refusals(watched.log):
        yield watched


def repeat_calls(function: Callable[..., Any], calls: Sequence[tuple[Any, ...]], *, name: str) -> Watched:
    """Call ``function`` once for each of ``calls``: the first may compile, the others are steady.

    Calls that look like a request for tokens are judged as one: the first may not compile for each of its tokens.

    Raises:
      UsageError: fewer than two calls, arguments that the first call gave up, or a result that is yet to be made.
      EnvironmentUnfitError: JAX is set to debug.
    """
    environment.check_fit()
    if len(calls) < 2:
        raise UsageError(f"{len(calls)} call(s) of {name}: a recompile needs at least two.")
    watched = Watched(name=name, workload=_request_of(*calls[0]))
    with watched.log, _kept_refusals(watched.log):
        call = watched.log.watch(function, name)
        for index, arguments in enumerate(calls):
            check_alive(name, arguments)
            with watched.log.phase("steady" if index else "cold"):
                watched.result = jax.block_until_ready(_made(call(*arguments), name))
    return watched


def repeat_requests(engine: Engine, prompt_BT: np.ndarray, new_tokens: int) -> Watched:
    """Make two requests of ``engine``, step by step too where it has steps; the result is the last request's tokens.

    Steady is everything after the first steps, and the second request.

    Raises:
      EnvironmentUnfitError: JAX is set to debug.
    """
    environment.check_fit()
    if not isinstance(engine, StepEngine):
        request = (prompt_BT, new_tokens)
        return repeat_calls(engine.generate, [request, request], name=engine.name)
    watched = Watched(name=engine.name)
    with watched.log, _kept_refusals(watched.log):
        steps = _watch_steps(engine, watched.log)
        watched.findings = _repeat_steps(steps, watched.log, prompt_BT, new_tokens)
        generate = watched.log.watch(engine.generate, "generate")
        # The steps may be what a request runs, or not: their programs may be warm, and the request's own are not.
        for phase in ("warmup", "steady"):
            with watched.log.phase(phase):
                watched.result = np.asarray(generate(prompt_BT, new_tokens))
    return watched


def _repeat_steps(steps: StepsEngine, log: CompileLog, prompt_BT: np.ndarray, new_tokens: int) -> tuple[Finding, ...]:
    """Stream twice; return what the states of the first stream show."""
    states = States()
    seen = replace(steps, step=states.watch(steps.step))
    tokens = seen.stream(prompt_BT, max(new_tokens, WARM_STEPS + 2))
    with log.phase("cold"):
        jax.block_until_ready(list(islice(tokens, WARM_STEPS + 1)))
    with log.phase("steady"):
        jax.block_until_ready(list(tokens))
        jax.block_until_ready(list(steps.stream(prompt_BT, WARM_STEPS + 1)))
    return states.findings()


def _watch_steps(engine: StepEngine, log: CompileLog) -> StepsEngine:
    """Return the engine's steps with a ledger of their arguments; of a pair, of its very functions."""
    pair = engine if isinstance(engine, StepsEngine) else None
    pair = pair or StepsEngine(name="steps", first=engine.prefill, step=engine.decode_step)
    return replace(pair, first=log.watch(pair.first, "prefill"), step=log.watch(pair.step, "decode_step"))


def _request_of(*arguments: Any) -> Mapping[str, int] | None:
    """Return the sizes of ``(tokens, new_tokens)``, ``None`` for any other arguments."""
    if len(arguments) != 2 or type(arguments[1]) is bool or not isinstance(arguments[1], int | np.integer):
        return None
    length = _row_length(arguments[0])
    return None if length is None else {"prompt_length": length, "new_tokens": int(arguments[1])}


def _row_length(tokens: Any) -> int | None:
    """Return how many tokens a row of an array, or of plain lists, has; ``None`` for what are no tokens."""
    shape = getattr(tokens, "shape", None)
    if shape:
        return int(shape[-1])
    row = tokens[0] if isinstance(tokens, list | tuple) and tokens and isinstance(tokens[0], list | tuple) else tokens
    whole = isinstance(row, list | tuple) and all(isinstance(one, int | np.integer) for one in row)
    return len(row) if whole and row else None


@contextmanager
def _kept_refusals(log: CompileLog) -> Iterator[None]:
    """End quietly on a refused call: it is in the log, for the gate."""
    try:
        with log.refusals():
            yield
    except RefusedCallError:
        pass


def _made(result: Any, name: str) -> Any:
    """Return ``result``; refuse one that comes later: what is yet to run compiles when nobody watches."""
    for leaf in jax.tree_util.tree_leaves(result, is_leaf=lambda node: isinstance(node, Iterator)):
        if isinstance(leaf, Awaitable | AsyncIterable | Future):
            advice = (
                "Hand over a function that waits for it, with asyncio.run(...) or result(), and returns what comes."
            )
        elif isinstance(leaf, Iterator):
            advice = f"Hand over a function that takes all of it, such as lambda *args: list({name}(*args))."
        else:
            continue
        if isinstance(leaf, Coroutine):
            leaf.close()  # or Python warns that it was never awaited
        raise UsageError(f"{name} returned a {type(leaf).__name__}: what it is to do has not run.", advice=advice)
    return result


def check_alive(name: str, arguments: tuple[Any, ...], advice: str = _FRESH) -> None:
    """Refuse arrays that an earlier call gave up, before the runtime does so without naming anything."""
    for path, leaf in jax.tree_util.tree_flatten_with_path(arguments)[0]:
        if isinstance(leaf, jax.Array) and leaf.is_deleted():
            where = f"arguments{jax.tree_util.keystr(path)}"
            raise UsageError(f"{name} gave up {where} in an earlier call (it is donated).", advice=advice)
