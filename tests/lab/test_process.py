"""Settings of the process: real measuring processes that are started as their case's engine asks."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from qwenperf.errors import ConfigError
from qwenperf.lab import process
from qwenperf.lab.options import Options
from qwenperf.lab.process import measuring_environ, needs_first_process, of_the_machine, place_of_programs, settings_of
from qwenperf.lab.run_cases import new_run, run_cases
from qwenperf.lab.runner import run_case
from qwenperf.schema.records import Status
from qwenperf.workloads.engine import EngineSettings, parse_engine
from qwenperf.workloads.flags import FLAG_SETS, FlagSet
from qwenperf.workloads.setting import SETTINGS

OPTIONS = Options(steady_budget_s=0.01, logit_check=False, roofline=False)


@pytest.fixture
def measure(folder, notes, make_case):
    """Measure one case a name of an engine, in real processes, with nothing else on."""

    def measure(*engines):
        cases = [make_case(engine=engine) for engine in engines]
        return run_cases(new_run(folder, "test", cases, {}), cases, folder=folder, options=OPTIONS, listener=notes)

    return measure


def finding(record, code):
    (found,) = [finding for finding in record.findings if finding.code == code]
    return found


@pytest.mark.slow
def test_a_compile_cache_is_filled_by_a_first_process_and_found_by_the_second(measure, monkeypatch):
    """Hits are counted apart from compiles, and the seconds that each saved are told; tokens hold, as with flags."""
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    flags = [f"cached+xla_flags={name}" for name, chosen in FLAG_SETS.items() if chosen.platforms == ("cpu",)]
    run = measure("cached+compile_cache=true", *flags)
    with_cache, without = run.cases[:2]
    assert [case.status for case in run.cases] == [Status.MEASURED] * 3, [case.error for case in run.cases]
    assert [case.metrics["tokens_equal"].value for case in run.cases] == [1.0] * 3
    assert with_cache.metrics["compiles_cold"].value == 0
    assert with_cache.metrics["compile_s"].value == 0
    assert with_cache.metrics["cache_hits"].value >= 3
    hits = [event for event in with_cache.evidence.compiles if event.cache_hit]
    assert {"prefill", "generate", "new_cache"} <= {event.function for event in hits}
    # On a busy machine looking a program up may take longer than compiling it did.
    assert all(isinstance(event.extra["saved_s"], float) for event in hits)
    assert finding(with_cache, "programs-left").data["programs"] >= 3
    # The next case is as cold as ever, and has its flags: an engine refuses a process without them. The run's
    # environment has nothing of what one case asked for.
    assert without.metrics["cache_hits"].value == 0
    assert without.metrics["compiles_cold"].value >= 3
    assert run.environment["persistent_cache"] is False
    assert run.environment["xla_flags"] == ""
    assert "persistent-cache" not in {found.code for found in run.findings}


@pytest.mark.slow
def test_saved_programs_are_loaded_by_the_process_that_is_measured(measure):
    """The first process compiles and saves; the measured one compiles nothing for a request."""
    (record,) = measure("cached+start=saved").cases
    assert record.status is Status.MEASURED, record.error
    assert record.metrics["compiles_cold"].value == record.metrics["compiles_steady"].value == 0
    assert record.metrics["tokens_equal"].value == 1.0
    assert finding(record, "compiled-at-start").data["programs"] == 0
    assert finding(record, "programs-left").data["programs"] >= 4


def test_declared_programs_are_compiled_before_the_first_request(make_case):
    """What is not in the cold figures is told."""
    record = run_case(make_case(engine="cached+start=declared"), OPTIONS)
    assert record.metrics["compiles_cold"].value == 0
    assert finding(record, "compiled-at-start").data["programs"] == 5


def test_flags_of_another_platform_and_unknown_ones_are_the_cases_failures(measure, monkeypatch):
    """The flag is named, and the run goes on to the next case."""
    wrong = FlagSet(
        name="wrong", flags=("--xla_no_such_flag=1",), platforms=("cpu",), about="a typing error", source="-"
    )
    monkeypatch.setitem(FLAG_SETS, "wrong", wrong)
    monkeypatch.setitem(SETTINGS, "xla_flags", replace(SETTINGS["xla_flags"], values=("none", *FLAG_SETS)))
    run = measure("cached+xla_flags=wrong", "cached+xla_flags=gpu-triton-gemm")
    assert [case.status for case in run.cases] == [Status.FAILED] * 2
    assert "xla_flags='wrong'" in run.cases[0].error
    assert "--xla_no_such_flag=1" in run.cases[0].error
    assert "xla_flags='gpu-triton-gemm' is for gpu, and this process runs on cpu" in run.cases[1].error
    assert [case.extra["exit_code"] for case in run.cases] == [2, 2]


def test_a_first_process_that_fails_is_the_cases_failure(measure):
    """Nothing is measured after it."""
    run = measure("cached+start=saved+prefill_chunk=4+bucket=8")
    assert run.cases[0].status is Status.FAILED
    assert "bucket=8 needs a prefill_chunk larger than it" in run.cases[0].error


def test_in_a_process_that_nobody_prepared_saved_programs_are_refused(make_case):
    """As in a test that measures in its own process."""
    with pytest.raises(ConfigError, match="loads programs that an earlier process saved, and there was none"):
        run_case(make_case(engine="cached+start=saved"), OPTIONS)


def test_a_cache_is_on_for_its_case_alone(tmp_path):
    """In a folder of its own, whatever the caller has; small programs are kept too."""
    environ = {"JAX_COMPILATION_CACHE_DIR": "/yesterday", "JAX_ENABLE_COMPILATION_CACHE": "true"}
    plain = measuring_environ(environ, parse_engine("cached"), None)
    assert plain["JAX_ENABLE_COMPILATION_CACHE"] == "false"
    assert "JAX_COMPILATION_CACHE_DIR" not in plain
    cached = measuring_environ(environ, parse_engine("cached+compile_cache=true"), tmp_path)
    assert cached["JAX_ENABLE_COMPILATION_CACHE"] == "true"
    assert Path(cached["JAX_COMPILATION_CACHE_DIR"]).parent == tmp_path
    assert cached["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] == "0"


def test_a_place_for_programs_is_empty_and_goes_away():
    """What ran before never helps, and nothing is left behind."""
    settings = parse_engine("cached+start=saved")
    assert needs_first_process(settings)
    with place_of_programs(settings) as place:
        assert list(place.iterdir()) == []
        (place / "programs").write_bytes(b"x")
    assert not place.exists()
    with place_of_programs(parse_engine("cached+start=declared")) as place:
        assert place is None


def test_an_engine_with_an_error_in_its_name_has_a_plain_process(make_case):
    """The process itself tells what is wrong."""
    assert settings_of(make_case(engine="cached+xla_flags=nothing")) == EngineSettings()


def test_the_machine_is_described_without_what_a_case_asked_for(monkeypatch):
    """Cases of one run have one environment."""
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=x")
    seen = {"xla_flags": "--xla_dump_to=x --xla_cpu_multi_thread_eigen=false", "persistent_cache": True, "cores": 2}
    settings = parse_engine("cached+compile_cache=true+xla_flags=cpu-single-thread")
    assert of_the_machine(seen, settings) == {"xla_flags": "--xla_dump_to=x", "persistent_cache": False, "cores": 2}
    assert of_the_machine(seen, EngineSettings()) == seen


def test_the_parent_that_starts_processes_imports_no_jax(repository):
    """It would take seconds and memory from what is measured."""
    code = f"import sys, {process.__name__}; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=repository, check=False).returncode == 0
