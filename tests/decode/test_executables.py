"""Programs that are ready before the first request: compiled for declared shapes, or saved and loaded."""

import hashlib
import json
import pickle
import re
import subprocess
import sys

import jax
import numpy as np
import pytest

from qwenperf.decode import executables, stamp
from qwenperf.decode.build import build_engine
from qwenperf.decode.plan import Shape
from qwenperf.decode.start import save_executables
from qwenperf.errors import CapacityError, ConfigError, ExecutablesError, OutputError
from qwenperf.workloads.engine import parse_engine

SHAPES = [Shape(batch=1, prompt_length=7, new_tokens=5), Shape(batch=3, prompt_length=2, new_tokens=4)]

LATER = """
import sys
import jax
import numpy as np
from qwenperf.decode.build import build_engine
from qwenperf.models.registry import load_model

model = load_model("tiny")
compiled = []

def listen(event, _seconds, **details):
    if event.endswith("backend_compile_duration"):
        compiled.append(details.get("fun_name"))

shapes = [(1, 7, 5), (3, 2, 4)]
engine = build_engine(model, "cached+start=saved", capacity=16, declare=shapes, executables=sys.argv[1])
jax.monitoring.register_event_duration_secs_listener(listen)
for batch, length, count in shapes:
    tokens = np.arange(batch * length).reshape(batch, length)
    print(engine.generate(tokens, count).tolist())
    assert np.array_equal(np.stack(list(engine.stream(tokens, count)), 1), engine.generate(tokens, count))
state = engine.prefill(np.arange(7)[None])[1]
engine.decode_step(np.zeros(1, np.int32), state)
print(all(leaf.is_deleted() for leaf in jax.tree.leaves(state.device)))
programs = engine.programs(1, 7, 5).values()
print([program.compiled.memory_analysis().alias_size_in_bytes == program.donated_bytes for program in programs])
print(compiled)
"""


@pytest.fixture
def compiled():
    """Names of the programs compiled since the fixture was asked for."""
    names = []

    def listen(event, _seconds, **details):
        if event.endswith("backend_compile_duration"):
            names.append(details.get("fun_name"))

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield names
    jax.monitoring.unregister_event_duration_listener(listen)


@pytest.fixture(scope="module")
def declared(model):
    return build_engine(model, "cached+start=declared", capacity=16, declare=SHAPES)


@pytest.fixture(scope="module")
def saved(declared, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "programs"
    save_executables(declared, path, SHAPES)
    return path


def test_the_first_request_of_a_declared_shape_compiles_nothing(declared, engine, compiled, prompt):
    """State, prefill, step and loop are there; an undeclared shape is compiled for when it comes."""
    for shape in SHAPES:
        tokens = prompt(*shape[:2])
        new = declared.generate(tokens, shape.new_tokens)
        list(declared.stream(tokens, shape.new_tokens))
        assert compiled == []
        np.testing.assert_array_equal(new, engine("cached").generate(tokens, shape.new_tokens))
        compiled.clear()
    declared.generate(prompt(1, 6), 2)
    assert compiled == ["jit(prefill)"]


def test_declared_shapes_of_prompts_in_pieces(model, compiled, prompt):
    """All widths of a prompt's pieces are compiled for."""
    engine = build_engine(
        model, "cached+prefill_chunk=4+bucket=2+start=declared", capacity=12, declare=[(1, 6, 2), (1, 4, 2)]
    )
    assert compiled.count("jit(prefill)") == 2
    compiled.clear()
    engine.generate(prompt(1, 6), 2)
    assert compiled == []


def test_a_second_process_loads_and_compiles_nothing(saved, declared, repository):
    """The same tokens; the state is still donated, in effect and by the program's own account."""
    ended = subprocess.run(
        [sys.executable, "-c", LATER, str(saved)], cwd=repository, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    *tokens, deleted, aliased, compiled = ended.stdout.splitlines()
    for shape, text in zip(SHAPES, tokens, strict=True):
        prompt = np.arange(shape.batch * shape.prompt_length).reshape(shape[:2])
        assert json.loads(text) == declared.generate(prompt, shape.new_tokens).tolist()
    assert (deleted, aliased, compiled) == ("True", "[True, True, True]", "[]")


def test_a_loaded_program_refuses_another_shape_and_names_the_argument(model, saved):
    """As a compiled one does, so that the gate on shapes reads it."""
    engine = build_engine(model, "cached+start=saved", capacity=16, declare=SHAPES, executables=saved)
    other = build_engine(model, "cached", capacity=12).prefill(np.zeros((1, 7), np.int32))[1]
    with pytest.raises(TypeError, match=r"compiled with float32\[2,16,16\] and called with float32\[2,12,16\]"):
        engine.decode_step(np.zeros(1, np.int32), other)


@pytest.fixture
def never_unpickled(monkeypatch):
    """Fail where anything is unpickled or handed to the runtime: it had not been checked."""

    def refuse(*_, **__):
        raise AssertionError("unpickled before it was checked")

    for name in ("Unpickler", "load", "loads"):
        monkeypatch.setattr(pickle, name, refuse)
    monkeypatch.setattr(executables.serialize_executable, "deserialize_and_load", refuse)


def load(model, path, name="cached+start=saved", **more):
    return build_engine(model, name, **{"capacity": 16, "declare": SHAPES, "executables": path, **more})


@pytest.mark.usefixtures("never_unpickled")
@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("jax", "0.1", r"environment: jax \('0\.\d+\.[\d.]+' in the file, '0\.1' here\)"),
        ("jaxlib", "0.1", "jaxlib"),
        ("platform", "tpu", r"platform \('cpu' in the file, 'tpu' here\)"),
        ("device_kind", "TPU v5e", "device_kind"),
        ("cpu_features", ["quantum"], r"cpu_features \(only in the file: .*; only here: quantum\)"),
        ("xla_flags", ["--xla_x=1"], r"xla_flags \(only in the file: none; only here: --xla_x=1\)"),
    ],
)
def test_another_environment_is_refused_by_the_fields_that_differ(field, value, told, model, saved, monkeypatch):
    """A program of another processor may crash here; nothing is unpickled to find out."""
    here = stamp.environment() | {field: value}
    monkeypatch.setattr(stamp, "environment", lambda: here)
    with pytest.raises(ExecutablesError, match=told) as caught:
        load(model, saved)
    assert str(caught.value).count(" in the file, ") <= 1


@pytest.mark.usefixtures("never_unpickled")
@pytest.mark.parametrize(
    ("name", "more", "told"),
    [
        ("cached+start=saved", {"capacity": 12}, r"another engine: capacity \(16 in the file, 12 here\)"),
        (
            "cached+rotary=step+start=saved",
            {},
            r"another engine: settings\.rotary \('tables' in the file, 'step' here\)",
        ),
        ("cached+start=saved", {"declare": [(1, 9, 2)]}, r"has no prefill for \[1, 9\]; it has .*prefill for \[1, 7\]"),
    ],
)
def test_another_engine_is_refused_by_the_fields_that_differ(name, more, told, model, saved):
    """Settings, capacity and shapes; where programs come from is no difference."""
    with pytest.raises(ExecutablesError, match=told):
        load(model, saved, name, **more)


@pytest.mark.usefixtures("never_unpickled")
def test_another_models_config_is_refused(model, saved):
    """A constant of the config need not show in any shape."""
    from dataclasses import replace

    other = replace(model, config=replace(model.config, rms_norm_eps=1e-3))
    with pytest.raises(ExecutablesError, match=r"config\.rms_norm_eps \(1e-06 in the file, 0\.001 here\)"):
        load(other, saved)


@pytest.mark.usefixtures("never_unpickled")
def test_code_that_was_changed_is_refused(model, saved):
    """The text of each program is hashed, whatever version the package says it is."""
    from qwenperf.decode.step import decode_step

    def changed(*args, config):
        result = decode_step(*args, config=config)
        return result._replace(logits=result.logits * 2)

    with pytest.raises(ExecutablesError, match=r"other code: the text of decode_step \[1\] differs"):
        load(model, saved, step=changed)


@pytest.mark.usefixtures("never_unpickled")
@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda content: content[:-1], "cut short or damaged"),
        (lambda content: content[: len(executables.MAGIC) + 10], "cut short or damaged"),
        (lambda content: content[:40_000] + b"x" + content[40_001:], "cut short or damaged"),
        (lambda _: b"", "no file of saved executables"),
        (lambda content: content.replace(b"executables 1", b"executables 0", 1), "no file of saved executables"),
        (lambda _: pickle.dumps({"not": "ours"}), "no file of saved executables"),
    ],
)
def test_a_file_that_is_cut_short_or_not_ours_is_refused(spoil, told, model, saved, tmp_path):
    """By its first line and its hash, before it is read any further."""
    path = tmp_path / "programs"
    path.write_bytes(spoil(saved.read_bytes()))
    with pytest.raises(ExecutablesError, match=told):
        load(model, path)


def forged(path, change):
    """Return a file's content after ``change`` of its header and payloads, with the hash that belongs to it."""
    body = path.read_bytes()[len(executables.MAGIC) + 32 :]
    end = 8 + int.from_bytes(body[:8], "big")
    header, payloads = change(json.loads(body[8:end]), body[end:])
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    body = len(text).to_bytes(8, "big") + text + payloads
    return executables.MAGIC + hashlib.sha256(body).digest() + body


def entries(header, **told):
    return header | {"programs": [entry | told for entry in header["programs"]]}


@pytest.mark.usefixtures("never_unpickled")
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda _, rest: (b"", rest), "header that is no JSON"),
        (lambda _, rest: (b"\xff{", rest), "header that is no JSON"),
        (lambda _, rest: (b"[" * 100_000, rest), "header that is no JSON"),
        (lambda _, rest: ([], rest), "header that is no object"),
        (lambda _, rest: ({}, rest), "header without environment"),
        (lambda header, rest: (header | {"environment": None}, rest), "header without environment"),
        (lambda header, rest: (header | {"code": [1]}, rest), "header without code"),
        (lambda header, rest: (header | {"programs": 3}, rest), "header without programs"),
        (lambda header, rest: (header | {"programs": [3]}, rest), "program 0 is not told by name, key, text, bytes"),
        (lambda header, rest: (entries(header, key=None), rest), "program 0 is not told by"),
        (lambda header, rest: (entries(header, bytes=True), rest), "program 0 is not told by"),
        (lambda header, rest: (entries(header, bytes=-5), rest), "program 0 has -5 bytes"),
        (lambda header, rest: (entries(header, bytes=10), rest), r"bytes of programs where its header tells of \d+"),
        (lambda header, rest: (header, rest[:100]), "has 100 bytes of programs where its header tells of"),
        (
            lambda header, rest: (header | {"environment": header["environment"] | {"cpu_features": [["x"]]}}, rest),
            "environment cannot be compared",
        ),
    ],
)
def test_a_forged_header_is_refused_by_what_is_wrong_with_it(change, told, model, saved, tmp_path):
    """A right hash says nothing of what was hashed."""
    path = tmp_path / "programs"
    path.write_bytes(forged(saved, change))
    with pytest.raises(ExecutablesError, match=told):
        load(model, path)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda rest: bytes(len(rest)), "cannot be loaded: UnpicklingError"),
        (lambda rest: pickle.dumps({"a": 1}).ljust(len(rest), b"."), "cannot be loaded: ValueError"),
        (lambda rest: b"cno_module\nnothing\n.".ljust(len(rest), b"."), "cannot be loaded: ModuleNotFoundError"),
        (lambda rest: b"(" * len(rest), "cannot be loaded: EOFError"),
    ],
)
def test_payloads_that_are_no_programs_are_refused(spoil, told, model, saved, tmp_path):
    """Whatever unpickling them raises; no function has been given anything."""
    path = tmp_path / "programs"
    path.write_bytes(forged(saved, lambda header, rest: (header, spoil(rest))))
    with pytest.raises(ExecutablesError, match=told) as caught:
        load(model, path)
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize("path", ["a\0b", 3])
def test_what_is_no_path_is_refused(path, model, declared):
    """To load from, and to save to."""
    with pytest.raises((ExecutablesError, ConfigError), match=r"cannot be read: .*null|executables is 3"):
        load(model, path)
    with pytest.raises((OutputError, ConfigError), match=r"cannot be written: .*null|path is 3"):
        save_executables(declared, path, SHAPES)


@pytest.mark.parametrize(
    "shapes",
    [
        [(0, 4, 4)],
        [(1, 0, 4)],
        [(1, 4, 0)],
        [(-1, 4, 4)],
        [(1, 4)],
        [(1, 4, 4, 4)],
        [(1.0, 4, 4)],
        [("1", 4, 4)],
        [(True, 4, 4)],
        [(10**30, 4, 4)],
        ["144"],
        [3],
        (1, 4, 4),
        3,
        "144",
    ],
)
def test_what_is_no_shape_of_a_request_is_refused(shapes, model, declared, tmp_path):
    """Where it is declared and where it is saved, before anything is planned; the message repeats it."""
    seen = re.escape(repr(shapes[0] if isinstance(shapes, (list, tuple)) else shapes))
    with pytest.raises(ConfigError, match=f"declare (is|has) {seen}.*Give a list of"):
        build_engine(model, "cached+start=declared", capacity=16, declare=shapes)
    with pytest.raises(ConfigError, match=f"shapes (is|has) {seen}.*Give a list of"):
        save_executables(declared, tmp_path / "programs", shapes)


def test_shapes_may_be_an_array_and_no_shapes_are_refused(model, declared, tmp_path):
    """A file of nothing would be loaded for nothing."""
    build_engine(model, "cached+start=declared", capacity=16, declare=np.array([[1, 7, 5]]))
    with pytest.raises(ConfigError, match="shapes is empty: there is nothing to save"):
        save_executables(declared, tmp_path / "programs", [])
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_not_there(model, tmp_path):
    """Not a reason to compile in silence."""
    with pytest.raises(ExecutablesError, match=r"programs cannot be read: No such file"):
        load(model, tmp_path / "programs")


def test_a_file_is_written_whole_or_not_at_all(declared, tmp_path, monkeypatch):
    """A write that fails leaves what was there, and no rest."""
    path = tmp_path / "programs"
    path.write_bytes(b"before")
    monkeypatch.setattr(executables.os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(OutputError, match=r"programs cannot be written: No space left"):
        save_executables(declared, path, SHAPES)
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]
    monkeypatch.undo()
    with pytest.raises(OutputError, match="cannot be written"):
        save_executables(declared, tmp_path / "no folder" / "programs", SHAPES)


@pytest.mark.parametrize(
    ("name", "more", "told"),
    [
        ("cached+start=declared", {}, "start='declared' needs declare"),
        ("cached+start=saved", {"declare": SHAPES}, "start='saved' needs executables"),
        ("cached", {"declare": SHAPES}, "declare is given, and engine setting start='request' does not read it"),
        ("cached+start=declared", {"declare": SHAPES, "executables": "x"}, "executables is given"),
    ],
)
def test_what_a_start_needs_is_given_and_nothing_else(name, more, told, model):
    """An argument that is ignored would be taken for one that is not."""
    with pytest.raises(ConfigError, match=told):
        build_engine(model, name, capacity=16, **more)


def test_a_declared_shape_that_does_not_fit_is_refused(model):
    """Before anything is compiled."""
    with pytest.raises(CapacityError, match="need 17 positions"):
        build_engine(model, "cached+start=declared", capacity=16, declare=[(1, 12, 5)])


def test_a_start_needs_programs_that_are_compiled_before_they_are_called(engine, tmp_path):
    """An engine that compiles on call has none to declare or save."""
    with pytest.raises(ConfigError, match="start='declared' needs jit=True"):
        parse_engine("cached-host+jit=false+donate=false+start=declared")
    with pytest.raises(ConfigError, match="nothing to save"):
        save_executables(engine("naive"), tmp_path / "programs", SHAPES)


def test_nothing_is_saved_while_programs_may_come_from_the_persistent_cache(declared, tmp_path):
    """They would load, and fail in their first call."""
    with pytest.raises(ConfigError, match="compile_cache=True has nothing to keep with start='saved'"):
        parse_engine("cached+start=saved+compile_cache=true")
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    try:
        with pytest.raises(ExecutablesError, match="persistent compilation cache is on, and"):
            save_executables(declared, tmp_path / "programs", SHAPES)
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
    assert list(tmp_path.iterdir()) == []
