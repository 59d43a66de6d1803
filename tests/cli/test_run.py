"""``qwenperf run`` measures for real: one document on stdout, a folder for other tools, and the right exit code."""

import json
import signal
import subprocess
import time
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

from qwenperf.cli import main
from qwenperf.schema.codec import dumps, from_json, loads
from qwenperf.schema.records import metric


@pytest.fixture(scope="session")
def record(tiny_run):
    """The run as it was printed."""
    return from_json(json.loads(tiny_run.stdout))


def test_stdout_is_the_record_and_nothing_else(tiny_run, record):
    """--json prints what run.json holds; progress went to stderr."""
    assert tiny_run.returncode == 0, tiny_run.stderr
    assert loads((tiny_run.folder / "run.json").read_text()) == record
    assert "[2/2] tiny/cached/b1-p4-n8-f32: measured" in tiny_run.stderr
    assert "cold (+" in tiny_run.stderr


def test_every_declared_case_is_measured_and_judged(record):
    """Nothing is missing, tokens are equal, nothing compiles after warm-up, and the environment is known."""
    assert record.declared == tuple(case.id for case in record.cases)
    for case in record.cases:
        assert case.evidence.divergence.equal
        assert case.metrics["compiles_steady"].value == 0
        assert {verdict.gate for verdict in case.verdicts} >= {"shapes", "tokens", "rotary", "throughput", "scaling"}
    assert record.environment["platform"] == "cpu"
    assert record.suite == "ad-hoc"


def test_the_slow_rung_compiles_a_program_for_each_length(record):
    """Naive decoding compiles at every step when cold; the cached rung a few programs once."""
    naive, cached = (case.metrics["compiles_cold"].value for case in record.cases)
    assert naive >= 8 > cached


def test_each_case_has_a_trace_where_tensorboard_looks(tiny_run, record):
    """One session a case, below plugins/profile, not empty."""
    sessions = {case.trace.split("/")[2] for case in record.cases}
    assert len(sessions) == 2
    for case in record.cases:
        assert case.trace.startswith("plugins/profile/")
        assert case.trace.endswith(".xplane.pb")
        assert (tiny_run.folder / case.trace).stat().st_size > 0


def test_the_record_keeps_to_the_published_schema(tiny_run):
    """Whoever reads run.json may rely on run.v1.json."""
    schema = json.loads(files("qwenperf.schema").joinpath("run.v1.json").read_text())
    jsonschema.validate(json.loads(tiny_run.stdout), schema)


def test_the_page_lies_beside_the_record(tiny_run, record):
    """With a section for each case, and a link to the folder of its trace."""
    page = (tiny_run.folder / "report.html").read_text("utf-8")
    for case in record.cases:
        assert f"<h3>{case.id}</h3>" in page
        assert f'href="./{Path(case.trace).parent}"' in page


def test_what_the_processes_printed_is_in_logs(tiny_run):
    """Each case has a log, and none of it reached stdout."""
    assert len(list((tiny_run.folder / "logs").iterdir())) == 2


def test_gate_judges_a_saved_run_again(record, tmp_path):
    """Other budgets, other verdict: an impossible throughput fails with exit code 1 and says which gate."""
    # Eight tokens on a loaded machine may have none.
    rate = {"decode_tokens_per_s": metric("decode_tokens_per_s", 100.0)}
    cases = tuple(replace(case, metrics={**case.metrics, **rate}) for case in record.cases)
    (tmp_path / "run.json").write_text(dumps(replace(record, cases=cases)))
    budgets = tmp_path / "budgets.toml"
    budgets.write_text('[tool.qwenperf.budgets."tiny/cached/*"]\ndecode_tokens_per_s = { min = 1e12 }\n')
    for place in (tmp_path, tmp_path / "run.json"):
        result = CliRunner().invoke(main, ["gate", str(place), "--budgets", str(budgets)])
        assert result.exit_code == 1, result.stderr
        assert "FAIL: tiny/cached/b1-p4-n8-f32: throughput" in result.stdout.replace("\n", " ")


def test_gate_reads_the_budgets_of_the_project(tiny_run, tmp_path, monkeypatch):
    """Without --budgets those of the nearest pyproject.toml hold; --json prints the judged run."""
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(main, ["gate", str(tiny_run.folder)]).exit_code == 0
    (tmp_path / "pyproject.toml").write_text('[tool.qwenperf.budgets."tiny/cached/*"]\nttft_s = { max = 1e-12 }\n')
    result = CliRunner().invoke(main, ["gate", str(tiny_run.folder), "--json"])
    assert result.exit_code == 1
    assert any(case.verdicts for case in from_json(json.loads(result.stdout)).cases)


def test_proposed_budgets_are_kept_by_the_run_that_they_came_from(tiny_run, tmp_path):
    """What propose writes can be read, and the run passes it."""
    budgets = tmp_path / "budgets.toml"
    result = CliRunner().invoke(main, ["budgets", "propose", str(tiny_run.folder), "--out", str(budgets)])
    assert (result.exit_code, result.stdout) == (0, "")
    shown = CliRunner().invoke(main, ["budgets", "propose", str(tiny_run.folder)])
    assert shown.stdout == budgets.read_text()
    result = CliRunner().invoke(main, ["gate", str(tiny_run.folder), "--budgets", str(budgets)])
    assert result.exit_code == 0, result.stdout
    assert json.loads(CliRunner().invoke(main, ["budgets", "propose", str(tiny_run.folder), "--json"]).stdout)


def test_a_missing_case_is_never_green(tiny_run, tmp_path):
    """A record in which a declared case is missing ends with its own exit code and names the case."""
    document = json.loads(tiny_run.stdout)
    document["cases"].pop()
    (tmp_path / "run.json").write_text(json.dumps(document))
    result = CliRunner().invoke(main, ["gate", str(tmp_path)])
    assert result.exit_code == 5
    assert "missing: tiny/cached/b1-p4-n8-f32" in result.stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [(None, "cannot read"), ("{", "is not JSON"), ('{"schema": "other"}', "schema is"), ("[]", "schema is")],
)
def test_a_record_that_cannot_be_read_is_one_clear_line(tmp_path, text, message):
    """The file is named; no traceback."""
    if text is not None:
        (tmp_path / "run.json").write_text(text)
    for words in (["gate"], ["budgets", "propose"]):
        result = CliRunner().invoke(main, [*words, str(tmp_path)])
        assert (result.exit_code, result.stdout) == (2, "")
        assert message in result.stderr
        assert "run.json" in result.stderr
        assert result.stderr.count("\n") == 1


def test_a_wrong_place_offers_the_newest_run(tiny_run):
    """A mistyped run folder is met with one that is there."""
    result = CliRunner().invoke(main, ["gate", str(tiny_run.out / "nothing")])
    assert result.exit_code == 2
    assert str(tiny_run.folder) in result.stderr


def test_a_case_past_its_limit_is_killed_and_named(cli, tmp_path):
    """A time limit that is too short ends the case, not the command; the record and the code say so."""
    command, _, run = cli
    arguments = ("run", "--model", "tiny", "--time-limit", "0.2", "--no-trace", "--out", tmp_path / "runs")
    done = run(command(*arguments), tmp_path)
    assert done.returncode == 5
    assert "timed out: tiny/cached/b1-p32-n32-f32: killed after its time limit of 200 ms" in flat(done.stdout)
    assert "Traceback" not in done.stderr


def flat(text):
    return " ".join(text.split())


def test_weights_that_cannot_be_read_are_one_clear_line(cli, tmp_path):
    """An error of the measuring process is the run's where nothing else was asked for; no folder tells of it."""
    (tmp_path / "model").mkdir()
    command, _, run = cli
    arguments = ("run", "--model", tmp_path / "model", "--out", tmp_path / "runs")
    done = run(command(*arguments), tmp_path)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.splitlines()[-1].startswith("qwenperf: error: ")
    assert "config.json" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert list((tmp_path / "runs").glob("*")) == []


def test_an_engine_of_ones_own_that_is_not_there_leaves_nothing_behind(tmp_path, monkeypatch):
    """Only Python can say that a module is missing, and by then a folder was made: it is gone again."""
    monkeypatch.chdir(tmp_path)
    arguments = ["run", "--model", "tiny", "--engine", "no_such_module:make", "--out", "runs", "--json"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2, done.stderr
    assert "No module named 'no_such_module'" in json.loads(done.stdout)["error"]["message"]
    assert list((tmp_path / "runs").glob("*")) == []


@pytest.fixture
def hung_up_on():
    """Processes that are started know SIGHUP, also where this one was started by nohup and ignores it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hung_up_on")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_keeps_what_was_measured_and_ends_with_130(cli, tmp_path, number):
    """Ctrl-C, or CI's SIGTERM, while a case runs: the record is there, says interrupted, and nothing keeps running."""
    command, environ, _ = cli
    arguments = command("run", "--model", "tiny", "--out", tmp_path / "runs", "--json")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(arguments, cwd=tmp_path, env=environ(), start_new_session=True, **pipes) as process:
        for line in process.stderr:
            if "importing JAX" in line:
                break
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in stderr
    run = from_json(json.loads(stdout))
    assert run.interrupted
    assert [case.status.value for case in run.cases] == ["interrupted"]
    assert loads(next((tmp_path / "runs").glob("*/run.json")).read_text()) == run
    assert not workers_of(tmp_path)


def test_a_run_that_is_killed_leaves_no_worker(cli, tmp_path):
    """SIGKILL lets nobody clean up: the measuring process notices by itself."""
    command, environ, _ = cli
    arguments = command("run", "--model", "tiny", "--engine", "eager", "--new-tokens", 200, "--out", tmp_path / "runs")
    with subprocess.Popen(arguments, cwd=tmp_path, env=environ(), stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if "    cold (" in line:
                break
        process.kill()
    assert not workers_of(tmp_path)


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("JAX_PLATFORMS", "nonsense", "'nonsense'"),
        ("JAX_PLATFORMS", "cuda", "JAX_PLATFORMS='cuda'"),
        ("JAX_DISABLE_JIT", "1", "JAX_DISABLE_JIT"),
        ("JAX_DISABLE_JIT", "maybe", "'maybe'"),
        ("JAX_DEBUG_NANS", "1", "JAX_DEBUG_NANS"),
        ("XLA_FLAGS", "--nonsense", "--nonsense"),
    ],
)
def test_a_setting_with_which_jax_cannot_measure_ends_the_run_at_once(tmp_path, monkeypatch, variable, value, message):
    """One clear line and exit code 4 before anything is built; no second case is tried, no traceback is shown."""
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["run", "--suite", "quick", "--out", "runs"], env={variable: value})
    assert done.exit_code == 4, done.stderr
    assert message in done.stderr.splitlines()[-1]
    assert done.stderr.splitlines()[-1].startswith("qwenperf: error: ")
    assert "Traceback" not in done.stdout + done.stderr
    assert "[2/" not in done.stderr
    assert list((tmp_path / "runs").glob("*")) == []


def workers_of(folder):
    """Return measuring processes whose arguments name ``folder`` and that still run."""
    deadline = time.monotonic() + 5
    found = True
    while found and time.monotonic() < deadline:
        found = [place for place in Path("/proc").glob("[0-9]*") if str(folder) in arguments_of(place)]
    return found


def arguments_of(process):
    try:
        return (process / "cmdline").read_text(errors="replace")
    except OSError:
        return ""


def test_a_reader_that_hangs_up_does_not_change_the_exit_code(tiny_run, cli, tmp_path):
    """``qwenperf gate RUN | head`` ends with the gate's code and without a complaint."""
    (tmp_path / "pyproject.toml").write_text('[tool.qwenperf.budgets."tiny/cached/*"]\nttft_s = { max = 1e-12 }\n')
    command, environ, _ = cli
    for more in ((), ("--json",)):
        arguments = command("gate", tiny_run.folder, *more)
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(arguments, cwd=tmp_path, env=environ(), **pipes) as process:
            process.stdout.close()
            stderr = process.stderr.read()
        assert (process.returncode, stderr) == (1, b"")
