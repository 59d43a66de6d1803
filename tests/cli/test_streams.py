"""Standard streams may be closed, full or hung up: the exit code still says what was found."""

import json
import shlex
import subprocess

import pytest

from qwenperf.cli.streams import say
from qwenperf.schema.codec import dumps
from qwenperf.schema.records import CaseRecord, RunRecord, metric

FULL = "/dev/full"


@pytest.fixture
def shell(cli, tmp_path):
    """Run a command of ours in a shell, with redirections."""
    command, environ, _ = cli

    def shell(*words, to):
        line = f'"$@" {to}'
        arguments = ["sh", "-c", line, "sh", *command(*words)]
        done = subprocess.run(arguments, capture_output=True, check=False, text=True, cwd=tmp_path, env=environ())
        assert "Traceback" not in done.stderr + done.stdout
        return done

    return shell


@pytest.fixture
def failing(tmp_path):
    """A run of which a gate fails."""
    (tmp_path / "pyproject.toml").write_text('[tool.qwenperf.budgets."tiny/*"]\ncompiles_cold = { max = 1 }\n')
    spec = {"engine": "cached", "model": "tiny"}
    case = CaseRecord(id="tiny/cached", spec=spec, metrics={"compiles_cold": metric("compiles_cold", 2)})
    run = RunRecord(id="r", created_at="2026-11-27T22:05:37+00:00", suite="any", environment={}, cases=(case,))
    file = tmp_path / "run.json"
    file.write_text(dumps(run))
    return file


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_verdict_outlives_its_report(failing, shell, more):
    """A table that cannot be printed is said so on stderr; one that nobody wants is not."""
    full = shell("gate", failing, *more, to=f"> {FULL}")
    assert full.returncode == 1
    assert full.stderr.startswith("qwenperf: warning: cannot write to stdout: No space left on device.")
    assert full.stderr.count("\n") == 1
    closed = shell("gate", failing, *more, to=">&-")
    assert (closed.returncode, closed.stderr) == (1, "")


@pytest.mark.parametrize("words", [("--help",), ("run", "--help"), ("--version",), ("run", "--list")])
def test_words_that_do_not_arrive_are_an_error_of_their_own(shell, words):
    """Where words are all that was asked for, a full disk is one line and exit code 2, a closed stream nothing."""
    full = shell(*words, to=f"> {FULL}")
    assert full.returncode == 2
    assert full.stderr.startswith("qwenperf: error: cannot write to stdout: No space left on device.")
    assert full.stderr.count("\n") == 1
    closed = shell(*words, to=">&-")
    assert (closed.returncode, closed.stderr) == (0, "")


@pytest.mark.parametrize("words", [("--help",), ("run", "--help"), ("run", "--list")])
def test_a_reader_of_words_may_hang_up(cli, tmp_path, words):
    """``qwenperf --help | true`` is no error, and no complaint."""
    command, environ, _ = cli
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command(*words), cwd=tmp_path, env=environ(), **pipes) as process:
        process.stdout.close()
        stderr = process.stderr.read()
    assert (process.returncode, stderr) == (0, b"")


@pytest.mark.parametrize("to", [">&-", f"> {FULL}"])
def test_an_error_that_cannot_be_printed_as_json_keeps_its_code(shell, to):
    """The line on stderr is there; nothing is said of stdout."""
    done = shell("run", "--list", "--suite", "qick", "--json", to=to)
    assert done.returncode == 2
    assert done.stderr.startswith("qwenperf: error: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("to", ["2>&-", f"2> {FULL}", ">&- 2>&-", f"> {FULL} 2> {FULL}"])
def test_an_error_that_nobody_reads_keeps_its_code(shell, to):
    """Closed and full streams do not turn one error into another."""
    assert shell("gate", "nope", to=to).returncode == 2


def test_json_arrives_without_a_stderr(shell):
    """Data is written though nothing can be said."""
    done = shell("run", "--list", "--json", to="2>&-")
    assert done.returncode == 0
    assert json.loads(done.stdout)["suite"] == "smoke"


def test_a_narrow_terminal_cuts_no_name(failing, cli, tmp_path):
    """A table keeps its words at 40 columns; the terminal folds them."""
    command, environ, _ = cli
    line = ["script", "-qec", shlex.join(command("gate", failing)), "/dev/null"]
    more = {"cwd": tmp_path, "env": environ(COLUMNS="40", TERM="xterm", NO_COLOR="1")}
    done = subprocess.run(line, capture_output=True, check=False, text=True, stdin=subprocess.DEVNULL, **more)
    assert "verdict" in done.stdout
    assert "…" not in done.stdout


def test_the_report_says_which_budgets_were_applied(failing, shell, tmp_path):
    """Those of the project by its file, others by theirs, and none as none."""
    assert f"budgets: {tmp_path / 'pyproject.toml'} (1 table)" in shell("gate", failing, to="").stdout
    (tmp_path / "other.toml").write_text("[tool.qwenperf.budgets]\n")
    assert "budgets: none in other.toml" in shell("gate", failing, "--budgets", "other.toml", to="").stdout


def test_what_is_said_is_one_line_that_steers_no_terminal(capsys):
    """Whatever a record calls its cases: no colour, no title, no second line that looks like ours."""
    say("warning: \x1b[31mred\x1b]0;title\x07 \u202eback\nqwenperf: all is well\udcff")
    assert capsys.readouterr().err == "warning: ?[31mred?]0;title? ?back qwenperf: all is well?\n"
