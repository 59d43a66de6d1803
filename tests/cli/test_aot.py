"""``qwenperf aot``: what it prints, what it keeps, and what it ends with."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from qwenperf.cli import main
from qwenperf.cli.aot import command
from qwenperf.cli.aot_progress import ended_line
from qwenperf.errors import UsageError
from qwenperf.schema.analysis import AotCase, ProgramAnalysis, TargetRecord
from qwenperf.schema.codec import aot_from_json, aot_loads
from qwenperf.schema.records import Status

SMALL = ("--model", "tiny", "--prompt-length", 4, "--new-tokens", 4)


@pytest.fixture(scope="module")
def compiled(cli, tmp_path_factory, compiles_quickly):
    """The tiny model for a chip that is not there and for this CPU, with --json."""
    command, _, run = cli
    folder = tmp_path_factory.mktemp("aot")
    asked = ("--target", "v5e-1,cpu", "--out", folder / "out", "--no-remember", "--json")
    return run(command("aot", *SMALL, *asked), folder, **compiles_quickly), folder


def test_the_record_is_one_document_on_stdout_and_on_disk(compiled):
    """One case a program and target; exit code 0, progress on stderr."""
    done, folder = compiled
    assert done.returncode == 0, done.stderr
    record = aot_from_json(json.loads(done.stdout))
    assert [case.id.rpartition("@")[2] for case in record.cases] == [
        "v5e-1/prefill", "v5e-1/decode_step", "cpu/prefill", "cpu/decode_step",
    ]  # fmt: skip
    (file,) = (folder / "out").glob("*/aot.json")
    assert aot_loads(file.read_text()) == record
    assert all(case.verdicts for case in record.cases)
    assert record.environment["libtpu"]
    assert done.stderr.count(": compiled in ") == 4
    assert (file.parent / "logs" / "compiler-1.log").is_file()


def test_the_table_says_what_is_an_estimate_and_what_is_missing(cli, tmp_path, compiles_quickly):
    """People read a table a program; a target without a compiler is told there, and ends with 5."""
    command, _, run = cli
    (tmp_path / "budgets.toml").write_text('[tool.qwenperf.budgets."*"]\ncompiles_steady = { max = 0 }\n')
    asked = ("--target", "cpu,cuda", "--operations", 2, "--budgets", "budgets.toml", "--out", tmp_path / "out")
    done = run(command("aot", *SMALL, *asked), tmp_path, **compiles_quickly)
    assert done.returncode == 5, done.stderr
    assert "cuda is not available because" in done.stdout
    assert "decode_step" in done.stdout
    assert "layers.py:" in done.stdout
    assert "budgets.toml has no budget of compiled programs" in done.stderr
    assert "an estimate" in done.stdout
    assert "record: " in done.stdout


def test_targets_are_listed_without_compiling(cli, tmp_path):
    """Names, chips, devices and memory of a device."""
    command, _, run = cli
    done = run(command("aot", "--list-targets"), tmp_path)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("v7x-4 ")]
    assert "4 chips, 8 devices of" in line
    told = json.loads(run(command("aot", "--list-targets", "--json"), tmp_path).stdout)["targets"]
    assert {"name": "v5e-1", "devices": 1}.items() <= next(one for one in told if one["name"] == "v5e-1").items()


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("--target", "v9-1"), 2, "unknown target 'v9-1'. Known: v2-1"),
        (("--target", "v5z-1"), 2, "unknown target 'v5z-1'. Did you mean 'v5"),
        (("v5e-1",), 2, "targets go after --target"),
        (("--suite", "quick", "--model", "tiny"), 2, "exclude each other"),
        (("--json", "diff", "a", "b"), 2, "go after `diff`"),
        (("--json", "--operations", "3"), 2, "--json has the operations"),
        (("--json", "--sweep"), 2, "--json has the sweep"),
        ((*SMALL, "--target", "cpu", "--time-limit", "nan"), 2, "--time-limit"),
        (("--model", "tinny"), 2, "Did you mean 'tiny'"),
        (("--jobs", "0"), 2, "--jobs"),
        ((*SMALL, "--target", "cuda"), 4, "cuda is not available because"),
    ],
)
def test_what_cannot_be_done_is_told_and_ends_with_its_code(arguments, code, told, tmp_path, monkeypatch):
    """Usage 2, an unfit machine 4."""
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ("aot", *map(str, arguments)))
    assert told in done.stderr + done.stdout
    assert done.exit_code == code
    assert isinstance(done.exception, SystemExit)


def test_a_target_without_a_name_is_not_the_default():
    """Nothing is compiled for a variable that a script forgot to set."""
    done = CliRunner().invoke(command, ("--target", ""), standalone_mode=False)
    assert isinstance(done.exception, UsageError)
    assert "targets '': none is named" in str(done.exception)


@pytest.mark.slow
def test_two_compilations_in_two_processes_give_one_record(cli, tmp_path):
    """For a chip of one device and for one of two, everything is the same but the time that it took."""
    command, _, run = cli
    asked = ("--target", "v5e-1,v7x-1", "--no-remember", "--check-repeat", "--json")
    cases = aot_loads(run(command("aot", *SMALL, *asked, "--out", tmp_path / "out"), tmp_path).stdout).cases
    assert [case.status for case in cases] == [Status.MEASURED] * 4, [case.error for case in cases]
    assert [case.program.unstable for case in cases] == [()] * 4
    assert [case.extra["compilations"] for case in cases] == [2] * 4


def test_progress_says_how_each_program_ended():
    """Compiled, known from before, or not."""
    case = AotCase(id="a@cpu/prefill", target=TargetRecord(name="cpu", platform="cpu"), compile_s=1.5)
    assert ended_line(case) == "a@cpu/prefill: compiled in 1.50 s"
    again = replace(case, extra={"compilations": 2}, program=ProgramAnalysis(name="prefill"))
    assert ended_line(again) == "a@cpu/prefill: compiled again in 1.50 s, the same numbers"
    other = replace(again, program=ProgramAnalysis(name="prefill", unstable=("temp_bytes",)))
    assert ended_line(other) == "a@cpu/prefill: compiled again in 1.50 s, not the same: temp_bytes"
    known = AotCase(id="a@cpu/prefill", target=case.target, compile_s=1.5, extra={"remembered": True})
    assert ended_line(known) == "a@cpu/prefill: the same program was compiled before, in 1.50 s"
    late = AotCase(id="a@cpu/prefill", target=case.target, status=Status.TIMED_OUT)
    assert ended_line(late) == "a@cpu/prefill: timed out. It is told below."
