"""The programs of somebody's own engine: found by tracing its steps, named as in its code, compiled like ours."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.adapters import as_engine
from qwenperf.aot.case import compile_case
from qwenperf.aot.functions import compile_for
from qwenperf.aot.own_programs import own_program
from qwenperf.errors import ConfigError, UsageError
from qwenperf.workloads.case import Case, Workload


def prefill(params, tokens, capacity):
    hidden = params["embed"][tokens]
    keys = jnp.zeros((tokens.shape[0], capacity, hidden.shape[-1]), hidden.dtype)
    state = {"keys": jax.lax.dynamic_update_slice(keys, hidden, (0, 0, 0)), "length": jnp.int32(tokens.shape[1])}
    return (hidden @ params["embed"].T)[:, -1], state


def step(params, token, state):
    hidden = params["embed"][token]
    keys = jax.lax.dynamic_update_slice(state["keys"], hidden[:, None], (0, state["length"], 0))
    scores = jnp.einsum("bd,bsd->bs", hidden, keys)
    logits = jnp.einsum("bs,bsd->bd", scores, keys) @ params["embed"].T
    return logits, {"keys": keys, "length": state["length"] + 1}


def weights(model):
    return {"embed": model.params["embed_tokens"]["weight"]}


class Methods:
    """Keeps its jitted functions to itself, as most engines do; says what the first argument of its step is."""

    name = "methods"

    def __init__(self, model, capacity, *, donate=True):
        self.params = weights(model)
        self._prefill = jax.jit(prefill, static_argnames="capacity")
        self._step = jax.jit(step, donate_argnames="state" if donate else ())
        self.capacity = capacity

    def prefill(self, tokens):
        """Call one jitted function."""
        return self._prefill(self.params, tokens, capacity=self.capacity)

    def decode_step(self, token, state):
        """Call one jitted function, and do a little beside it."""
        logits, state = self._step(self.params, token, state)
        return logits * 1.0, state


def pair(model, capacity):
    params = weights(model)
    first = jax.jit(partial(prefill, capacity=capacity))
    return partial(first, params), partial(jax.jit(step, donate_argnums=2), params)


def closing_over(model, capacity):
    params = weights(model)
    first = jax.jit(lambda tokens: prefill(params, tokens, capacity))
    return first, jax.jit(lambda token, state: step(params, token, state))


def with_numbers(model, capacity):
    """A factory that looks at a weight."""
    assert np.isfinite(np.asarray(model.params["embed_tokens"]["weight"]).astype(np.float32)).all()
    return Methods(model, capacity)


def made_by(factory, seen=None):
    def make(name, model, capacity):
        if seen is not None:
            seen.append(model)
        return as_engine(factory(model, capacity), name=name)

    return make


@pytest.fixture
def case():
    """A case of somebody's engine."""
    return Case(
        model="tiny", engine="theirs:make", workload=Workload(prompt_length=4, new_tokens=4, batch=2, dtype="bf16")
    )


@pytest.mark.parametrize("factory", [Methods, pair])
def test_a_step_is_compiled_as_its_author_jitted_it(factory, case, v5e):
    """With the names of its arguments, and what it donates; the record is that of any program."""
    record = compile_case(case, "decode_step", v5e, make=made_by(factory))
    assert record.id == "tiny/theirs:make/b2-p4-n4-bf16@v5e-1/decode_step"
    assert {one.path: one.donated for one in record.arguments} == {
        "params.embed": False, "token": False, "state.keys": True, "state.length": True,
    }  # fmt: skip
    assert record.program.unaliased_donations == ()
    assert record.program.alias_bytes
    assert record.estimate.tokens_per_s > 0


def test_it_is_the_program_that_its_jitted_function_has(case, v5e):
    """What is found by tracing is what ``compile_for`` makes of the function with the same shapes."""
    found = compile_case(case, "decode_step", v5e, make=made_by(Methods))
    shape = jax.ShapeDtypeStruct
    state = {"keys": shape((2, 8, 64), jnp.bfloat16), "length": shape((), jnp.int32)}
    params, token = {"embed": shape((256, 64), jnp.bfloat16)}, shape((2,), jnp.int32)
    (direct,) = compile_for(jax.jit(step, donate_argnums=2), params, token, state, targets="v5e-1").cases
    assert found.program.fingerprint == direct.program.fingerprint
    assert found.program.flops == direct.program.flops
    assert {one.path for one in found.arguments} == {one.path for one in direct.arguments}


def test_a_step_that_no_longer_donates_says_so(case, cpu):
    """That is what a difference is asked about."""
    record = compile_case(case, "decode_step", cpu, make=made_by(partial(Methods, donate=False)))
    assert not any(one.donated for one in record.arguments)
    assert record.program.alias_bytes == 0


def test_a_program_that_was_compiled_before_is_known(case, cpu, tmp_path):
    """As one of ours is; a request of another size is another program."""
    compiled = partial(compile_case, program="decode_step", target=cpu, place=tmp_path, make=made_by(Methods))
    assert [compiled(case).extra.get("remembered") for _ in range(2)] == [None, True]
    assert "remembered" not in compiled(replace(case, workload=replace(case.workload, batch=1))).extra


def test_an_engine_may_look_at_its_prompt(case):
    """Many check it on the host."""
    assert own_program(case, "prefill", made_by(looking_at_tokens)).findings == ()


def test_no_weight_is_made_for_an_engine_that_takes_shapes(case):
    """A model that fits no memory here is compiled as well."""
    seen = []
    found = own_program(case, "prefill", made_by(Methods, seen))
    assert (found.name, found.findings) == ("prefill", ())
    assert [isinstance(one.params["embed_tokens"]["weight"], jax.core.Tracer) for one in seen] == [True]
    shapes = {tuple(leaf.shape) for leaf in jax.tree.leaves(found.arguments)}
    assert shapes == {(256, 64), (2, 4)}


def test_a_factory_that_wants_numbers_gets_the_model_s_and_the_record_says_so(case):
    """Its programs are the same."""
    found = own_program(case, "decode_step", made_by(with_numbers))
    assert [one.code for one in found.findings] == ["weights-read"]
    assert found.name == "step"


def test_weights_that_a_function_closes_over_are_what_it_takes(case, cpu):
    """They are in memory either way, and are no constants of gigabytes in a program's text."""
    record = compile_case(case, "decode_step", cpu, make=made_by(closing_over))
    assert {one.path: one.shape for one in record.arguments}["closed_over.0"] == "bf16[256,64]"


def unjitted(model, capacity):
    params = weights(model)
    return partial(prefill, params, capacity=capacity), partial(step, params)


def looking_at_tokens(model, capacity):
    """A prefill that refuses what is no token."""
    first, second = pair(model, capacity)

    def checked(tokens):
        if not (np.asarray(tokens) < 256).all():
            raise ValueError("no such token")
        return first(tokens)

    return checked, second


def in_parts(model, capacity):
    """A step of which each product is a jitted function."""
    params, product = weights(model), jax.jit(lambda one, other: one @ other)

    def parts(token, state):
        hidden = params["embed"][token]
        for _ in range(3):
            hidden = product(product(hidden, params["embed"].T), params["embed"])
        return product(hidden, params["embed"].T), state

    return pair(model, capacity)[0], parts


def of_numbers(model, capacity):
    """A step that looks at what it has computed."""
    first, second = pair(model, capacity)

    def step(token, state):
        logits, state = second(token, state)
        return logits if np.isfinite(np.asarray(logits)).all() else None, state

    return first, step


@pytest.mark.parametrize(
    ("factory", "kind", "told"),
    [
        (lambda *_: lambda *_: None, ConfigError, "no prefill and decode_step"),
        (unjitted, ConfigError, "decode_step is no single program|decode_step calls no jitted function"),
        (in_parts, ConfigError, "decode_step is no single program: the largest of its .* jitted calls, <lambda>, does"),
        (of_numbers, UsageError, "theirs:make cannot be traced: TracerArrayConversionError"),
    ],
)
def test_an_engine_without_such_programs_is_one_clear_error(factory, kind, told, case):
    """It says what to do instead."""
    with pytest.raises(kind, match=told) as error:
        own_program(case, "decode_step", made_by(factory))
    assert "qwenperf.compile_for" in str(error.value)


def test_a_module_that_is_not_there_costs_no_weights(case):
    """What it misses is no number."""

    def make(name, model, capacity):
        del model, capacity
        raise UsageError(f"engine {name}: No module named 'theirs'.") from ModuleNotFoundError("theirs")

    with pytest.raises(UsageError, match="No module named 'theirs'"):
        own_program(case, "decode_step", make)
