"""``qwenperf aot diff`` of two saved records: a table for people, a record for tools, the exit code of the verdict."""

import importlib.util
import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from qwenperf.cli.aot_diff import command
from qwenperf.cli.compare_sides import package_root
from qwenperf.errors import QwenperfError
from qwenperf.lab import aot_sides, engine_files
from qwenperf.schema.codec import aot_from_json, dumps

_SPEC = importlib.util.spec_from_file_location("aot_records", Path(__file__).parents[1] / "gate" / "aot_records.py")
made = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(made)


@pytest.fixture
def saved(tmp_path):
    """Two records: a good one in a folder, and a file with a relayout of a weight."""
    head = made.good_case(made.good_program(fingerprint="b", temp_bytes=717_000_000, copies=(made.RELAYOUT,)))
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "aot.json").write_text(dumps(made.record()))
    (tmp_path / "head.json").write_text(dumps(made.record(head)))
    return str(tmp_path / "base"), str(tmp_path / "head.json")


def diff(*arguments):
    """Run the command in this process: it compiles nothing."""
    done = CliRunner().invoke(command, arguments, standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.return_value, done.output


def test_what_grew_fails_with_its_cause(saved):
    """Exit code 1, and the line that is to be mended."""
    code, text = diff(*saved)
    assert code == 1
    told = "temporary memory 700 kB -> 717 MB: copy of `params.layers.w_gate_up` (bf16[24,896,9728]) to another layout"
    assert told in text


def test_a_record_is_the_same_as_itself(saved):
    """Exit code 0."""
    code, text = diff(saved[0], saved[0])
    assert code == 0
    assert "v7x-4: the same program" in text


def test_json_is_one_record_with_verdicts_and_the_numbers_of_both_sides(saved):
    """Tools read what people see."""
    code, text = diff(*saved, "--json")
    record = aot_from_json(json.loads(text))
    (verdict,) = [one for one in record.cases[0].verdicts if one.gate == "temp_bytes"]
    assert (code, verdict.data["base"], verdict.data["head"]) == (1, 700_000, 717_000_000)
    assert record.extra["base"]["id"] == "r1"


def test_quarantine_excuses_a_program_for_a_while(saved, tmp_path, monkeypatch):
    """The failure stays visible and decides nothing."""
    entry = '"*@v7x-*" = { reason = "new compiler", until = 2999-01-01 }'
    (tmp_path / "pyproject.toml").write_text(f"[tool.qwenperf.quarantine]\n{entry}\n")
    monkeypatch.chdir(tmp_path)
    code, text = diff(*saved)
    assert code == 0
    assert "quarantined until 2999-01-01: new compiler" in text


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("{base}", "HEAD"), "Give two of them"),
        (("{base}", "nope"), "'nope' is none: no such file, and no folder with aot.json"),
        (("--target", "v5e-3"), "unknown target 'v5e-3'"),
        (("--target", ""), "targets '': none is named"),
        (("--engines", "cached", "nope"), "'nope'"),
        (("--engines", "cached", "eager"), "'eager' has no program before it runs"),
        (("--engines", "cached", "cached+xla_flags=cpu-no-fast-math"), "is for cpu, and the target is tpu"),
        (("{base}", "{head}", "--jax", "0.10.1", "0.10.2"), "--jax has no meaning for two saved records"),
        (("{base}", "{head}", "--batch", "8"), "--batch has no meaning for two saved records"),
        (("main", "topic", "--jax", "0.10.1", "0.10.2"), "exclude each other"),
        (("main", "--engines", "cached", "naive"), "exclude each other"),
        (("--libtpu", "new", "old"), "is no version of libtpu"),
        (("{base}", "{broken}"), "is not JSON"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(saved, tmp_path, arguments, told):
    """Nothing is compiled for it."""
    (tmp_path / "broken.json").write_text("{")
    named = {"base": saved[0], "head": saved[1], "broken": str(tmp_path / "broken.json")}
    with pytest.raises(QwenperfError) as error:
        diff(*(part.format_map(named) for part in arguments))
    assert told in str(error.value)


def committed(folder, message):
    """Commit all that is in a repository."""
    for words in (("add", "--all"), ("commit", "--quiet", "--message", message)):
        author = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(("git", *author, *words), cwd=folder, check=True, capture_output=True)


@pytest.mark.slow
def test_two_revisions_are_compiled_each_by_its_own_code(cli, repository, tmp_path):
    """A comment makes the same program; a step that no longer donates its state fails, with the argument named."""
    command_line, environ, _ = cli
    tree = tmp_path / "tree"
    shutil.copytree(repository / "qwenperf", tree / "qwenperf", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(("git", "init", "--quiet"), cwd=tree, check=True)
    committed(tree, "sound")
    file = tree / "qwenperf" / "decode" / "programs.py"
    file.write_text(file.read_text() + "# A comment.\n")
    committed(tree, "a comment")
    donated = "donated = (2,) if donate else ()"
    assert donated in file.read_text()
    file.write_text(file.read_text().replace(donated, "donated = ()"))
    committed(tree, "no donation")

    def diffed(base, head):
        small = ("--model", "tiny", "--prompt-length", 4, "--new-tokens", 4, "--engine", "cached", "--target", "cpu")
        return subprocess.run(
            command_line("aot", "diff", base, head, *small), cwd=tree, capture_output=True, text=True, check=False,
            env=environ(QWENPERF_CACHE=str(tmp_path / "cache")),
        )  # fmt: skip

    same, worse = diffed("HEAD~2", "HEAD~1"), diffed("HEAD~1", "HEAD")
    assert same.returncode == 0, same.stderr
    assert same.stdout.count("the same program") == 2
    assert worse.returncode == 1, worse.stderr
    assert "was donated in base and is not in head" in " ".join(worse.stdout.split())
    assert "`state.layers.0.keys`" in worse.stdout


THEIRS = """
import jax
import jax.numpy as jnp

def _prefill(params, tokens, capacity):
    hidden = params[tokens]
    keys = jnp.zeros((tokens.shape[0], capacity, hidden.shape[-1]), hidden.dtype)
    keys = jax.lax.dynamic_update_slice(keys, hidden, (0, 0, 0))
    return (hidden @ params.T)[:, -1], {"keys": keys, "length": jnp.int32(tokens.shape[1])}

def _step(params, token, state):
    hidden = params[token]
    keys = jax.lax.dynamic_update_slice(state["keys"], hidden[:, None], (0, state["length"], 0))
    logits = jnp.einsum("bd,bsd->bs", hidden, keys) @ keys[0] @ params.T
    return logits, {"keys": keys, "length": state["length"] + 1}

class Engine:
    def __init__(self, model, capacity):
        self.params, self.capacity = model.params["embed_tokens"]["weight"], capacity
        self.first = jax.jit(_prefill, static_argnums=2)
        self.step = jax.jit(_step, donate_argnums=2)

    def prefill(self, tokens):
        return self.first(self.params, tokens, self.capacity)

    def decode_step(self, token, state):
        return self.step(self.params, token, state)

make = Engine
"""
REQUEST = ("--model", "tiny", "--prompt-length", "4", "--new-tokens", "4", "--engine", "theirs.decode:make")


@pytest.fixture
def theirs(tmp_path, monkeypatch):
    """Somebody's repository, whose branch `topic` no longer donates the cache."""
    folder = tmp_path / "theirs"
    file = folder / "src" / "theirs" / "decode.py"
    file.parent.mkdir(parents=True)
    subprocess.run(("git", "init", "--quiet", "--initial-branch", "main"), cwd=folder, check=True)
    file.write_text(THEIRS)
    committed(folder, "sound")
    subprocess.run(("git", "checkout", "--quiet", "-b", "topic"), cwd=folder, check=True)
    file.write_text(THEIRS.replace(", donate_argnums=2", ""))
    committed(folder, "no donation")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("QWENPERF_CACHE", str(tmp_path / "cache"))
    return folder


def test_each_side_s_engine_is_its_tree_s_and_the_compiler_s_user_the_installed_package(theirs, monkeypatch):
    """Both sides are asked for the same case; the model's folder is one that each of them finds."""
    asked = []

    def compile_side(side, arguments):
        asked.append((side, arguments))
        name = f"{theirs / 'models'}/theirs.decode:make/b1-p4-n4-bf16@v5e-1/prefill"
        return made.record(replace(made.good_case(), id=name))

    monkeypatch.setattr(aot_sides, "compile_side", compile_side)
    monkeypatch.setattr(engine_files, "engine_files", lambda *_: {})
    (theirs / "models").mkdir()
    code, text = diff("main", "topic", *REQUEST, "--model", "models")
    assert code == 0
    assert "models/theirs.decode:make/b1-p4-n4-bf16: prefill" in text
    assert str(theirs) not in text
    (base, arguments), (head, same) = asked
    assert arguments == same
    assert arguments[:2] == ["--model", str(theirs / "models")]
    assert arguments[-2:] == ["--engine", "theirs.decode:make"]
    assert base.root == head.root
    ours = Path("qwenperf", "__init__.py")
    assert (base.root / ours).read_bytes() == (package_root() / ours).read_bytes()
    for side, revision in ((base, "main"), (head, "topic")):
        sha = subprocess.check_output(("git", "rev-parse", revision), text=True).strip()
        assert (side.tree.root.name, side.commit["sha"]) == (sha, sha)
        assert side.tree.packages == ("theirs",)


@pytest.mark.usefixtures("theirs")
@pytest.mark.parametrize("engine", [(), ("--engine", "cached"), ("--suite", "quick")])
def test_a_repository_of_somebody_s_own_is_asked_for_its_engine(engine):
    """An engine of ours would be the same on both sides."""
    told = r"main \(.*\) holds no package qwenperf: .*--engine mypackage\.module:make"
    with pytest.raises(QwenperfError, match=told):
        diff("main", "topic", *engine)


@pytest.mark.slow
def test_a_branch_of_somebody_s_own_engine_is_compiled_for_a_chip_that_is_not_there(cli, theirs):
    """What it does to the program is told with its author's names; a saved pair of records says the same."""
    command_line, environ, _ = cli
    told = ("--target", "v5e-1", "--out", "kept")
    done = subprocess.run(
        command_line("aot", "diff", "main", "topic", *REQUEST, *told), cwd=theirs, capture_output=True, text=True,
        check=False, env=environ(QWENPERF_CACHE=str(theirs.parent / "cache")),
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "tiny/theirs.decode:make/b1-p4-n4-bf16: decode_step" in done.stdout
    assert "`state.keys` (bf16[1,8,64], 1.02 kB) was donated in base and is not in head" in done.stdout
    for name in ("main", "topic"):
        sha = subprocess.check_output(("git", "rev-parse", name), text=True).strip()
        assert f"trees/{sha}/src/theirs/decode.py" in done.stderr
    files = [str(theirs / "kept" / f"{side}.aot.json") for side in ("base", "head")]
    record = aot_from_json(json.loads(Path(files[1]).read_text()))
    assert {Path(one.extra["engine_file"]).name for one in record.cases} == {"decode.py"}
    assert diff(*files)[0] == 1
