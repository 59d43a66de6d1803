"""`qwenperf upgrade` from outside: what makes no sense is one line, before any environment is made."""

import pytest
from click.testing import CliRunner

from qwenperf.cli.upgrade import _versions, command
from qwenperf.errors import QwenperfError


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "an upgrade compares two versions or more"),
        (("--jax", "0.10.2"), "an upgrade compares two versions or more"),
        (("--jax", "0.10.2,new"), "'new' is no version of JAX"),
        (("--jax", "0.10.2,0.10.2"), "jax 0.10.2 is named twice"),
        (("--jax", "0.10.1,0.10.2,0.12.0", "--libtpu", "0.0.1,0.0.2"), "names 3 versions and --libtpu 2"),
        (("--jax", "0.10.1,0.10.2", "--target", "v5e-3"), "unknown target 'v5e-3'"),
        (("--jax", "0.10.1,0.10.2", "--engine", "cachd"), "unknown engine 'cachd'. Did you mean 'cached'"),
        (("--jax", "0.10.1,0.10.2", "--model", "no-such"), "unknown model 'no-such'"),
        (("--jax", "0.10.1,0.10.2", "--runs", "3"), "fewer than 6 pairs decide nothing"),
        (("--jax", "0.10.1,0.10.2", "--looks", "6,x"), "--looks is '6,x'"),
        (("--jax", "0.10.1,0.10.2", "--no-aot", "--target", "v5e-1"), "exclude each other"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(arguments, told):
    """With exit code 2."""
    done = CliRunner().invoke(command, arguments, standalone_mode=False)
    assert isinstance(done.exception, QwenperfError), done.output
    assert done.exception.exit_code == 2
    assert told in str(done.exception)


def test_compilers_are_paired_with_versions_of_jax():
    """One JAX goes with each of several compilers, and one compiler with each JAX."""
    assert [one.label for one in _versions("0.10.2", "0.0.1, 0.0.2")] == [
        "jax 0.10.2, libtpu 0.0.1",
        "jax 0.10.2, libtpu 0.0.2",
    ]
    assert [one.label for one in _versions(None, "0.0.1,0.0.2")] == ["libtpu 0.0.1", "libtpu 0.0.2"]
    assert [(one.jax, one.libtpu) for one in _versions("1.0,2.0", "0.1,0.2")] == [("1.0", "0.1"), ("2.0", "0.2")]
