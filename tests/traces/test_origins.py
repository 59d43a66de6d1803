"""Programs as the profiler saves them tell of each instruction its source, kind and cost; checked on compiled ones."""

import jax
import jax.numpy as jnp
import pytest

from qwenperf.traces import costs
from qwenperf.traces.hlo_proto import Computation, Instruction, Module, Shape, read_module
from qwenperf.traces.origins import argument_path, of_tpu, origins
from qwenperf.traces.wire import WireError

ROWS, WIDTH, POSITIONS = 4, 32, 256


def attend(scores, cache):
    """Named as attention is, so that what it computes is sorted as that."""
    return jax.nn.softmax(scores) @ cache


def step(params, cache, hidden, position):
    """A decode step in small: a product with weights, an update in place, attention, a loop."""
    hidden = hidden @ params["layers"][3]["q_proj"]
    cache = jax.lax.dynamic_update_slice(cache, hidden[:1], (position, 0))
    mixed = attend(hidden @ cache.T, cache)
    looped = jax.lax.fori_loop(0, position, lambda _, x: jnp.tanh(x @ params["layers"][3]["loop"]), mixed)
    return cache, looped


@pytest.fixture(scope="module")
def module():
    """The compiled step, as a profile holds it."""
    weights = {"q_proj": jnp.ones((WIDTH, WIDTH)), "loop": jnp.ones((WIDTH, WIDTH))}
    params = {"layers": {3: weights}}
    arguments = (params, jnp.ones((POSITIONS, WIDTH)), jnp.ones((ROWS, WIDTH)), jnp.int32(2))
    compiled = jax.jit(step, donate_argnums=1).lower(*arguments).compile()
    (program,) = compiled.runtime_executable().hlo_modules()
    proto = program.as_serialized_hlo_module_proto()
    size = bytearray()
    rest = len(proto)
    while rest >= 0x80:
        size.append(rest & 0x7F | 0x80)
        rest >>= 7
    return b"\x0a" + bytes((*size, rest)) + proto


@pytest.fixture(scope="module")
def known(module):
    """What is known of every instruction."""
    read = read_module(module)
    names = {one.name for each in read.computations.values() for one in each.instructions.values()}
    return read, origins(read, names)


def test_a_product_with_weights_names_them_and_counts_its_terms(known):
    """Layers are one: their numbers are left out."""
    products = [one for one in known[1].values() if one.reads == "params.layers.*.q_proj" and one.category == "matmul"]
    assert products
    assert products[0].flops == 2 * ROWS * WIDTH * WIDTH
    assert products[0].bytes == 4 * (2 * ROWS * WIDTH + WIDTH * WIDTH)
    assert products[0].shape == f"f32[{ROWS},{WIDTH}]"


def test_an_update_in_place_counts_what_it_writes_and_not_the_cache(known):
    updates = [one for one in known[1].values() if one.category == "cache update" and one.opcode == "fusion"]
    assert updates
    assert all(one.bytes < 4 * POSITIONS * WIDTH / 2 for one in updates)
    assert any("test_origins.py:" in one.source for one in updates)


def test_attention_is_what_a_function_of_that_name_computes(known):
    attention = [one for one in known[1].values() if one.category == "attention"]
    assert any("exp" in one.op_name for one in attention)
    assert {one.source.rpartition("/")[2].rpartition(":")[0] for one in attention if one.source} >= {"test_origins.py"}


def test_what_a_loop_runs_has_a_source_even_where_the_compiler_gave_none(known):
    """Then it is the loop's."""
    module, found = known
    bodies = [each for each in module.computations.values() if each.id != module.entry]
    loops = [
        one for each in module.computations.values() for one in each.instructions.values() if one.opcode == "while"
    ]
    called = {number for loop in loops for number in loop.calls}
    inside = [found[one.name] for each in bodies if each.id in called for one in each.instructions.values()]
    assert inside
    assert all(
        one.op_name for one in inside if one.opcode not in {"parameter", "tuple", "get-tuple-element", "constant"}
    )


def test_costs_of_the_whole_program_are_those_of_the_compiler(module):
    """Within what compilers count otherwise (a loop's body, transcendental functions)."""
    read = read_module(module)
    entry = read.computations[read.entry]
    total = 0
    for one in entry.instructions.values():
        inner = list(costs.inside(read, one)) if one.opcode == "fusion" else [(entry, one)]
        total += sum(costs.flops(*each) for each in inner)
    terms = 2 * ROWS * WIDTH * WIDTH + 2 * 2 * ROWS * POSITIONS * WIDTH
    assert terms <= total < 1.5 * terms


def called(target, *operands):
    """Return a computation that hands matrices to a library, and the call."""
    result = Shape(dtype="tuple", parts=(Shape(dtype="f32", sizes=(3, 8, 5)), Shape(dtype="s8", sizes=(4096,))))
    given = {
        number: Instruction(id=number, name=f"p{number}", opcode="parameter", shape=shape)
        for number, shape in enumerate(operands)
    }
    call = Instruction(id=9, name="call", opcode="custom-call", shape=result, operands=tuple(given), target=target)
    return Computation(id=1, instructions={**given, 9: call}, root=9), call


@pytest.mark.parametrize("target", ["__cublas$gemm", "__cublas$lt$matmul", "__onednn$matmul"])
def test_a_product_that_a_library_makes_counts_its_terms_and_not_its_workspace(target):
    """What else is called computes nobody knows what."""
    computation, call = called(target, Shape(dtype="f32", sizes=(3, 8, 7)), Shape(dtype="f32", sizes=(3, 7, 5)))
    module = Module(name="m", computations={1: computation}, entry=1)
    assert costs.flops(computation, call) == 2 * 3 * 8 * 7 * 5
    assert costs.moved_bytes(module, computation, call) == 4 * (3 * 8 * 7 + 3 * 7 * 5 + 3 * 8 * 5)
    computation, call = called("TopK", Shape(dtype="f32", sizes=(3, 8, 7)))
    assert costs.flops(computation, call) == 0


def test_updates_of_several_arrays_in_one_fusion_count_what_they_write():
    """Keys and values are often written by one: that is two positions, and not two whole caches read and written."""
    cache, part = Shape(dtype="f32", sizes=(1024, 64)), Shape(dtype="f32", sizes=(1, 64))
    both = Shape(dtype="tuple", parts=(cache, cache))

    def made(key, opcode, shape, *operands, **more):
        return Instruction(id=key, name=f"i{key}", opcode=opcode, shape=shape, operands=operands, **more)

    given = [made(n, "parameter", shape, number=n) for n, shape in enumerate((cache, cache, part, part))]
    updates = [made(4, "dynamic-update-slice", cache, 0, 2), made(5, "dynamic-update-slice", cache, 1, 3)]
    inside = [*given, *updates, made(6, "tuple", both, 4, 5)]
    called = Computation(id=2, instructions={one.id: one for one in inside}, root=6)
    fusion = made(9, "fusion", both, 0, 1, 2, 3, calls=(2,))
    entry = Computation(id=1, instructions={one.id: one for one in (*given, fusion)}, root=9)
    module = Module(name="m", computations={1: entry, 2: called}, entry=1)
    assert costs.moved_bytes(module, entry, fusion) == 4 * part.bytes


@pytest.mark.parametrize(
    ("shape", "size", "text"),
    [
        (Shape(dtype="f32", sizes=(2, 3)), 24, "f32[2,3]"),
        (Shape(dtype="bf16", sizes=(5,)), 10, "bf16[5]"),
        (Shape(dtype="s4", sizes=(3,)), 2, "s4[3]"),
        (Shape(dtype="f8e4m3fn", sizes=(3,)), 3, "f8e4m3fn[3]"),
        (Shape(dtype="pred", sizes=()), 1, "pred[]"),
        (Shape(dtype="token"), 0, "token[]"),
        (Shape(dtype="tuple", parts=(Shape(dtype="s8", sizes=(4,)), Shape(dtype="f64"))), 12, "(s8[4], f64[])"),
    ],
)
def test_shapes_have_bytes_and_names(shape, size, text):
    assert (shape.bytes, str(shape)) == (size, text)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("params['layers'][0]['self_attn']['q_proj']", "params.layers.*.self_attn.q_proj"),
        ("state.layers[12].keys", "state.layers.*.keys"),
        ("args[0]", "args.*"),
        ("w2", "w2"),
    ],
)
def test_numbers_in_key_paths_are_left_out(path, expected):
    assert argument_path(path) == expected


def test_a_program_that_is_cut_is_an_error(module):
    with pytest.raises(WireError):
        read_module(module[: len(module) // 2])


def test_a_tpu_s_copy_between_memories_is_a_copy_with_its_shapes():
    """Its text names tiles and memory spaces, with brackets inside the tuple that it makes."""
    made = "(f32[8,16]{1,0:T(8,128)S(5)}, f32[8,16]{1,0:T(8,128)}, u32[]{:S(2)})"
    text = f"%copy-start.1 = {made} copy-start(f32[8,16]{{1,0:T(8,128)}} %p.1)"
    told = of_tpu("copy-start.1", {"text": text, "hlo_category": "copy-start", "bytes_accessed": 1024})
    assert (told.opcode, told.category, told.bytes) == ("copy-start", "copy", 1024)
    assert told.shape == "(f32[8,16], f32[8,16], u32[])"


def test_a_tpu_s_fusion_of_many_results_is_read_like_any_other():
    """Each fifth member of its tuple has its number in a comment, and what it costs must not be lost for that."""
    made = f"({', '.join(['f32[8,128]{1,0:T(8,128)}'] * 5)}, /*index=5*/f32[8]{{0:T(256)}})"
    text = f"%multiply_reduce_fusion.7 = {made} fusion(f32[8,128]{{1,0:T(8,128)}} %p.1), kind=kLoop, calls=%fused.7"
    told = of_tpu("multiply_reduce_fusion.7", {"text": text, "hlo_category": "loop fusion", "flops": 4096})
    assert (told.opcode, told.category, told.flops) == ("fusion", "reduction", 4096)
    assert told.shape == f"({', '.join(['f32[8,128]'] * 5)}, f32[8])"


@pytest.mark.parametrize(
    ("kind", "category"),
    [("loop fusion", "elementwise"), ("data formatting", "copy"), ("convolution fusion", "matmul")],
)
def test_a_tpu_s_fusion_without_a_telling_name_is_what_its_profiler_calls_it(kind, category):
    """Arithmetic that is called a copy would be looked for in the wrong place."""
    text = "%fusion.7 = f32[8,128]{1,0:T(8,128)} fusion(f32[8,128]{1,0:T(8,128)} %p.1), kind=kLoop, calls=%fused.7"
    assert of_tpu("fusion.7", {"text": text, "hlo_category": kind}).category == category
