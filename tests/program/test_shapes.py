"""Types of HLO text are read with their layout, tiles, memory space and bytes."""

import pytest

from qwenperf.program import shapes
from qwenperf.program.shapes import array, arrays, members


def test_an_array_is_read_with_layout_tile_and_memory_space():
    one = array("bf16[24,896,128]{2,1,0:T(8,128)(2,1)S(1)}")
    assert (one.dtype, one.sizes, one.order, one.tile, one.space) == ("bf16", (24, 896, 128), (2, 1, 0), (8, 128), 1)
    assert one.bytes == 24 * 896 * 128 * 2


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("f32[]", 4),
        ("pred[7]", 7),
        ("f64[2]", 16),
        ("c64[3]", 24),
        ("f8e4m3fn[10]", 10),
        ("s4[10]", 10),
        ("s4[10]{0:T(1024)E(4)}", 5),
        ("token[]", 0),
        ("f32[<=8,2]", 64),
        ("f32[0,5]", 0),
    ],
)
def test_bytes_follow_from_dtype_and_sizes(text, size):
    assert array(text).bytes == size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        # 64 columns fill tiles of 128: twice the bytes.
        ("bf16[2,1024,64]{2,1,0:T(8,128)(2,1)}", 2 * 1024 * 128 * 2),
        # The other order fills them: 1024 columns of 64 rows.
        ("bf16[2,1024,64]{1,2,0:T(8,128)(2,1)}", 2 * 1024 * 64 * 2),
        ("f32[3]{0:T(128)}", 128 * 4),
        ("f32[]{:T(128)}", 128 * 4),
        ("f32[5,130]{1,0:T(8,128)}", 8 * 256 * 4),
        ("f32[5,130]{1,0}", 5 * 130 * 4),
    ],
)
def test_tiles_are_stored_whole(text, size):
    assert array(text).stored_bytes == size


@pytest.mark.parametrize("tile", ["T(999999999)", "T(0,128)", "T(8,8,8,8,8)", "T()"])
def test_a_tile_that_no_chip_has_is_none(tile):
    assert array(f"f32[5,130]{{1,0:{tile}}}").stored_bytes == 5 * 130 * 4


def test_members_of_tuples_are_told_apart_and_flattened():
    text = "(f32[4]{0}, /*index=1*/(s32[]{:T(128)}, bf16[2,3]{1,0:T(8,128)(2,1)S(1)}), u32[])"
    assert members(text) == ("f32[4]{0}", "(s32[]{:T(128)}, bf16[2,3]{1,0:T(8,128)(2,1)S(1)})", "u32[]")
    assert [one.dtype for one in arrays(text)] == ["f32", "s32", "bf16", "u32"]
    assert array(text) is None
    assert members("f32[4]{0}") == ("f32[4]{0}",)


def test_bytes_of_a_type_can_be_asked_for_by_memory_space():
    text = "(f32[4]{0:S(1)}, f32[8]{0})"
    assert (shapes.stored_bytes(text), shapes.stored_bytes(text, space=0)) == (48, 32)


@pytest.mark.parametrize("text", ["", "(", "f32", "f32[4", "]{0}", "((((", "f32[99999999999999,9999999999]"])
def test_what_is_no_type_has_no_bytes(text):
    assert sum(one.stored_bytes for one in arrays(text)) == 0
    members(text)


def test_a_layout_that_does_not_fit_its_axes_is_taken_for_the_usual_one():
    assert array("f32[2,3]{5,7}").order == (1, 0)
