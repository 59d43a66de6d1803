"""The fixture's question about chips that are not there: ``compiles_for``."""

import json

import flax.linen  # noqa: F401 -- sessions inside this one forget what they import, and JAX cannot come twice
import pytest

import qwenperf.pytest_plugin.programs  # noqa: F401 -- the same
from qwenperf.schema.codec import aot_loads

PROGRAMS = """
    import jax, jax.numpy as jnp

    def shape(*sizes, dtype=jnp.float32):
        return jax.ShapeDtypeStruct(sizes, dtype)

    def step(weights, cache):
        return jnp.tanh(cache @ weights), cache.at[0].set(1)

    def widened(weights, cache):
        return cache.astype(jnp.float16) @ weights.astype(jnp.float16)

    SHAPES = shape(64, 64), shape(32, 64)
"""


@pytest.fixture
def session(pytester):
    pytester.makepyfile(programs=PROGRAMS)
    pytester.syspathinsert()
    return pytester


def test_programs_pass_or_fail_with_the_name_of_what_is_wrong(session):
    """A sound one passes its limits; a lost donation, a broken limit and one of the project's fail."""
    session.makepyprojecttoml(
        """
        [tool.qwenperf.budgets."*test_project*@cpu/*"]
        argument_bytes = { max = 10 }
        """
    )
    session.makepyfile(
        """
        from programs import SHAPES, step, widened

        def test_good(qwenperf):
            record = qwenperf.compiles_for(
                "cpu", step, *SHAPES, donate_argnums=1, unaliased_donations=0, argument_bytes=1e6, alias_bytes=8000
            )
            assert record.cases[0].program.alias_bytes == 32 * 64 * 4

        def test_donation(qwenperf):
            qwenperf.compiles_for("cpu", widened, *SHAPES, donate_argnums=1)

        def test_limit(qwenperf):
            qwenperf.compiles_for("cpu", step, *SHAPES, donate_argnums=1, argument_bytes=100)

        def test_project(qwenperf):
            qwenperf.compiles_for("cpu", step, *SHAPES, donate_argnums=1)

        def test_unknown(qwenperf):
            qwenperf.compiles_for("cpu", step, *SHAPES, argument_byte=100)

        def test_kernel(qwenperf):
            qwenperf.compiles_for("cpu", step, *SHAPES, kernels=["*flash*"])
        """
    )
    done = session.runpytest("-p", "no:xdist", "-p", "no:cacheprovider", "--qwenperf-out", "out")
    done.assert_outcomes(passed=1, failed=5)
    done.stdout.fnmatch_lines_random(
        [
            "*qwenperf donation failed for *test_donation*: *`cache`*was donated and is not updated in place*",
            "*qwenperf budget:argument_bytes failed for *test_limit*: *memory of the arguments *100 B*",
            "*qwenperf budget:argument_bytes failed for *test_project*: *memory of the arguments *10 B*",
            "*unknown key 'argument_byte'*argument_bytes*",
            "*qwenperf kernels failed for *test_kernel*: no kernel '?flash?'*",
        ]
    )
    (file,) = (session.path / "out").glob("*/aot.json")
    record = aot_loads(file.read_text())
    assert len(record.cases) == len(record.declared) == 5
    run = json.loads((file.parent / "run.json").read_text())
    assert [case["id"] for case in run["cases"]] == [
        "test_programs_pass_or_fail_with_the_name_of_what_is_wrong.py::test_unknown/compiles_for"
    ]


def test_every_target_is_told_at_once(session, monkeypatch):
    """Whoever mends the first must not learn of the second from the next run of an hour."""
    from qwenperf.aot import platforms

    monkeypatch.setattr(platforms, "_LIBRARY", "no_such_library")
    monkeypatch.delenv("TPU_LIBRARY_PATH", raising=False)
    session.makepyfile(
        """
        from programs import SHAPES, step

        def test_all(qwenperf):
            qwenperf.compiles_for("v5e-1,v7x-4,cpu", step, *SHAPES, donate_argnums=1, argument_bytes=100)
        """
    )
    done = session.runpytest("-p", "no:xdist", "-p", "no:cacheprovider")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(
        [
            "*could not judge *test_all/step@v5e-1/step*",
            "*could not judge *test_all/step@v7x-4/step*",
            "*budget:argument_bytes failed for *test_all/step@cpu/step: *100 B*",
        ]
    )


def test_a_chip_without_its_compiler_fails_and_names_the_extra(session, monkeypatch):
    """Silence would be green; whoever cannot have the compiler marks the test."""
    from qwenperf.aot import platforms

    monkeypatch.setattr(platforms, "_LIBRARY", "no_such_library")
    monkeypatch.delenv("TPU_LIBRARY_PATH", raising=False)
    session.makepyfile(
        """
        from programs import SHAPES, step

        def test_chip(qwenperf):
            qwenperf.compiles_for("v5e-1,cpu", step, *SHAPES)
        """
    )
    done = session.runpytest("-p", "no:xdist", "-p", "no:cacheprovider")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*could not judge *: *pip install 'qwenperf*tpu*'*"])


def test_a_chip_that_is_not_there_judges_a_step(session):
    """The same line for v5e: the cache is updated in place, and nothing is copied."""
    session.makepyfile(
        """
        from programs import SHAPES, step

        def test_chip(qwenperf):
            qwenperf.compiles_for("v5e-1", step, *SHAPES, donate_argnums=1, relayouts=0, collectives=0, temp_bytes=1e5)
        """
    )
    done = session.runpytest("-p", "no:xdist", "-p", "no:cacheprovider")
    done.assert_outcomes(passed=1)
