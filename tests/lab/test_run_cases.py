"""Each case is measured in its own process, and whatever that process does, the run goes on and is on disk."""

import os
import signal
import threading
from pathlib import Path

import pytest

from qwenperf.lab.options import Options
from qwenperf.lab.run_cases import measuring_environ, new_run, run_cases
from qwenperf.schema.codec import loads
from qwenperf.schema.records import Status


@pytest.fixture
def measure(folder, fake_worker, notes):
    """Measure cases with the fake worker."""

    def measure(*cases, **more):
        run = new_run(folder, "test", cases, {})
        arguments = {"folder": folder, "options": Options(), "listener": notes, "command": fake_worker}
        return run_cases(run, cases, **arguments, **more)

    return measure


def on_disk(folder):
    return loads(folder.record.read_text())


def test_a_measured_case_is_in_the_record_with_its_environment(measure, make_case, folder, notes):
    """The record on disk is the one returned, and the listener heard of every phase in order."""
    case = make_case()
    run = measure(case)
    assert on_disk(folder) == run
    assert run.cases[0].status is Status.MEASURED
    assert run.cases[0].wall_s > 0
    assert run.environment["platform"] == "cpu"
    assert run.declared == (case.id,)
    expected = [("started", case.id, 1, 1), ("phase", case.id, "cold"), ("phase", case.id, "steady")]
    assert notes.heard == [*expected, ("ended", case.id, "measured")]


def test_compiles_are_told_while_a_phase_goes_on(measure, make_case, notes):
    """A first request of minutes is seen to move."""
    case = make_case("compile")
    measure(case)
    assert ("phase", case.id, "cold, 37 programs compiled so far") in notes.heard


def test_a_hung_case_is_killed_with_all_it_started_and_named(measure, make_case, folder):
    """A case past its limit is recorded with its phase, its children die, and the next one is measured."""
    hung, fine = make_case("hang", time_limit_s=3.0), make_case(engine="naive")
    run = measure(hung, fine)
    assert [case.status for case in run.cases] == [Status.TIMED_OUT, Status.MEASURED]
    assert "killed after its time limit of 3.00 s, in phase 'cold'" in run.cases[0].error
    assert f"Log: {next((folder.path / 'logs').glob('*cached*'))}" in run.cases[0].error
    log = next((folder.path / "logs").glob("*cached*")).read_text()
    child = int(log.split()[-1])
    assert not is_running(child)


@pytest.mark.parametrize(
    ("behaviour", "status", "told"),
    [("hang-checking", Status.TIMED_OUT, "in phase 'tokens'"), ("crash-checking", Status.FAILED, "died of SIGSEGV")],
)
def test_what_was_timed_outlives_the_process(measure, make_case, behaviour, status, told):
    """A case that ends while it is being checked keeps its metrics, and is still no measured case."""
    case = make_case(behaviour, time_limit_s=3.0)
    record = measure(case).cases[0]
    assert (record.id, record.status) == (case.id, status)
    assert told in record.error
    assert record.metrics["ttft_s"].value == 0.5


def is_running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_crash_is_recorded_with_its_signal_and_last_words(measure, make_case):
    """A process that dies names the signal, the phase and what it printed last."""
    case = measure(make_case("crash")).cases[0]
    assert case.status is Status.FAILED
    assert "died of SIGSEGV in phase 'cold'" in case.error
    assert "last words before the crash" in case.error


def test_a_traceback_is_recorded_with_its_last_line(measure, make_case):
    """A bug in the measuring process is a failed case that says what was raised."""
    case = measure(make_case("traceback")).cases[0]
    assert case.status is Status.FAILED
    assert "exit code 1 and no record" in case.error
    assert "RuntimeError: the engine is broken" in case.error


def test_a_flood_of_output_is_kept_in_the_log_and_reaches_nobody(measure, make_case, folder, capfd):
    """What libraries print goes to the case's log, never to our stdout or stderr."""
    assert measure(make_case("flood")).cases[0].status is Status.MEASURED
    assert capfd.readouterr() == ("", "")
    assert next((folder.path / "logs").iterdir()).stat().st_size > 1_000_000


def test_a_child_that_keeps_the_pipe_open_does_not_hold_up_the_run(measure, make_case):
    """A case ends when its process ends, whoever else has its pipe: it is measured, and not timed out."""
    assert measure(make_case("leave-a-child")).cases[0].status is Status.MEASURED


def test_what_was_measured_is_on_disk_before_the_next_case_starts(measure, make_case, folder):
    """The record is rewritten after each case: a machine that dies loses one case only."""
    seen = []

    def judge(run):
        seen.append(len(on_disk(folder).cases))
        return run

    measure(make_case(), make_case(engine="naive"), judge=judge)
    assert seen == [0, 1]


@pytest.fixture
def interruptible():
    """Python's own answer to SIGINT, which a shell's background job is started without."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_keeps_what_was_measured(measure, make_case, folder, notes):
    """Ctrl-C ends the case that runs and the run; the record says so and keeps the rest."""
    fine, hung, never = make_case(), make_case("hang", engine="naive"), make_case(engine="padded")
    phase = notes.phase

    def interrupt_when_hung(case, name):
        phase(case, name)
        if case is hung:
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()

    notes.phase = interrupt_when_hung
    run = measure(fine, hung, never)
    assert run.interrupted
    assert [case.status for case in run.cases] == [Status.MEASURED, Status.INTERRUPTED]
    assert on_disk(folder) == run


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_while_a_case_is_judged_loses_nothing(measure, make_case, folder):
    """Ctrl-C after a case of an hour, while its record is judged: the case is kept, once, and the run ends."""
    interrupted = []

    def judge(run):
        if not interrupted:
            interrupted.append(True)
            os.kill(os.getpid(), signal.SIGINT)
        return run

    run = measure(make_case(), make_case(engine="naive"), judge=judge)
    assert run.interrupted
    assert [case.status for case in run.cases] == [Status.MEASURED]
    assert on_disk(folder) == run


def test_measuring_processes_have_no_persistent_compilation_cache():
    """A first request that finds yesterday's programs would not be cold."""
    environ = measuring_environ({"JAX_COMPILATION_CACHE_DIR": "/somewhere", "PATH": "/bin"})
    assert environ["JAX_ENABLE_COMPILATION_CACHE"] == "false"
    assert "JAX_COMPILATION_CACHE_DIR" not in environ
    assert environ["PATH"] == "/bin"
