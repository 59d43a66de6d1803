"""Programs are compiled side by side, each on disk at once, and whatever a compiler does, the others go on."""

import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from qwenperf.aot import platforms
from qwenperf.aot.topology import resolve, resolve_all
from qwenperf.errors import EnvironmentUnfitError
from qwenperf.lab.aot import RECORD, run_aot
from qwenperf.lab.aot_children import AotOptions
from qwenperf.lab.aot_items import claim, items_of, longest_first, write_items
from qwenperf.schema.codec import aot_loads
from qwenperf.schema.records import Finding, Severity, Status

OPTIONS = AotOptions(programs=("decode_step",), jobs=2, time_limit_s=30.0)


class Notes:
    def __init__(self):
        self.started_ids, self.ended_ids = [], []

    def started(self, item):
        """Note an item that begins."""
        self.started_ids.append(item.id)

    def ended(self, record):
        """Note a program that ended."""
        self.ended_ids.append(record.id)


@pytest.fixture
def worker():
    """The command of a process that behaves as a case's options say."""
    return (sys.executable, str(Path(__file__).with_name("aot_worker.py")))


@pytest.fixture
def compiled(folder, worker):
    """Compile cases with the stand-in."""

    def compiled(*cases, targets="cpu", options=OPTIONS, **more):
        return run_aot(cases, resolve_all(targets), folder=folder, options=options, command=worker, **more)

    return compiled


def on_disk(folder):
    return aot_loads((folder.path / RECORD).read_text())


def test_every_program_is_in_the_record_in_the_order_that_was_asked_for(compiled, make_case, folder):
    """Whoever compiled it, and the longest first; the listener heard of all."""
    notes = Notes()
    cases = [make_case(engine=engine) for engine in ("cached", "naive")]
    options = replace(OPTIONS, programs=("prefill", "decode_step"))
    record = compiled(*cases, targets="cpu,v5e-1", options=options, listener=notes)
    assert [case.id for case in record.cases] == list(record.declared)
    assert len(record.declared) == 8
    assert record.environment == {"platform": "cpu", "jax": "0.0.1"}
    assert on_disk(folder) == record
    assert sorted(notes.started_ids) == sorted(notes.ended_ids) == sorted(record.declared)
    assert {case.status for case in record.cases} == {Status.MEASURED}


def test_a_crash_costs_its_program_alone(compiled, make_case, folder):
    """The signal and the last words are told; the next process compiles the rest."""
    record = compiled(
        make_case("crash"), make_case(engine="naive"), make_case(engine="padded"), options=replace(OPTIONS, jobs=1)
    )
    assert [case.status for case in record.cases] == [Status.FAILED, Status.MEASURED, Status.MEASURED]
    crashed = record.cases[0]
    assert crashed.extra["crashed"]
    assert "SIGABRT" in crashed.error
    assert "last words before the crash" in crashed.error
    assert str(folder.path / "logs") in crashed.error
    assert crashed.target.name == "cpu"


def test_what_is_compiled_is_compiled_once_more_where_that_is_asked_for(compiled, make_case, folder):
    """By other processes, with logs of their own; what was not compiled the first time is not tried again."""
    notes = Notes()
    cases = [make_case("crash"), make_case(engine="naive")]
    record = compiled(*cases, options=replace(OPTIONS, check_repeat=True), listener=notes)
    assert [case.status for case in record.cases] == [Status.FAILED, Status.MEASURED]
    assert [case.extra.get("again") for case in record.cases] == [None, True]
    assert notes.ended_ids.count(record.cases[1].id) == 2
    assert {file.name[:5] for file in (folder.path / "logs").iterdir()} == {"compi", "again"}


@pytest.mark.parametrize("is_writable", [True, False])
def test_what_is_compiled_twice_has_a_place_for_its_first_record(
    compiled, make_case, tmp_path, monkeypatch, is_writable
):
    """Where the cache cannot be written to it is another one: without it one process would compile both times."""
    (tmp_path / "file").touch()
    cache = tmp_path / ("cache" if is_writable else "file") / "aot"
    given = []
    monkeypatch.setattr(
        "qwenperf.lab.aot.write_items", lambda *told, **more: (given.append(told[-1]), write_items(*told, **more))
    )
    compiled(make_case(engine="naive"), options=replace(OPTIONS, check_repeat=True, remembered=cache))
    assert len(given) == 2
    assert given[0] == given[1]
    assert (given[0] == cache) is is_writable


def test_a_command_that_compiles_imports_no_jax_itself():
    """Its processes do: seconds of every call would be its own otherwise."""
    asked = "import sys, qwenperf.cli.aot, qwenperf.lab.aot, qwenperf.report.aot; print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.slow
def test_a_hang_is_killed_at_its_own_limit(compiled, make_case):
    """The limit is each program's: three slow ones together take longer than it."""
    slow = [make_case("slow", engine=engine) for engine in ("naive", "padded", "cached-host")]
    options = replace(OPTIONS, jobs=1, time_limit_s=4.0)
    record = compiled(*slow, make_case("hang"), options=options)
    assert [case.status for case in record.cases] == [*[Status.MEASURED] * 3, Status.TIMED_OUT]
    assert "killed after its time limit of 4.00 s" in record.cases[-1].error


def test_a_process_that_never_starts_ends(compiled, make_case):
    """Each program gets its turn, and its failure."""
    record = compiled(make_case("no-start"), make_case(engine="naive"))
    assert [case.status for case in record.cases] == [Status.FAILED] * 2
    assert all("JAX is broken" in case.error for case in record.cases)


def test_an_environment_in_which_jax_does_not_start_is_one_error(compiled, make_case):
    """And not one a program."""
    with pytest.raises(EnvironmentUnfitError, match="it is broken"):
        compiled(make_case("unfit"))


def test_half_a_record_is_none(compiled, make_case):
    """It is a failure of its program, which names the file."""
    record = compiled(make_case("half"))
    assert record.cases[0].status is Status.FAILED
    assert "cannot be read" in record.cases[0].error


def test_a_target_without_a_compiler_is_told_and_the_others_are_compiled(compiled, make_case, monkeypatch):
    """Declared, and not there: never silently green."""
    monkeypatch.setattr(platforms, "_CUDA_PLUGINS", ("no_such_plugin",))
    record = compiled(make_case(), targets="cuda,cpu")
    assert [case.status for case in record.cases] == [Status.MISSING, Status.MEASURED]
    assert record.cases[0].error.startswith("cuda is not available because")
    with pytest.raises(EnvironmentUnfitError, match="cuda is not available because"):
        compiled(make_case(), targets="cuda")


def test_the_record_is_judged_each_time_that_it_is_written(compiled, make_case):
    """What an interrupted run leaves is judged too."""
    seen = []

    def judge(record):
        seen.append(len(record.cases))
        return replace(record, findings=(Finding(code="judged", severity=Severity.NOTE, message="judged"),))

    record = compiled(make_case(), make_case(engine="naive"), judge=judge)
    assert seen == [1, 2]
    assert record.findings[0].code == "judged"


def test_an_interrupt_keeps_what_is_compiled(compiled, make_case, folder):
    """Ctrl-C ends the processes at once; the record says that it did."""
    fine, hung = make_case(engine="naive"), make_case("hang")

    class Interrupting(Notes):
        def started(self, item):
            super().started(item)
            if len(self.started_ids) == 2:
                threading.Timer(0.3, signal.raise_signal, [signal.SIGINT]).start()

    record = compiled(fine, hung, options=replace(OPTIONS, jobs=1, time_limit_s=600.0), listener=Interrupting())
    assert record.interrupted
    assert [case.id for case in record.cases] == [f"{fine.id}@cpu/decode_step"]
    assert on_disk(folder) == record


def test_one_of_all_who_ask_gets_an_item(tmp_path):
    """However many processes there are."""
    assert [claim(tmp_path, 3), claim(tmp_path, 3), claim(tmp_path, 4)] == [True, False, True]


def test_long_compiles_are_begun_first(make_case):
    """So that two processes end at about the same time; ids say case, target and program."""
    items = items_of([make_case()], ["v5e-1", "cpu"])
    assert items[0].id == f"{make_case().id}@v5e-1/prefill"
    assert [item.program for item in longest_first(items)] == ["prefill", "prefill", "decode_step", "decode_step"]


def test_a_real_process_compiles_and_remembers(make_case, folder, tmp_path):
    """No stand-in: a tiny case for this CPU, and an engine that has no program."""
    options = AotOptions(jobs=1, remembered=tmp_path / "remembered")
    cases = [make_case(), make_case(engine="eager")]
    record = run_aot(cases, [resolve("cpu")], folder=folder, options=options)
    fine = [case for case in record.cases if "/cached/" in case.id]
    assert [case.status for case in fine] == [Status.MEASURED] * 2, [case.error for case in fine]
    assert all(case.program.fingerprint for case in fine)
    assert len(list((tmp_path / "remembered").iterdir())) == 2
    others = [case for case in record.cases if "/eager/" in case.id]
    assert {case.status for case in others} == {Status.MISSING}
    assert all("jit=False" in case.error and case.extra["exit_code"] == 2 for case in others)
    assert record.environment["platform"] == "cpu"
