"""A program of a case: compiled, kept, and known the next time."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from qwenperf.aot import case as case_module
from qwenperf.aot import remembered
from qwenperf.aot.case import compile_case
from qwenperf.aot.models import abstract_model
from qwenperf.schema.analysis import TargetRecord
from qwenperf.schema.records import Status

DECLARED = "cached+start=declared"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder of records."""
    return tmp_path_factory.mktemp("remembered")


@pytest.fixture(scope="module")
def both(tiny, v5e, place):
    """A decode step that nobody has compiled before, and its like."""
    return [compile_case(tiny(engine), "decode_step", v5e, place=place) for engine in ("cached", DECLARED)]


@pytest.fixture(scope="module")
def first(both):
    """The first of them."""
    return both[0]


def test_a_decode_step_for_a_chip_says_what_it_is(first, tiny):
    """Case, program, sizes, and that the cache is updated in place."""
    assert first.status is Status.MEASURED, first.error
    assert first.id == "tiny/cached/b1-p8-n8-bf16@v5e-1/decode_step"
    assert first.spec == {"case": tiny().to_json(), "program": "decode_step"}
    assert first.program.unaliased_donations == ()
    assert first.program.trigonometric == ()
    assert first.fit.fits
    assert first.fit.longest_context > 1000
    assert first.estimate.tokens_per_s > 0
    assert first.program.extra["layers"] == abstract_model("tiny", "bf16").config.num_hidden_layers
    assert {one.path for one in first.arguments if one.donated} >= {"state.layers.0.keys", "state.layers.1.values"}
    assert "remembered" not in first.extra


def test_the_same_program_is_not_compiled_again(first, tiny, v5e, place):
    """The record is the same but for the word that it was known."""
    again = compile_case(tiny(), "decode_step", v5e, place=place)
    assert again.extra == {**first.extra, "remembered": True}
    assert replace(again, extra=first.extra) == first


def test_another_name_of_one_program_finds_its_record_under_its_own_id(both):
    """``start`` says where programs come from, and not what they are."""
    assert both[1].extra["remembered"]
    assert both[1].id.startswith("tiny/cached+start=declared/")
    assert both[1].spec["case"]["engine"] == DECLARED
    assert both[1].program == both[0].program


def test_a_question_that_was_asked_before_is_answered_without_tracing(first, tiny, v5e, place, monkeypatch):
    """Nothing is lowered: that takes seconds for a large model."""
    monkeypatch.setattr(case_module, "lower", None)
    again = compile_case(tiny(), "decode_step", v5e, place=place)
    assert replace(again, extra=first.extra) == first
    with pytest.raises(TypeError):
        compile_case(replace(tiny(), engine="padded"), "decode_step", v5e, place=place)


def test_the_name_of_a_question_knows_all_that_decides_what_is_traced(first, monkeypatch):
    """Variables of JAX, versions, our code; no other compiler's than a TPU's, and no checkout of JAX."""
    name = remembered.asked_key(first.target, "case", environ={"HOME": "/a"})
    assert remembered.asked_key(first.target, "case", environ={"HOME": "/b"}) == name
    others = [
        remembered.asked_key(first.target, "other case", environ={}),
        remembered.asked_key(replace(first.target, hbm_bytes=1), "case", environ={}),
        remembered.asked_key(first.target, "case", environ={"JAX_DEFAULT_MATMUL_PRECISION": "highest"}),
        remembered.asked_key(first.target, "case", environ={"LIBTPU_INIT_ARGS": "--x"}),
    ]
    assert len({name, *others}) == 5
    assert remembered.asked_key(TargetRecord(name="cpu", platform="cpu"), "case") is None
    monkeypatch.setattr(remembered, "_version", lambda package: f"another {package}")
    assert remembered.asked_key(first.target, "case", environ={}) != name
    monkeypatch.setattr(remembered, "_is_editable", lambda _package: True)
    assert remembered.asked_key(first.target, "case", environ={}) is None


def test_a_second_compilation_marks_what_it_does_not_give_again(first, tiny, v5e, place, monkeypatch):
    """The mark is remembered: who asks next is told too."""
    monkeypatch.setattr(remembered, "read", lambda *_: replace(first, program=replace(first.program, temp_bytes=1)))
    again = compile_case(tiny(), "decode_step", v5e, place=place, again=True)
    monkeypatch.undo()
    assert again.program == replace(first.program, unstable=("temp_bytes",))
    assert again.extra["compilations"] == 2
    assert "remembered" not in again.extra
    known = compile_case(tiny(), "decode_step", v5e, place=place)
    assert (known.program.unstable, known.extra["remembered"]) == (("temp_bytes",), True)
    remembered.write(place, next(place.glob("*.json.gz")).name.partition(".")[0], first)


def test_a_second_compilation_without_a_first_is_made_of_both(tiny, cpu, tmp_path):
    """Nothing that was not compared says that it was."""
    assert compile_case(tiny(), "decode_step", cpu, place=tmp_path, again=True).extra["compilations"] == 2


def test_a_damaged_record_is_none(first, place):
    """It is compiled again instead."""
    (file,) = place.glob("*.json.gz")
    name = file.name.partition(".")[0]
    known = remembered.read(place, name)
    assert known == first
    whole = file.read_bytes()
    for damaged in (whole[:-40], whole[:15] + b"\xff" * 45 + whole[60:], b""):
        file.write_bytes(damaged)
        assert remembered.read(place, name) is None
    file.write_bytes(whole)


def test_the_key_knows_everything_that_changes_a_record(first, monkeypatch):
    """Text, target, what is told beside the text, and variables that compilers read."""
    key = remembered.key("text", first.target, {"fusion": "xla"}, environ={})
    others = [
        remembered.key("texts", first.target, {"fusion": "xla"}, environ={}),
        remembered.key("text", replace(first.target, hbm_bytes=1), {"fusion": "xla"}, environ={}),
        remembered.key("text", first.target, {"fusion": "barriers"}, environ={}),
        remembered.key("text", first.target, {"fusion": "xla"}, environ={"LIBTPU_INIT_ARGS": "--x"}),
        remembered.key("text", first.target, {"fusion": "xla"}, environ={"XLA_FLAGS": "--x"}),
        remembered.key("text", first.target, {"fusion": "xla"}, environ={"JAX_OPTIMIZATION_LEVEL": "O0"}),
    ]
    assert len({key, *others}) == 7
    assert remembered.key("text", first.target, {"fusion": "xla"}, environ={"HOME": "/elsewhere"}) == key
    monkeypatch.setattr(remembered, "code_digest", lambda: "other code")
    assert remembered.key("text", first.target, {"fusion": "xla"}, environ={}) != key


def test_a_program_is_not_answered_by_what_was_made_of_it_with_other_optimisations(
    first, tiny, v5e, place, tmp_path, monkeypatch
):
    """JAX tells the compiler of them beside the program, whose text is the same."""
    own = shutil.copytree(place, tmp_path / "remembered")
    before = compile_case(tiny(), "decode_step", v5e, place=own)
    assert before.extra["remembered"]
    assert before.id == first.id
    monkeypatch.setattr(case_module, "compile_lowered", lambda lowered: replace(lowered.case, compile_s=77.0))
    monkeypatch.setenv("JAX_OPTIMIZATION_LEVEL", "O1")
    assert compile_case(tiny(), "decode_step", v5e, place=own).compile_s == 77.0
    monkeypatch.delenv("JAX_OPTIMIZATION_LEVEL")
    assert compile_case(tiny(), "decode_step", v5e, place=own) == before


def test_the_package_that_holds_a_compiler_counts(first, monkeypatch):
    """That of a GPU comes in a plugin, whose version is its own."""
    key = remembered.key("text", first.target, environ={})
    known = remembered._version
    monkeypatch.setattr(remembered, "_version", lambda package: "new" if package.endswith("pjrt") else known(package))
    assert remembered.key("text", first.target, environ={}) != key


@pytest.mark.parametrize("room", ["adapters", "decode", "measure", "models", "program", "workloads"])
def test_a_change_anywhere_in_our_code_is_another_key(room, tmp_path):
    """Whatever room: each may change what is lowered, or what a record says of it."""
    for name in ("adapters", "decode", "measure", "models", "program", "workloads"):
        (tmp_path / name / "inner").mkdir(parents=True)
        (tmp_path / name / "inner" / "module.py").write_text("x = 1\n")
    before = remembered.code_digest.__wrapped__(tmp_path)
    (tmp_path / "notes.txt").touch()
    assert remembered.code_digest.__wrapped__(tmp_path) == before
    (tmp_path / room / "inner" / "module.py").write_text("x = 2\n")
    assert remembered.code_digest.__wrapped__(tmp_path) != before


def test_our_own_code_is_what_is_digested():
    """All of the package: the digest is no constant of an empty folder."""
    assert remembered.code_digest() != remembered.code_digest(Path("no such folder"))


def test_the_machine_counts_where_it_is_compiled_for(first):
    """A program for this CPU or GPU is another one on another; a TPU's is the same everywhere."""
    cpu = TargetRecord(name="cpu", platform="cpu")
    ours = {"cpu_model": "A", "isa": ["avx2"], "cores": 2, "device_kind": "cpu"}
    others = [
        {**ours, "cpu_model": "B"},
        {**ours, "isa": ["avx512f"]},
        {**ours, "cores": 4},
        {**ours, "device_kind": "H"},
    ]
    keys = {remembered.key("text", cpu, machine=machine) for machine in (ours, *others)}
    assert len(keys) == 5
    assert remembered.key("text", cpu, machine={**ours, "volatile": {"load": [3.0]}}) in keys
    assert len({remembered.key("text", first.target, machine=machine) for machine in (ours, *others)}) == 1


def test_records_that_nobody_asks_for_are_removed_after_a_month(first, tmp_path):
    """And no others."""
    remembered.write(tmp_path, "name", first)
    remembered.forget_old(tmp_path)
    assert remembered.read(tmp_path, "name") is not None
    remembered.forget_old(tmp_path, now=remembered.time.time() + 32 * 24 * 3600)
    assert remembered.read(tmp_path, "name") is None


def test_a_record_that_somebody_else_removes_keeps_no_other_one(first, tmp_path, monkeypatch):
    """Two commands forget at once, and each goes on with what is left."""
    for name in "abc":
        remembered.write(tmp_path, name, first)
    looks, gone = Path.stat, []

    def removed_first(file, **options):
        if file.name.endswith(".json.gz") and not gone:
            gone.append(file)
            file.unlink()
        return looks(file, **options)

    monkeypatch.setattr(Path, "stat", removed_first)
    remembered.forget_old(tmp_path, now=remembered.time.time() + 32 * 24 * 3600)
    assert len(gone) == 1
    assert list(tmp_path.rglob("*.json.gz")) == []


def test_a_place_that_cannot_be_written_to_keeps_nothing(first, tmp_path):
    """Compiling goes on."""
    (tmp_path / "file").touch()
    remembered.write(tmp_path / "file" / "folder", "name", first)
    assert remembered.read(tmp_path / "file" / "folder", "name") is None
