"""Errors that JAX raises at common mistakes are known by what they say; all others are left alone."""

import traceback
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.lab.executor import Ended
from qwenperf.lab.failures import crashed
from qwenperf.lab.jax_errors import MISTAKES, explain, mistake_in
from qwenperf.workloads.case import Case, Workload


@jax.jit
def branching(x):
    return x if x > 0 else -x


@jax.jit
def reshaping(x, n):
    return x.reshape(n, -1)


@jax.jit
def slicing(x, n):
    return x[:n]


@jax.jit
def filtering(x):
    return x[x > 0]


@jax.jit
def computing_elsewhere(x):
    return np.sin(x)


@jax.jit
def assigning(x):
    x[0] = 1
    return x


def assigning_outside():
    jnp.zeros(3)[0] = 1


@partial(jax.jit, donate_argnums=0)
def giving_up(x):
    return x + 1


def using_again():
    x = jnp.ones(3)
    giving_up(x)
    return np.asarray(x)


X = np.ones(4, np.float32)


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ("traced-control-flow", partial(branching, 1.0)),
        ("dynamic-shape", partial(reshaping, X, 2)),
        ("dynamic-shape", partial(slicing, X, 2)),
        ("dynamic-shape", partial(filtering, X)),
        ("host-in-trace", partial(computing_elsewhere, X)),
        ("in-place-update", partial(assigning, X)),
        ("in-place-update", assigning_outside),
        ("used-after-donation", using_again),
    ],
)
def test_an_error_of_jax_is_known_by_its_words(code, wrong):
    """In the error itself, where it is told too, and in the last lines that a process leaves of it."""
    with pytest.raises(Exception) as caught:  # noqa: PT011  (whatever JAX raises)
        wrong()
    last_words = "\n".join("".join(traceback.format_exception(caught.value)).splitlines()[-8:])
    assert mistake_in(last_words).code == code
    assert explain(caught.value).code == code
    assert caught.value.__notes__[-1].startswith("qwenperf: ")


@pytest.mark.parametrize("error", [ValueError("no weights"), TypeError("missing argument"), RuntimeError("deleted")])
def test_other_errors_are_left_alone(error):
    """Nobody is told of a mistake that was not made."""
    assert explain(error) is None
    assert not hasattr(error, "__notes__")


def test_a_crash_by_such_an_error_has_the_finding():
    """Beside the last words that it is known by."""
    case = Case(model="tiny", engine="theirs:make", workload=Workload(prompt_length=4, new_tokens=6))
    ended = Ended(returncode=1, timed_out=False, wall_s=1.0)
    record = crashed(case, ended, "cold", "jax.errors.TracerBoolConversionError: Attempted boolean conversion")
    assert [finding.code for finding in record.findings] == ["traced-control-flow"]
    assert crashed(case, ended, "cold", "ValueError: no weights").findings == ()


def test_the_page_of_mistakes_names_each(repository):
    """Whoever meets a finding finds it there."""
    page = (repository / "docs" / "mistakes.md").read_text("utf-8")
    assert all(f"finding `{mistake.code}`" in page for mistake in MISTAKES)
