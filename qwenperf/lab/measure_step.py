"""Measures a function that hands state on from call to call: compiles, its program, and the time of a call.

Phases are those of engines: the first call is cold, the second is warm-up (it is the first to take what a call
returned), all others are steady. Judges nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import cycle
from typing import Any

import jax

from qwenperf.adapters.jitted import Arguments, CarriedStep, Carry, carried_step
from qwenperf.errors import RefusedCallError, UsageError
from qwenperf.lab import metrics as formulas
from qwenperf.lab.calls import check_alive
from qwenperf.lab.found import PHASES
from qwenperf.measure import environment, memory
from qwenperf.measure.clock import Clock
from qwenperf.measure.compiles import CompileLog
from qwenperf.measure.measuring_lock import one_measurement
from qwenperf.schema.records import CaseRecord, Evidence, Metric, ProgramFacts, metric
from qwenperf.workloads.whole import whole_number

LEAST_CALLS = 3
"""Cold, warm-up and one that is steady."""

CHECK = "check"
"""The phase in which the program is read; its compiles do not count."""

_FRESH = "The step gives its state up: make a new one for each measurement."
_JIT = "Hand over the jitted function: jax.jit(step, donate_argnames=...)."
_NEW_STATE = "Some donated buffers were not usable"


def measure_step(
    step: Callable[..., Any],
    *args: Any,
    carry: Carry = 1,
    calls: int | Sequence[Any] = 4,
    trials: int = 5,
    tokens_per_call: int | None = None,
    name: str = "",
    spec: Mapping[str, Any] | None = None,
) -> CaseRecord:
    """Call ``step`` again and again with what it returned, and return the record; it carries no verdicts yet.

    Args:
      step: the jitted function, or a ``functools.partial`` or method of one; of any other no program is read.
      *args: the arguments of the first call; those that are carried alone where ``calls`` has the others.
      carry: how many arguments in front are replaced by what the call before returned, in the same order; or their
        names with the place in the result, ``{"state": 1}``. One carried argument may be the whole result.
      calls: how many calls are watched for compiles, with the same other arguments; or these for each call, a plain
        tuple of them where there are several.
      trials: how many more calls are timed, one by one; 0 times nothing.
      tokens_per_call: what one call processes, for tokens/s.
      name: what the record calls the step.
      spec: what else the record says of the case.

    Raises:
      UsageError: too few calls, a number that is none, arguments that were given up, a result without the carried
        state, or one of plain Python or numpy: nothing of it is compiled.
      EnvironmentUnfitError: JAX is set to debug, and donates nothing then; or something else is measured here.
    """
    environment.check_fit()
    carried = carried_step(step, carry, name)
    trials = whole_number("trials", trials, least=0)
    if tokens_per_call is not None:
        tokens_per_call = whole_number("tokens_per_call", tokens_per_call, least=1)
    runs = _Runs.of(carried, args, calls)
    with one_measurement() if trials else nullcontext(), CompileLog() as log, _told_by_the_gate():
        try:
            _watch(runs, log)
            samples_s, voids = _time(runs, log, trials)
            program = _read_program(runs, log)
        except RefusedCallError as error:
            samples_s, voids, program = (), (str(error),), None
    metrics = dict(_metrics(log, samples_s, tokens_per_call))
    if program is not None:
        metrics |= dict(formulas.program_metrics(program))
    told = {"step": carried.name, "carry": [one for one, _, _ in carried.carried], "calls": runs.watched}
    events = tuple(event for event in log.events if event.phase in PHASES or event.refused)
    return CaseRecord(
        id=f"{carried.name}/steps",
        spec={**told, "tokens_per_call": tokens_per_call, **(spec or {})},
        metrics=metrics,
        evidence=Evidence(compiles=events, program=program, programs=(program,) if program else (), voids=voids),
    )


@dataclass(kw_only=True)
class _Runs:
    """The calls to come: each takes what the one before returned, and its own other arguments."""

    step: CarriedStep
    state: Arguments
    others: Iterator[Arguments]
    watched: int
    latest: Arguments = field(default=())

    @classmethod
    def of(cls, step: CarriedStep, args: Arguments, calls: int | Sequence[Any]) -> _Runs:
        if isinstance(calls, Iterable) and not isinstance(calls, str | bytes | Mapping):
            state, series = args, [one if type(one) is tuple else (one,) for one in calls]
            number = len(series)
        else:
            number = whole_number("calls", calls, least=0)
            state, rest = step.split(args)
            series = [rest]
        names = ", ".join(one for one, _, _ in step.carried)
        if len(state) != len(step.carried):
            raise UsageError(f"{step.name} carries {names}; {len(state)} argument(s) were given for it.")
        if number < LEAST_CALLS:
            raise UsageError(f"{number} call(s) of {step.name}: the first two may compile, so give at least 3.")
        # Timed calls go on where the watched ones end, with the same other arguments from the first on.
        return cls(step=step, state=state, others=cycle(series), watched=number)

    def prepare(self, function: Callable[..., Any]) -> Callable[[], Any]:
        """Return the next call of ``function``, its arguments put together."""
        self.latest = self.step.arguments(self.state, next(self.others))
        check_alive(self.step.name, self.latest, _FRESH)
        return partial(function, *self.latest)

    def take(self, result: Any) -> None:
        """Keep what a call hands on."""
        self.state = self.step.handed_on(self.state, result)


def _watch(runs: _Runs, log: CompileLog) -> None:
    call = log.watch(runs.step.function, runs.step.name)
    for index in range(runs.watched):
        ready = runs.prepare(call)
        with log.phase(PHASES[min(index, len(PHASES) - 1)]):
            result = jax.block_until_ready(ready())
        if not any(isinstance(leaf, jax.Array) for leaf in jax.tree_util.tree_leaves(result)):
            raise UsageError(f"{runs.step.name} returned no array of JAX: nothing of it is compiled.", advice=_JIT)
        runs.take(result)


def _time(runs: _Runs, log: CompileLog, trials: int) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """Return seconds a call; none where a window is void, with the reason."""
    clock, samples_s, voids = Clock(log), list[float](), list[str]()
    for trial in range(1, trials + 1):
        window = clock.window(runs.prepare(runs.step.function), 1, first_trial=trial)
        runs.take(window.result)
        samples_s += window.samples_s
        voids += [f"call: {void}" for void in window.voids]
    return () if voids else tuple(samples_s), tuple(voids)


def _read_program(runs: _Runs, log: CompileLog) -> ProgramFacts | None:
    """Read the program of a steady call, with what of the carried state is not donated to it."""
    runs.prepare(runs.step.function)
    with log.phase(CHECK):
        program = runs.step.program(runs.latest)
        if program is None:
            return None
        facts = memory.program_facts(
            program.name,
            program.compiled,
            lowered_text=program.lowered_text,
            donated=program.donated,
            donated_bytes=program.donated_bytes,
        )
    undonated = list(runs.step.undonated(runs.latest, program))
    carried = {"undonated": undonated, "carried_bytes": runs.step.carried_bytes(runs.latest)}
    return replace(facts, extra={**facts.extra, **carried})


def _metrics(log: CompileLog, samples_s: Sequence[float], tokens: int | None) -> Iterator[tuple[str, Metric]]:
    for phase in PHASES:
        yield f"compiles_{phase}", metric(f"compiles_{phase}", log.count(phase))
    yield "compile_s", metric("compile_s", sum(log.seconds(phase) for phase in PHASES))
    if samples_s:
        yield "call_s", formulas.timed("call_s", samples_s)
        yield "calls_per_s", formulas.rate("calls_per_s", 1, samples_s)
        if tokens is not None:
            yield "call_tokens_per_s", formulas.rate("call_tokens_per_s", tokens, samples_s)


@contextmanager
def _told_by_the_gate() -> Iterator[None]:
    """Keep JAX from warning of donations that were lost: the gate says the same, with names."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=_NEW_STATE)
        yield
