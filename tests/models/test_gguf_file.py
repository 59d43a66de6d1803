import gguf
import numpy as np
import pytest

from qwenperf.errors import CheckpointError
from qwenperf.models.gguf_file import GgufFile

LISTS = {
    "of.strings": ["", "a", "Grüße", "x" * 300],
    "of.numbers": [1, -2, 300_000],
    "of.fractions": [0.5, -2.25],
    "of.flags": [True, False],
}


def write(path, endianess=gguf.GGUFEndian.LITTLE):
    writer = gguf.GGUFWriter(path, "llama", endianess=endianess)
    for key, value in LISTS.items():
        writer.add_array(key, value)
    writer.add_string("after", "the lists")
    writer.add_uint32("number", 7)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("endianess", gguf.GGUFEndian)
def test_metadata_are_python_values(tmp_path, endianess):
    """Lists of each kind, what stands behind them, and a default; in either order of bytes."""
    file = GgufFile(write(tmp_path / "model.gguf", endianess))
    assert {key: file.get(key) for key in LISTS} == LISTS
    assert (file.get("after"), file.get("number"), file.architecture) == ("the lists", 7, "llama")
    assert file.get("nothing", 3) == 3
    assert set(LISTS) < set(file.names)


def test_values_are_those_that_the_package_reads(tmp_path):
    """Key by key, by the package's own reader."""
    path = write(tmp_path / "model.gguf")
    file, plain = GgufFile(path), gguf.GGUFReader(path)
    assert file.names == tuple(plain.fields)
    for key, field in plain.fields.items():
        assert file.get(key) == field.contents(), key


def test_a_list_that_ends_behind_the_end_of_the_file_is_refused(tmp_path):
    """Of strings and of numbers: a count that lies is found, whatever it says."""
    whole = write(tmp_path / "model.gguf").read_bytes()
    for key in ("of.strings", "of.numbers"):
        place = whole.index(key.encode()) + len(key) + 8
        for count in (10**4, 2**40, 2**64 - 1):
            lying = whole[:place] + np.uint64(count).tobytes() + whole[place + 8 :]
            path = tmp_path / "lying.gguf"
            path.write_bytes(lying)
            with pytest.raises(CheckpointError, match=r"lying\.gguf: cannot be read as GGUF"):
                GgufFile(path)


def test_text_that_is_none_is_named_by_its_key(tmp_path):
    """In a list, and alone."""
    whole = write(tmp_path / "model.gguf").read_bytes()
    path = tmp_path / "model.gguf"
    path.write_bytes(whole.replace("Grüße".encode(), b"Gr\xff\xff\xff\xffe").replace(b"the lists", b"the \xffists"))
    file = GgufFile(path)
    for key in ("of.strings", "after"):
        with pytest.raises(CheckpointError, match=f"metadata {key} is no text"):
            file.get(key)
