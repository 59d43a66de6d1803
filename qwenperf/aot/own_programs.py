"""The programs of somebody's own engine, found by tracing a request: nothing runs, and weights are shapes.

The factory is called while JAX traces, with tracers in the place of weights, as is its engine's ``prefill`` and one
``decode_step``. Each calls a jitted function that does most of its arithmetic: that is the program, with what it
donates. What lies around it (a choice of the last position, a conversion of weights) is no part of it, as it is none
when the engine runs. A factory that wants numbers gets the model's weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, jaxprs_in_params

from qwenperf.aot.ids import PROGRAMS
from qwenperf.aot.models import abstract_model
from qwenperf.aot.named_call import Taken, named_call
from qwenperf.decode.engine import Engine, StepEngine
from qwenperf.errors import ConfigError, QwenperfError, UsageError
from qwenperf.models.registry import Model, load_model
from qwenperf.schema.records import Finding, Severity
from qwenperf.workloads.case import Case

Make = Callable[[str, Model, int], Engine]
"""Makes the engine called ``package.module:factory`` of a model and a number of positions."""

_SCOPE = "qwenperf:"
_CALLS = ("jit", "pjit")
_BY_HAND = "Compile its jitted functions with qwenperf.compile_for or the pytest fixture."
_LEAST_SHARE = 0.5
"""Of the arithmetic of a prefill or a step, what its program has at least: several such have no numbers in common."""


@dataclass(frozen=True, kw_only=True)
class OwnProgram:
    """A jitted function with the shapes that it is called with; ``findings`` are about how it was found."""

    name: str
    jitted: Any
    arguments: tuple[Any, ...]
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Traced:
    """A request as JAX traced it."""

    request: ClosedJaxpr
    findings: tuple[Finding, ...] = ()


def own_program(case: Case, program: str, make: Make) -> OwnProgram:
    """Return the program of ``case``, whose engine is a factory.

    Raises:
      ConfigError: the engine has no such program: no steps, or one that is not one jitted function.
      UsageError: no such factory, or its engine cannot be traced.
      QwenperfError: errors of the model, as ``case_program``.
    """
    work = case.workload
    sizes = (work.batch, work.prompt_length, work.prompt_length + work.new_tokens, work.dtype)
    traced = _request(make, case.model, case.engine, sizes, case.seed)
    inside = [one for one in traced.request.jaxpr.eqns if f"{_SCOPE}{program}" in str(one.source_info.name_stack)]
    chosen = _largest(case.engine, program, inside)
    name = str(chosen.params.get("name") or program)
    jitted, shapes = named_call(name, chosen.params["jaxpr"], list(_taken(chosen)))
    return OwnProgram(name=name, jitted=jitted, arguments=shapes, findings=traced.findings)


@cache
def _request(make: Make, model: str, engine: str, sizes: tuple[int, int, int, str], seed: int) -> _Traced:
    """Trace a request: with shapes for weights, or with the model's own where those do not do."""
    batch, prompt, capacity, dtype = sizes
    # Numbers, for somebody may look at a prompt; what is computed from them is traced all the same.
    tokens = jnp.zeros((batch, prompt), jnp.int32), jnp.zeros((batch,), jnp.int32)
    abstract = abstract_model(model, dtype)
    try:
        whole = jax.make_jaxpr(lambda params: _steps(make(engine, replace(abstract, params=params), capacity), *tokens))
        return _Traced(request=whole(abstract.params))
    except Exception as error:
        if not _is_of_its_code(error):
            raise
        first = _in_a_line(error)
    made = make(engine, load_model(model, dtype, seed=seed), capacity)
    try:
        request = jax.make_jaxpr(lambda: _steps(made, *tokens))()
    except QwenperfError:
        raise
    except Exception as error:
        raise UsageError(f"engine {engine} cannot be traced: {_in_a_line(error)}", advice=_BY_HAND) from error
    return _Traced(request=request, findings=(_weights_read(engine, first),))


def _is_of_its_code(error: Exception) -> bool:
    """Say whether somebody's code raised, which may miss numbers; a module that is not there misses none."""
    if not isinstance(error, QwenperfError):
        return True
    return error.__cause__ is not None and not isinstance(error.__cause__, ImportError)


def _steps(engine: Engine, tokens_BT: Any, token_B: Any) -> Any:
    """Call the steps of one request, each in a scope of its own name."""
    if not isinstance(engine, StepEngine):
        raise ConfigError(f"engine {engine.name} has no prefill and decode_step to be compiled.", advice=_BY_HAND)
    prefill, decode_step = PROGRAMS
    with jax.named_scope(f"{_SCOPE}{prefill}"):
        _, state = engine.prefill(tokens_BT)
    with jax.named_scope(f"{_SCOPE}{decode_step}"):
        logits, _ = engine.decode_step(token_B, state)
    return logits


def _largest(engine: str, program: str, inside: Sequence[JaxprEqn]) -> JaxprEqn:
    """Return the jitted call that does most of the arithmetic; of those that do none, the one with most bytes."""
    calls = [one for one in inside if one.primitive.name in _CALLS]
    if not calls:
        raise ConfigError(f"engine {engine}: its {program} calls no jitted function.", advice=_BY_HAND)
    chosen = max(calls, key=lambda one: (_products([one]), sum(map(_bytes, one.invars))))
    whole = _products(inside)
    if whole and _products([chosen]) < _LEAST_SHARE * whole:
        share = _products([chosen]) / whole
        raise ConfigError(
            f"engine {engine}: its {program} is no single program: the largest of its {len(calls)} jitted calls, "
            f"{chosen.params.get('name')}, does {share:.0%} of the arithmetic.",
            advice=_BY_HAND,
        )
    return chosen


def _products(equations: Sequence[JaxprEqn]) -> float:
    """Return the multiplications of matrices in ``equations``; a loop whose length is not known counts once."""
    return sum(_count(one) for one in equations)


def _count(one: JaxprEqn) -> float:
    if one.primitive.name == "dot_general":
        (contracted, _), _ = one.params["dimension_numbers"]
        sizes, made = (_shape(variable).shape for variable in (one.invars[0], one.outvars[0]))
        return float(math.prod(made) * math.prod(sizes[axis] for axis in contracted))
    inner: list[Jaxpr] = list(jaxprs_in_params(one.params))
    return float(one.params.get("length") or 1) * sum(_products(each.eqns) for each in inner)


def _taken(call: JaxprEqn) -> Iterator[Taken]:
    """Yield what a jitted call takes; what it closes over comes first, and has no name."""
    debug = getattr(call.params["jaxpr"].jaxpr, "debug_info", None)
    named = tuple(getattr(debug, "arg_names", None) or ())
    before = len(call.invars) - len(named)
    names = (*(f"closed_over[{number}]" for number in range(before)), *named)[-len(call.invars) :]
    each = zip(names, call.invars, call.params["donated_invars"], strict=True)
    for number, (name, variable, donated) in enumerate(each):
        yield Taken(path=name or f"closed_over[{number}]", shape=_shape(variable), donated=bool(donated))


def _shape(variable: Any) -> jax.ShapeDtypeStruct:
    told = variable.aval
    return jax.ShapeDtypeStruct(told.shape, told.dtype, weak_type=bool(getattr(told, "weak_type", False)))


def _bytes(variable: Any) -> int:
    told = _shape(variable)
    return int(math.prod(told.shape) * told.dtype.itemsize)


def _weights_read(engine: str, why: str) -> Finding:
    return Finding(
        code="weights-read",
        severity=Severity.NOTE,
        message=f"{engine} did not take shapes for weights, so the model's were loaded for it: {why}",
        advice="Do what needs numbers outside of the factory, or take no weights from it into a program as constants.",
    )


def _in_a_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
