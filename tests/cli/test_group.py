"""The command line ends with the project's exit codes, in one line, and loads only what a command needs."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from qwenperf.cli import main
from qwenperf.cli.group import COMMANDS
from qwenperf.measure.default_platform import default_platform


def run(*arguments, **environ):
    return CliRunner(env=environ).invoke(main, arguments)


def test_help_names_every_command():
    """Each command is in the help, which is data and goes to stdout."""
    result = run("--help")
    assert result.exit_code == 0
    assert all(f"  {name} " in result.stdout for name in COMMANDS)


def test_without_a_command_the_help_is_shown():
    """No command is no error."""
    assert run().stdout == run("--help").stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_json(command):
    """All commands, and commands below them, offer --json."""
    below = getattr(main.get_command(None, command), "commands", {})
    for words in [[command, name] for name in below] or [[command]]:
        result = run(*words, "--help")
        assert result.exit_code == 0, result.stderr
        assert "--json" in result.stdout


def test_a_mistyped_command_offers_the_nearest():
    """One line on stderr, exit code 2, nothing on stdout."""
    result = run("rnu")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("qwenperf: error: unknown command 'rnu'. Did you mean 'run'?")
    assert result.stderr.count("\n") == 1


def test_a_mistyped_option_is_one_line():
    """Click's own usage errors are one line too."""
    result = run("run", "--filtre", "x")
    assert result.exit_code == 2
    assert "--filter" in result.stderr
    assert result.stderr.count("\n") == 1


def test_an_error_with_json_is_still_one_document():
    """Whoever parses stdout gets the error there as well."""
    result = run("run", "--suite", "quik", "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["exit_code"] == 2
    assert "Did you mean 'quick'" in json.loads(result.stdout)["error"]["message"]


def test_a_bug_is_one_line_and_its_traceback_is_kept(monkeypatch, tmp_path):
    """An exception that nobody expected ends with 70 and says where its traceback is."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("qwenperf.cli.run.find_project", lambda _: 1 / 0)
    result = run("run")
    assert result.exit_code == 70
    assert result.stderr.startswith("qwenperf: error: internal error: ZeroDivisionError: division by zero")
    assert result.stderr.count("\n") == 1
    assert "ZeroDivisionError" in next(tmp_path.glob("qwenperf-*.log")).read_text()
    assert "Traceback" in run("run", "--debug").stderr


def test_listing_needs_no_jax():
    """--help and --list answer at once: JAX, Flax and numpy stay unloaded."""
    code = (
        "import sys; from qwenperf.cli import main\n"
        "try: main(['run', '--list'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'jax', 'flax', 'numpy', 'rich.progress'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "4x128/cached/b1-p16-n16-f32" in done.stdout


@pytest.mark.parametrize(
    ("files", "environ", "expected"),
    [
        ((), {}, {"JAX_PLATFORMS": "cpu"}),
        ((), {"JAX_PLATFORMS": "tpu"}, {}),
        (("nvidia0",), {}, {}),
        (("accel0",), {}, {}),
        (("vfio/0",), {}, {}),
        (("dxg",), {}, {}),
        (("vfio/vfio", "nvidia-caps"), {}, {"JAX_PLATFORMS": "cpu"}),
    ],
)
def test_the_cpu_is_the_platform_where_there_is_no_accelerator(tmp_path, files, environ, expected):
    """Nobody waits 12 s for a TPU that is not there, and a choice that was made is kept."""
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert default_platform(environ, tmp_path) == expected
