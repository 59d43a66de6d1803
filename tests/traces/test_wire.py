"""The wire format is decoded without copies, and what is cut or no message is an error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qwenperf.traces import wire


@given(st.integers(min_value=-(2**63), max_value=2**63 - 1))
def test_numbers_of_64_bits_come_back_with_their_sign(value):
    """Negative numbers take ten bytes."""
    raw, rest = bytearray(), value & (2**64 - 1)
    while rest >= 0x80:
        raw.append(rest & 0x7F | 0x80)
        rest >>= 7
    raw.append(rest)
    found, end = wire.varint(bytes(raw), 0)
    assert (wire.signed(found), end) == (value, len(raw))


def test_a_message_gives_numbers_bytes_and_repeated_values(xspaces):
    raw = xspaces.number(1, 300) + xspaces.block(2, "name") + xspaces.block(3, b"\x01\x80\x01") + xspaces.number(3, 5)
    found = wire.message(raw)
    assert found == {1: [300], 2: [b"name"], 3: [b"\x01\x80\x01", 5]}
    assert wire.numbers(found[3]) == [1, 128, 5]
    assert wire.text(wire.last(found, 2)) == "name"
    assert (wire.last(found, 9, "none"), wire.text(None)) == ("none", "")


def test_fixed_sizes_are_numbers(xspaces):
    found = wire.message(xspaces.stat(4, 2.5) + xspaces.varint(5 << 3 | 5) + b"\x07\0\0\0")
    assert wire.double(found[2][0]) == 2.5
    assert found[5] == [7]


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"\x0a\x05ab", "beyond the end"),
        (b"\x08", "ends within a number"),
        (b"\x08" + b"\xff" * 11, "without end"),
        (b"\x0b\x01", "no field starts"),
        (b"\x02\x01a", "no field starts"),
    ],
)
def test_what_is_no_message_is_an_error_that_says_where(raw, told):
    with pytest.raises(wire.WireError, match=told):
        wire.message(raw)
    with pytest.raises(wire.WireError):
        wire.skip(b"\x0a\x05ab", 0, 4)


def test_fields_are_skipped_whatever_they_hold(xspaces):
    for raw in (xspaces.number(9, 300), xspaces.block(9, b"abc"), xspaces.varint(9 << 3 | 5) + b"abcd"):
        assert wire.skip(raw + b"\x08\x01", 0, len(raw) + 2) == len(raw)
