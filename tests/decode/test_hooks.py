"""Activations are captured and replaced where the names say, in prefill and decode, without a compile a step."""

from dataclasses import dataclass, field, replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.decode import hooks as hooks_module
from qwenperf.decode.build import build_engine
from qwenperf.decode.generator import build_generator
from qwenperf.decode.hooks import NO_HOOKS, capture, keeping, place_hooks
from qwenperf.decode.plan import plan
from qwenperf.decode.programs import compile_ahead, named
from qwenperf.decode.reading import pieces
from qwenperf.decode.rung import Steps, make_calls, steps_of
from qwenperf.decode.step import decode_step
from qwenperf.errors import ConfigError, UnknownNameError
from qwenperf.measure.compiles import CompileLog
from qwenperf.models.decoder import forget, forward, self_attention, unembed, whole_sequence
from qwenperf.models.families import family_of
from qwenperf.models.registry import load_model
from qwenperf.models.rotary import compute
from qwenperf.models.taps import points_of
from qwenperf.models.variant import PLAIN, variant_of
from qwenperf.program.fingerprint import fingerprint
from qwenperf.workloads.engine import parse_engine

CAPACITY, LENGTH, NEW = 16, 5, 6
MODEL = load_model("tiny")
EVERYTHING = (capture("*"),)
ENGINES = ("cached", "cached+layers=scanned", "cached-host+prefill_chunk=2")


@dataclass
class Reading:
    """A tap that knows nothing of hooks: writes down all that passes, after an edit."""

    edit: dict = field(default_factory=dict)
    seen: dict = field(default_factory=dict)

    def __call__(self, point, value, layer=None):  # noqa: D102  (a tap is a function)
        name = point if layer is None else point.replace("layers", f"layers.{layer}")
        self.seen[name] = self.edit.get(name, lambda x: x)(value)
        return self.seen[name]

    def drain(self):
        """Layers that are written out have nothing to drain."""
        return {}

    def keep(self, stacked):
        """Nor to keep."""


@cache
def uncached(edit=()):
    """Return a compiled uncached pass over whole sequences: its logits, and what it saw at each point."""

    def run(params, tokens):
        tap = Reading(edit=dict(edit))
        positions, mask = whole_sequence(tokens)
        variant = replace(PLAIN, tap=tap)
        hidden, _ = forward(params, MODEL.config, tokens, positions_BT=positions, mask_BTS=mask, variant=variant)
        return unembed(params, MODEL.config, hidden, variant), tap.seen

    return partial(jax.jit(run), MODEL.params)


def sequence(prompt, new):
    whole = np.zeros((len(prompt), CAPACITY), np.int32)
    whole[:, : LENGTH + NEW] = np.concatenate((prompt, new), axis=1)
    return whole


@cache
def engine(name, hooks=EVERYTHING):
    return build_engine(MODEL, name, capacity=CAPACITY, hooks=hooks)


@pytest.fixture(scope="module")
def tokens(prompt):
    return prompt(2, LENGTH).astype(np.int32)


@pytest.fixture(scope="module")
def plain(tokens):
    return np.asarray(build_engine(MODEL, "cached", capacity=CAPACITY).generate(tokens, NEW))


@pytest.mark.parametrize("name", ENGINES)
def test_what_is_captured_is_what_an_uncached_pass_sees(name, tokens, plain):
    """At every point of every layer and every position that was fed, in the prompt and in the steps; tokens hold."""
    chosen = engine(name)
    new = np.asarray(chosen.generate(tokens, NEW))
    np.testing.assert_array_equal(new, plain)
    _, truth = uncached()(sequence(tokens, new))
    seen = chosen.spare[2].seen
    assert set(seen) == set(points_of(2)) == set(truth)
    for point, values in seen.items():
        # Of the prompt's logits only the last are made, and the last token is never fed.
        places = slice(LENGTH - 1 if point == "logits" else 0, LENGTH + NEW - 1)
        np.testing.assert_allclose(values[:, places], truth[point][:, places], rtol=0, atol=1e-4)


def test_points_stand_where_their_names_say(tokens):
    """Each is made from the one before it by the layer's own parts."""
    config, params, family = MODEL.config, MODEL.params, family_of(MODEL.config)
    whole = sequence(tokens, np.ones((2, NEW), np.int32))
    _, seen = uncached()(whole)
    stream, (positions, mask) = params["embed_tokens"]["weight"][whole], whole_sequence(jnp.asarray(whole))
    np.testing.assert_array_equal(seen["embed"], stream)
    close = partial(np.testing.assert_allclose, rtol=0, atol=1e-5)
    for index, layer in enumerate(params["layers"]):
        at = {point: seen[f"layers.{index}.{point}"] for point in ("input", "attention", "mlp", "output")}
        close(at["input"], stream)
        normal = family.norm(stream, layer["input_layernorm"], config)
        rotation = compute(config, positions)
        attended, _ = self_attention(
            normal, layer["self_attn"], config, rotation=rotation, mask_BTS=mask, remember=partial(forget, None, 0)
        )
        close(at["attention"], attended)
        stream = stream + attended
        close(
            at["mlp"], family.mlp(family.norm(stream, layer["post_attention_layernorm"], config), layer["mlp"], PLAIN)
        )
        stream = stream + at["mlp"]
        close(at["output"], stream)
    close(seen["norm"], family.norm(stream, params["norm"], config))
    close(seen["logits"], unembed(params, config, seen["norm"]))


def test_each_step_hands_out_what_it_captured(tokens, plain):
    """A stream gives the prompt's activations first, one position a step then, on the device and for keeps."""
    generator = build_generator(MODEL, "cached-host", capacity=CAPACITY, hooks=[capture("layers.1.output")])
    steps = list(generator.stream(tokens, NEW))
    np.testing.assert_array_equal(np.stack([step.tokens for step in steps], axis=1), plain)
    pieces = [step.captured["layers.1.output"] for step in steps]
    assert all(isinstance(piece, jax.Array) for piece in pieces)
    assert [piece.shape[1] for piece in pieces] == [LENGTH] + [1] * (NEW - 1)
    _, truth = uncached()(sequence(tokens, plain))
    joined = np.concatenate(pieces, axis=1)
    np.testing.assert_allclose(joined, truth["layers.1.output"][:, : LENGTH + NEW - 1], rtol=0, atol=1e-4)
    # The generator collects the same in a buffer, of ragged rows from each row's own first position on.
    out = generator.generate([tokens[0].tolist(), tokens[1, 2:].tolist()], 2)
    assert out.pads.tolist() == [0, 2]
    _, alone = uncached()(np.pad(tokens[1:, 2:], ((0, 0), (0, CAPACITY - 3))))
    np.testing.assert_allclose(
        out.captured["layers.1.output"][1, 2:5], alone["layers.1.output"][0, :3], rtol=0, atol=1e-4
    )


def test_what_an_earlier_request_captured_is_not_handed_on(tokens):
    """Behind what a request has reached there are zeros, also after a longer one of the same batch size."""
    generator = build_generator(MODEL, "cached-host", capacity=CAPACITY, hooks=[capture("norm")])
    list(generator.stream(tokens, NEW))
    kept = np.asarray(generator.generate(tokens, 1).captured["norm"])
    chosen = build_engine(MODEL, "cached", capacity=CAPACITY, hooks=[capture("norm")])
    chosen.generate(tokens, NEW)
    seen = np.asarray(chosen.prefill(tokens)[1].device.seen["norm"])
    for found in (kept, seen):
        assert found[:, :LENGTH].any(axis=-1).all()
        assert not found[:, LENGTH:].any()


def test_an_identity_changes_no_token(tokens, plain):
    """At every point at once, also where a body of all layers asks which layer it is."""
    chosen = engine("cached+layers=scanned", (hooks_module.replace("*", lambda x: x),))
    np.testing.assert_array_equal(chosen.generate(tokens, NEW), plain)


@pytest.mark.parametrize(
    ("name", "point"),
    [("cached", "layers.1.mlp"), ("cached-host", "layers.0.output"), ("cached+layers=scanned", "layers.1.mlp")],
)
def test_a_replacement_does_what_the_same_edit_of_an_uncached_pass_does(name, point, tokens, plain):
    """In the prompt and in the steps, in the layer named and in no other."""
    new = np.asarray(engine(name, (hooks_module.replace(point, jnp.zeros_like),)).generate(tokens, NEW))
    logits, _ = uncached(((point, jnp.zeros_like),))(sequence(tokens, new))
    np.testing.assert_array_equal(new, np.asarray(logits).argmax(-1)[:, LENGTH - 1 : LENGTH + NEW - 1])
    assert (new != plain).any()


def test_hooks_of_one_point_act_in_the_order_given(tokens):
    """A capture sees what the replacements before it made, and not those after it."""
    both = [
        hooks_module.replace("embed", lambda x: x + 1),
        capture("embed"),
        hooks_module.replace("embed", jnp.zeros_like),
    ]
    chosen = engine("cached-host", tuple(both))
    _, state = chosen.prefill(tokens)
    embedded = MODEL.params["embed_tokens"]["weight"][tokens] + 1
    np.testing.assert_allclose(state.device.seen["embed"][:, :LENGTH], embedded, rtol=0, atol=1e-6)


def test_no_step_compiles_for_hooks(tokens):
    """The second request compiles nothing at all, streamed or not."""
    chosen = engine("cached")
    chosen.generate(tokens, NEW)
    list(chosen.stream(tokens, NEW))
    with CompileLog() as log:
        chosen.generate(tokens, NEW)
        list(chosen.stream(tokens, NEW))
    assert log.count() == 0


def test_without_hooks_the_step_is_the_plain_program(program_of):
    """The canonical fingerprint is the plain step's; one capture changes it."""
    bare = compile_ahead(named("decode_step", decode_step, config=MODEL.config), donate=True)
    machinery = compile_ahead(
        named("decode_step", keeping(decode_step, PLAIN, NO_HOOKS), config=MODEL.config), donate=True
    )
    chosen = build_engine(MODEL, "cached-host", capacity=CAPACITY, hooks=())
    (planned,) = [one for one in chosen.plan(2, LENGTH, NEW) if one.name == "decode_step"]
    prints = {fingerprint(planned.build().compiled.as_text())}
    state = jax.eval_shape(partial(chosen.calls.empty, 2))
    for call in (bare, machinery):
        tokens_B = jax.ShapeDtypeStruct((2,), jnp.int32)
        prints.add(fingerprint(call.lower(MODEL.params, tokens_B, state, chosen.tables).compile().as_text()))
    assert len(prints) == 1
    hooked = program_of(engine("cached-host", (capture("norm"),)), "decode_step", 2, LENGTH, NEW)
    assert fingerprint(hooked.compiled.as_text()) not in prints


def test_without_hooks_prefill_and_loop_are_the_plain_programs():
    """Also where one body runs for all layers: the machinery of hooks, with none in it, leaves nothing behind."""
    settings = parse_engine("cached+layers=scanned")
    chosen, variant = build_engine(MODEL, settings, capacity=CAPACITY), variant_of(settings)
    plain = steps_of(settings)
    standing = Steps(
        prefill=keeping(plain.prefill.func, variant, NO_HOOKS),
        decode_step=keeping(plain.decode_step.func, variant, NO_HOOKS),
    )
    calls = make_calls(settings, standing, MODEL.config, CAPACITY, jnp.dtype(jnp.float32))

    def prints(made):
        found = plan(made, chosen.params, chosen.tables, batch=2, pieces=pieces(LENGTH, settings, CAPACITY))
        return {one.name: fingerprint(one.build().compiled.as_text()) for one in found}

    found = prints(calls)
    assert found == prints(chosen.calls)
    assert set(found) == {"new_state", "prefill", "decode_step", "generate", "clear"}


def test_the_setting_keeps_every_layers_output(tokens, plain, program_of):
    """``hooks=capture`` is a rung like any other; what it keeps is given up and written in place."""
    chosen = build_engine(MODEL, "cached+hooks=capture", capacity=CAPACITY)
    np.testing.assert_array_equal(chosen.generate(tokens, NEW), plain)
    assert sorted(chosen.spare[2].seen) == ["layers.0.output", "layers.1.output"]
    program = program_of(chosen, "generate", 2, LENGTH, NEW)
    assert "state.seen['layers.0.output']" in program.donated
    assert program.compiled.memory_analysis().alias_size_in_bytes == program.donated_bytes
    assert chosen.facts(2, LENGTH, NEW).settings["hooks"] == "capture"


@pytest.mark.parametrize(
    ("hooks", "kind", "words"),
    [
        ([capture("layers.0.ouput")], UnknownNameError, "hook point 'layers.0.ouput'. Did you mean 'layers.0.output'"),
        ([capture("layers.2.output")], UnknownNameError, "hook point 'layers.2.output'"),
        ([hooks_module.replace("layer.*.mlp", jnp.sin)], UnknownNameError, "hook point 'layer.*.mlp'"),
        (["norm"], ConfigError, "'norm' is no hook"),
        ([hooks_module.replace("norm", 3)], ConfigError, "is no hook"),
        ("norm", ConfigError, "hooks are 'norm'. Write hooks=["),
        (None, ConfigError, "hooks are None"),
        ([capture("norm"), capture("n*")], ConfigError, "'norm' is captured twice"),
    ],
)
def test_hooks_that_cannot_stand_are_refused(hooks, kind, words):
    """Before anything is built, with the nearest name."""
    for build in (build_engine, build_generator):
        with pytest.raises(kind) as seen:
            build(MODEL, "cached", capacity=CAPACITY, hooks=hooks)
        assert words in str(seen.value)


def test_hooks_without_a_static_cache_are_refused():
    """Also hooks that a step of somebody's own would not have."""
    with pytest.raises(ConfigError, match="hooks need cache='static'; this engine has cache='none'"):
        build_engine(MODEL, "naive", hooks=EVERYTHING)
    with pytest.raises(ConfigError, match=r"hooks='capture' needs cache='static'"):
        build_engine(MODEL, "padded+hooks=capture")
    with pytest.raises(ConfigError, match="step of your own"):
        build_engine(MODEL, "cached", hooks=EVERYTHING, step=decode_step)


@pytest.mark.parametrize("change", [lambda x: x[:, :1, :3], lambda _: 3, lambda x: x.astype(jnp.bfloat16)])
def test_a_replacement_of_another_shape_or_dtype_is_refused(change, tokens):
    """Before anything runs; the message names the point and both shapes."""
    chosen = build_engine(MODEL, "cached", capacity=CAPACITY, hooks=[hooks_module.replace("layers.1.mlp", change)])
    with pytest.raises(ConfigError, match=r"'layers\.1\.mlp' returned .* for float32\[2, 5, 64\]"):
        chosen.generate(tokens, NEW)


@pytest.mark.parametrize("name", ["cached", "cached+layers=scanned"])
@pytest.mark.parametrize(
    ("change", "told", "cause"),
    [
        (lambda x: x / int("two"), "ValueError: invalid literal", ValueError),
        (lambda x, y: x + y, "TypeError: .*missing 1 required positional argument: 'y'", TypeError),
        (lambda x: x if x.sum() > 0 else -x, "TracerBoolConversionError: ", jax.errors.TracerBoolConversionError),
        (np.sin, "TracerArrayConversionError: ", jax.errors.TracerArrayConversionError),
    ],
)
def test_a_replacement_that_fails_is_named_by_its_point(name, change, told, cause, tokens):
    """Its own error is kept as the cause."""
    chosen = build_engine(MODEL, name, capacity=CAPACITY, hooks=[hooks_module.replace("layers.1.mlp", change)])
    with pytest.raises(ConfigError, match=rf"'layers\.1\.mlp' raised {told}") as seen:
        chosen.generate(tokens, NEW)
    assert isinstance(seen.value.__cause__, cause)


def test_one_hook_needs_no_list():
    """It is what a list of it is."""
    assert build_engine(MODEL, "cached", capacity=CAPACITY, hooks=capture("embed")).calls.hooks.captured == ("embed",)


def test_scanned_layers_refuse_two_orders_at_one_point(tokens):
    """One body cannot put out a point both before and after a replacement."""
    both = [
        capture("layers.0.output"),
        hooks_module.replace("layers.0.output", jnp.zeros_like),
        capture("layers.1.output"),
    ]
    chosen = build_engine(MODEL, "cached+layers=scanned", capacity=CAPACITY, hooks=both)
    with pytest.raises(ConfigError, match=r"layers\.output is captured before and after a replacement"):
        chosen.generate(tokens, NEW)


def test_places_are_all_points_that_a_pattern_matches():
    """In the order of the forward pass."""
    placed = place_hooks([capture("layers.*.mlp"), capture("embed")], MODEL.config)
    assert placed.captured == ("layers.0.mlp", "layers.1.mlp", "embed")
