"""``qwenperf aot diff`` of two saved records: a table for people, a record for tools, the exit code of the verdict."""

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from qwenperf.cli.aot_diff import command
from qwenperf.errors import QwenperfError
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
