"""Facts of programs that the installed JAX compiles now."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.program import facts, hlo, stablehlo
from qwenperf.program.analysis import analyse
from qwenperf.program.fingerprint import fingerprint


def rotate(x_TD, position, tables=None):
    frequencies = 1.0 / (10000.0 ** (jnp.arange(0, 8, 2, dtype=jnp.float32) / 8.0))
    angle = jnp.float32(position) * frequencies
    cos, sin = (jnp.cos(angle), jnp.sin(angle)) if tables is None else (tables[0][position], tables[1][position])
    return x_TD * cos[None, :] + x_TD * sin[None, :]


def step(cache, x_TD, position, tables=None):
    keys = jax.lax.dynamic_update_slice(cache["k"], rotate(x_TD, position, tables)[None], (0, position, 0))
    return {"k": keys}, (keys * 2).sum()


CACHE = {"k": np.zeros((2, 16, 4), np.float32)}
X = np.ones((1, 4), np.float32)
POSITION = np.int32(3)
TABLES = (np.ones((16, 4), np.float32), np.ones((16, 4), np.float32))


def compile_step(*arguments, donate=(0,)):
    return jax.jit(step, donate_argnums=donate).lower(*arguments)


@pytest.fixture(scope="module")
def rebuilt():
    """The step that makes its rotary tables itself."""
    return compile_step(CACHE, X, POSITION)


@pytest.fixture(scope="module")
def cached():
    """The step that is given its rotary tables."""
    return compile_step(CACHE, X, POSITION, TABLES)


def test_rotary_tables_built_in_the_step_are_seen_with_the_line_that_builds_them(rebuilt):
    found = facts.trigonometric(hlo.parse(rebuilt.compile().as_text()))
    assert [name.rpartition(":")[0] for name in found] == ["cosine from test_live.py", "sine from test_live.py"]
    assert set(stablehlo.trigonometric(rebuilt.as_text())) == {"cosine", "sine"}


def test_rotary_tables_given_to_the_step_are_no_finding(cached):
    assert facts.trigonometric(hlo.parse(cached.compile().as_text())) == ()
    assert stablehlo.trigonometric(cached.as_text()) == {}


def test_rotary_tables_rebuilt_inside_a_loop_are_seen():
    def loop(x_TD):
        return jax.lax.fori_loop(0, 5, rotate_at, x_TD)

    def rotate_at(position, x_TD):
        return rotate(x_TD, position)

    found = facts.trigonometric(hlo.parse(jax.jit(loop).lower(X).compile().as_text()))
    assert {name.split()[0] for name in found} == {"cosine", "sine"}


def test_the_donated_cache_is_aliased_by_name(rebuilt):
    module = hlo.parse(rebuilt.compile().as_text())
    assert facts.matched(module, ["cache.k"])
    assert facts.unaliased(module, ["cache.k"]) == ()


def test_a_cache_that_was_not_donated_is_named_with_its_copy():
    module = hlo.parse(compile_step(CACHE, X, POSITION, donate=()).compile().as_text())
    assert facts.unaliased(module, ["cache"]) == ("cache['k'] f32[2,16,4]",)
    assert len(facts.copies(module, ["f32[2,16,4]"])) == 1


def test_two_compiles_of_one_function_have_one_fingerprint_and_other_programs_another(rebuilt, cached):
    again = compile_step(CACHE, X, POSITION).compile().as_text()
    longer = compile_step({"k": np.zeros((2, 32, 4), np.float32)}, X, POSITION).compile().as_text()
    other = [fingerprint(text) for text in (longer, cached.compile().as_text())]
    assert fingerprint(again) == fingerprint(rebuilt.compile().as_text())
    assert fingerprint(again) not in other


def test_another_constant_is_another_fingerprint():
    texts = [jax.jit(lambda x, by=by: x * by).lower(X).compile().as_text() for by in (2.0, 3.0)]
    assert fingerprint(texts[0]) != fingerprint(texts[1])


LAYERS, WIDTH, INNER = 6, 64, 256


def layer(x_BD, params):
    return x_BD + jax.nn.silu(x_BD @ params["up"]) @ params["down"]


def scanned(params, x_BD):
    return jax.lax.scan(lambda x, of_layer: (layer(x, of_layer), None), x_BD, params)[0]


def unrolled(params, x_BD):
    for index in range(LAYERS):
        x_BD = layer(x_BD, jax.tree.map(lambda stacked, index=index: stacked[index], params))
    return x_BD


@pytest.fixture(scope="module", params=["float32", "bfloat16"])
def layered(request):
    """One model of six layers in both forms, analysed."""
    shapes = {"up": (LAYERS, WIDTH, INNER), "down": (LAYERS, INNER, WIDTH)}
    params = {name: jax.ShapeDtypeStruct(shape, request.param) for name, shape in shapes.items()}
    x_BD = jax.ShapeDtypeStruct((2, WIDTH), request.param)
    compiled = [jax.jit(form).lower(params, x_BD).compile() for form in (scanned, unrolled)]
    size = sum(int(np.prod(one.shape)) * one.dtype.itemsize for one in params.values())
    return [analyse("step", one.as_text(), cost=one.cost_analysis()) for one in compiled], size


def test_scanned_and_unrolled_layers_agree_and_read_their_weights_once(layered):
    (in_loop, written_out), size = layered
    products = LAYERS * 2 * 2 * 2 * WIDTH * INNER
    for told in (in_loop, written_out):
        assert told.flops == pytest.approx(products, rel=0.03)
        assert told.extra["weight_bytes"] == pytest.approx(size, rel=0.001)
        assert told.unknown_loops == ()
    assert in_loop.flops == pytest.approx(written_out.flops, rel=0.02)
    # The compiler counts the loop's body once.
    assert in_loop.extra["compiler_flops"] < 0.7 * products


def test_a_callback_into_python_is_seen_with_its_line():
    def step(x):
        return jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x) * 2

    told = analyse("step", jax.jit(step).lower(X).compile().as_text())
    assert [name.rpartition(":")[0] for name in told.host_calls] == ["callback into the host from test_live.py"]
    assert told.kernels == ()
