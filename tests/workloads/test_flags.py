"""Named sets of XLA flags."""

import pytest

from qwenperf.errors import UnknownNameError
from qwenperf.workloads.engine import parse_engine
from qwenperf.workloads.flags import FLAG_SETS, LIBTPU_INIT_ARGS, XLA_FLAGS, missing_flags, with_flags
from qwenperf.workloads.setting import SETTINGS


def test_every_set_says_what_it_is_where_it_counts_and_who_says_so():
    """Flags without a source are folklore."""
    for name, flags in FLAG_SETS.items():
        assert flags.name == name
        assert flags.about
        assert all(flag.startswith("--xla_") and "=" in flag for flag in flags.flags)
        assert name == "none" or (flags.flags and flags.platforms and flags.source)
        # XLA's own parser ends the process at a flag that only the TPU compiler knows.
        assert not any("_tpu_" in flag for flag in flags.flags) or flags.variable == LIBTPU_INIT_ARGS


def test_the_sets_are_the_values_of_the_setting():
    """An engine's name says which set it had."""
    assert SETTINGS["xla_flags"].values == tuple(FLAG_SETS)
    assert parse_engine("cached+xla_flags=cpu-single-thread").xla_flags == "cpu-single-thread"
    with pytest.raises(UnknownNameError, match="Did you mean 'cpu-single-thread'"):
        parse_engine("cached+xla_flags=cpu-single-threaded")


def test_flags_are_added_behind_those_of_the_environment():
    """XLA takes the last of two; the caller's others stay, and so does everything else."""
    environ = {"PATH": "/bin", XLA_FLAGS: "--xla_dump_to=/tmp/x --xla_cpu_multi_thread_eigen=true"}
    added = with_flags(environ, "cpu-single-thread")
    assert added[XLA_FLAGS].split() == [*environ[XLA_FLAGS].split(), "--xla_cpu_multi_thread_eigen=false"]
    assert added["PATH"] == "/bin"
    assert missing_flags(environ, "cpu-single-thread") == ("--xla_cpu_multi_thread_eigen=false",)
    assert missing_flags(added, "cpu-single-thread") == ()


def test_no_flags_change_nothing():
    """No empty variable appears."""
    assert with_flags({"PATH": "/bin"}, "none") == {"PATH": "/bin"}
    assert missing_flags({}, "none") == ()


def test_the_tpu_compiler_reads_a_variable_of_its_own():
    """In XLA_FLAGS they would end a process on CPU."""
    added = with_flags({}, "tpu-async-collectives")
    assert list(added) == [LIBTPU_INIT_ARGS]
