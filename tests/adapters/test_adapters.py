import functools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.adapters import CallableEngine, as_engine, flax_engine, prefix_logits
from qwenperf.adapters.programs import hlo_shape, program_of
from qwenperf.adapters.prompt import as_tokens, last_logits
from qwenperf.decode.engine import CompiledEngine, Engine, ReferencedEngine, SizedEngine, StepEngine, StreamingEngine
from qwenperf.errors import MeasurementError, TokenError, UsageError

NEW = 6


@pytest.fixture
def expected(toy, prompt):
    """What uncached greedy decoding says."""
    return np.asarray(toy.generate(prompt, NEW))[:, prompt.shape[1] :]


def test_a_callable_is_an_engine_and_a_repeated_prompt_is_cut_off(toy, prompt, expected):
    """A function that returns prompt and new tokens generates the new tokens only."""
    engine = as_engine(toy.generate)
    assert isinstance(engine, Engine)
    assert engine.name == "generate"
    np.testing.assert_array_equal(engine.generate(prompt, NEW), expected)


def test_a_callable_without_reference_is_no_referenced_engine(toy):
    """A gate that asks for uncached logits sees whether they are there."""
    assert not isinstance(as_engine(toy.generate), ReferencedEngine)
    assert isinstance(as_engine(toy.generate, uncached=toy.uncached_logits), ReferencedEngine)


def test_one_row_may_come_back_flat():
    """A function for one prompt may return one row of tokens."""
    engine = CallableEngine(name="flat", call=lambda _, n: np.arange(n))
    assert engine.generate(np.zeros((1, 3), np.int32), 4).tolist() == [[0, 1, 2, 3]]


def test_a_callable_that_returns_another_shape_is_named(prompt):
    """A wrong shape says whose it is, and what was wanted."""
    engine = CallableEngine(name="short", call=lambda _, n: np.zeros((2, n - 1), np.int32))
    with pytest.raises(MeasurementError, match=r"short\(\) returned shape \[2, 5\].*6 new tokens.*\[2, 6\]"):
        engine.generate(prompt, NEW)


def test_a_pair_generates_streams_and_steps(toy, prompt, expected):
    """A pair of jitted functions is every kind of engine that its parts allow."""
    engine = as_engine((toy.prefill, toy.decode_step))
    for protocol in (Engine, StepEngine, StreamingEngine, CompiledEngine, SizedEngine):
        assert isinstance(engine, protocol)
    assert not isinstance(engine, ReferencedEngine)
    np.testing.assert_array_equal(engine.generate(prompt, NEW), expected)
    np.testing.assert_array_equal(np.stack(list(engine.stream(prompt, NEW)), axis=1), expected)


def test_an_object_with_steps_is_a_pair(toy, prompt, expected):
    """An object needs the two methods and no more."""

    class Mine:
        def prefill(self, tokens):
            return toy.prefill(tokens)

        def decode_step(self, tokens, state):
            return toy.decode_step(tokens, state)

    engine = as_engine(Mine())
    assert engine.name == "Mine"
    np.testing.assert_array_equal(engine.generate(prompt, NEW), expected)


def test_a_truth_takes_nothing_away_from_an_engine(toy, prompt):
    """With ``uncached``, the very same parts are called and read: nothing else is measured than without."""
    whole = as_engine((toy.prefill, toy.decode_step))
    engine = as_engine(whole, uncached=toy.uncached_logits)
    assert isinstance(engine, ReferencedEngine)
    assert engine.uncached_logits is toy.uncached_logits
    assert engine.name == whole.name
    for part in ("generate", "prefill", "decode_step", "stream", "programs", "facts"):
        assert getattr(engine, part) == getattr(whole, part)
    only = as_engine(as_engine(toy.generate), uncached=toy.uncached_logits)
    assert not isinstance(only, StepEngine | StreamingEngine | CompiledEngine | SizedEngine)
    np.testing.assert_array_equal(only.generate(prompt, 2), toy.generate(prompt, 2)[:, prompt.shape[1] :])


@pytest.mark.parametrize("truth", [False, True])
def test_an_object_with_steps_and_a_loop_of_its_own_is_asked_for_that_loop(toy, prompt, truth):
    """What is measured is the object's generate, named or not; its steps and their program are known too."""

    class Whole:
        prefill, decode_step = staticmethod(toy.prefill), staticmethod(toy.decode_step)

        def generate(self, tokens, new_tokens):
            return np.concatenate([tokens, np.full((len(tokens), new_tokens), 7)], axis=1)

    engine = as_engine(Whole(), uncached=toy.uncached_logits if truth else None)
    assert engine.name == "Whole"
    assert np.unique(engine.generate(prompt, NEW)).tolist() == [7]
    assert isinstance(engine, StreamingEngine)
    assert isinstance(engine, ReferencedEngine) == truth
    assert list(engine.programs(2, 5, NEW)) == ["decode_step"]


@pytest.mark.parametrize("steps", [False, True])
@pytest.mark.parametrize("own_name", [{}, {"name": None}, {"name": "mine"}])
def test_a_name_of_its_own_changes_nothing_but_the_name(toy, prompt, expected, own_name, steps):
    """Prompt and new tokens, and logits of all positions, are taken; what an object offers beside them is kept."""

    def all_logits(logits_and_state):
        logits, state = logits_and_state
        return logits[:, None], state

    parts = {"generate": toy.generate, "uncached_logits": toy.uncached_logits}
    if steps:
        parts["prefill"] = lambda tokens: all_logits(toy.prefill(tokens))
        parts["decode_step"] = toy.decode_step
    else:
        parts["facts"] = lambda *_: None
    engine = as_engine(SimpleNamespace(**parts, **own_name), name="given")
    assert engine.name == (own_name.get("name") or "given")
    np.testing.assert_array_equal(engine.generate(prompt, NEW), expected)
    assert isinstance(engine, ReferencedEngine)
    assert isinstance(engine, SizedEngine)
    if steps:
        assert engine.prefill(prompt)[0].shape == (2, 17)
        assert list(engine.programs(2, 5, NEW)) == ["decode_step"]


def test_prefill_alone_gives_the_uncached_logits(toy, prompt):
    """Without a forward of the whole sequence, prefill on every prefix is the truth."""
    logits = prefix_logits(toy.prefill, start=3)(prompt)
    np.testing.assert_allclose(logits[:, 2:], toy.uncached_logits(prompt)[:, 2:], rtol=1e-5, atol=1e-5)
    assert not np.any(logits[:, :2])


def test_the_program_of_a_jitted_step_says_what_is_donated(toy):
    """Key paths and bytes of what a step gives up, and the shapes of its cache."""
    engine = as_engine((toy.prefill, toy.decode_step))
    program = engine.programs(2, 5, NEW)["decode_step"]
    assert engine.facts(2, 5, NEW).kv_cache_allocated_bytes == 2 * 24 * 8 * 4
    assert program.cache_shapes == ("f32[2,24,8]",)
    assert program.donated == ("state[0]", "state[1]")
    assert program.donated_bytes == 2 * 24 * 8 * 4 + 4
    assert "input_output_alias" in program.compiled.as_text()


def test_a_state_with_a_random_key_has_a_program(toy):
    """A step that samples carries a typed key: its bytes are those of the key's numbers."""

    @functools.partial(jax.jit, donate_argnames="state")
    def sampling(tokens, state):
        key, inner = state
        logits, inner = toy.decode_step(tokens, inner)
        return logits, (jax.random.fold_in(key, 1), inner)

    def first(tokens):
        logits, inner = toy.prefill(tokens)
        return logits, (jax.random.key(0), inner)

    program = as_engine((first, sampling)).programs(2, 5, NEW)["decode_step"]
    assert program.donated_bytes == 2 * 24 * 8 * 4 + 4 + 8
    assert (program.cache_bytes, program.cache_part_bytes) == (2 * 24 * 8 * 4, 2 * 24 * 8 * 4)


def test_a_step_that_is_not_jitted_has_no_program(toy):
    """A plain function runs many programs; none of them is the step."""

    def op_by_op(tokens, state):
        return toy.decode_step(tokens, state)

    def read(tokens):
        return toy.prefill(tokens)

    engine = as_engine((read, op_by_op))
    assert engine.programs(2, 5, NEW) == {}
    assert engine.facts(2, 5, NEW).kv_cache_allocated_bytes is None


def test_a_jitted_method_has_a_program(toy):
    """The object that a method is bound to is the program's first argument."""

    class Mine:
        prefill = staticmethod(toy.prefill)

        @functools.partial(jax.jit, static_argnums=0, donate_argnames="state")
        def decode_step(self, tokens, state):
            return jax.nn.one_hot(tokens, 5), state

    program = as_engine(Mine()).programs(2, 5, NEW)["decode_step"]
    assert program.donated == ("state[0]", "state[1]")


def test_a_partial_with_keywords_has_a_program(toy):
    """What is bound by name, as parameters are, is an argument of the program; what is static is none."""

    @functools.partial(jax.jit, donate_argnames="state", static_argnames="shift")
    def step(tokens, state, *, params, shift):
        logits, state = toy.decode_step(tokens, state)
        return logits * params["w"] + shift, state

    @functools.partial(jax.jit, static_argnames="shift")
    def first(tokens, *, shift):
        logits, state = toy.prefill(tokens)
        return logits + shift, state

    bound = functools.partial(step, params={"w": jnp.ones((1, 17))})
    engine = as_engine((functools.partial(first, shift=2), functools.partial(bound, shift=2)))
    program = engine.programs(2, 5, NEW)["decode_step"]
    assert program.donated == ("state[0]", "state[1]")
    assert program.cache_shapes == ("f32[2,24,8]",)
    assert engine.facts(2, 5, NEW).kv_cache_allocated_bytes == 2 * 24 * 8 * 4


def test_a_static_number_in_front_takes_no_array_s_place():
    """A number that is a constant of the program looks like the scalar behind it, and is not donated in its name."""

    @functools.partial(jax.jit, static_argnums=0, donate_argnums=(1, 2))
    def step(size, count, state):
        return count + size, state * 2

    program = program_of("step", step, 3, jnp.float32(1), jnp.ones((4, 4)), state=())
    assert program.donated == ("count", "state")
    traced = jax.jit(lambda size, state: state * size, donate_argnums=1)
    assert program_of("step", traced, 3.0, jnp.ones((4, 4)), state=()).donated == ("state",)


def test_a_flax_model_is_an_engine(flax_toy, prompt, expected):
    """model.apply with caches and an offset generates what uncached decoding does, in one program a step."""
    engine = flax_engine(flax_toy.model, flax_toy.params, make_caches=flax_toy.make_caches)
    assert engine.name == "Toy"
    np.testing.assert_array_equal(engine.generate(prompt, NEW), expected)
    program = engine.programs(2, 5, NEW)["decode_step"]
    assert program.cache_shapes == ("f32[2,24,8]",)
    assert program.donated == ("state.kv_caches[0]", "state.position_offset")


def test_a_flax_model_may_be_jitted_already(flax_toy, prompt, expected):
    """With jit off, apply is called as it is, with whole numbers as offsets."""
    engine = flax_engine(flax_toy.model, flax_toy.params, make_caches=flax_toy.make_caches, jit=False)
    np.testing.assert_array_equal(engine.generate(prompt, NEW), expected)


def test_any_object_with_apply_grows_its_own_caches(flax_toy, toy, prompt, expected):
    """A model that concatenates its cache works too: prefill hands it no caches."""

    class Growing:
        def apply(self, params, ids, *, kv_caches, position_offset):
            old = ids[:, :0] if kv_caches is None else kv_caches
            assert np.ndim(position_offset) == 0
            ids = jnp.concatenate([old, ids], axis=1)
            logits, _ = flax_toy.model.apply(params, ids)
            return logits, ids

    engine = flax_engine(Growing(), flax_toy.params, donate=False)
    np.testing.assert_array_equal(engine.generate(prompt, NEW), expected)
    np.testing.assert_allclose(engine.uncached_logits(prompt), toy.uncached_logits(prompt), rtol=1e-5, atol=1e-5)


def test_a_model_with_its_parameters_is_a_pair_too(flax_toy):
    """as_engine takes (model, params); an engine of ours passes through."""
    engine = as_engine((flax_toy.model, flax_toy.params))
    assert engine.name == "Toy"
    assert as_engine(engine) is engine
    assert isinstance(engine, ReferencedEngine)


@pytest.mark.parametrize("subject", [3, (1, 2), (print,), "model"])
def test_what_is_no_engine_is_named(subject):
    """Anything else is an error that shows it and says what is accepted."""
    with pytest.raises(UsageError, match=r"is no engine.*generate\(tokens, new_tokens\)"):
        as_engine(subject)


def test_facts_that_are_no_method_are_refused(toy):
    """A dict under the name of a method is named before anything calls it."""
    engine = SimpleNamespace(prefill=toy.prefill, decode_step=toy.decode_step, facts={"kv_cache_bytes": 3})
    with pytest.raises(
        UsageError, match=r"facts of SimpleNamespace is dict {'kv_cache_bytes': 3}. It must be a method"
    ):
        as_engine(engine)


def test_a_partial_has_its_function_s_name(toy):
    """functools.partial hides a name; the engine finds it."""
    assert as_engine(functools.partial(toy.generate)).name == "generate"


@pytest.mark.parametrize(
    ("prompt", "seen"),
    [([], "float64"), ([[1], [2, 3]], "different lengths"), ([0.5], "float64"), (np.zeros((1, 2, 3), int), "2, 3")],
)
def test_a_prompt_that_is_none_is_refused(prompt, seen):
    """Empty, ragged, fractional or three-dimensional prompts say what they are."""
    with pytest.raises(TokenError, match=seen):
        as_tokens(prompt)


def test_a_row_of_tokens_becomes_a_batch_of_one():
    """A list of tokens is one prompt."""
    tokens = as_tokens([5, 6])
    assert tokens.tolist() == [[5, 6]]
    assert tokens.dtype == np.int32


def test_logits_of_another_rank_are_refused():
    """Logits are [B, V] or [B, T, V]; the source of others is named."""
    with pytest.raises(MeasurementError, match=r"mine returned logits of shape \[3\]"):
        last_logits(jnp.zeros(3), "mine")


def test_shapes_are_written_as_hlo_writes_them():
    """The names under which a copy is found in a program."""
    arrays = [jax.ShapeDtypeStruct((2, 3), dtype) for dtype in (jnp.bfloat16, jnp.int8, jnp.float32, jnp.uint32)]
    assert [hlo_shape(array) for array in arrays] == ["bf16[2,3]", "s8[2,3]", "f32[2,3]", "u32[2,3]"]
