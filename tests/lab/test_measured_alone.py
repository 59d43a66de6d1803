"""Whoever measures does so alone on the machine: each way in waits for the others before it has done anything."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from qwenperf.errors import MachineBusyError
from qwenperf.lab import compare as compare_module
from qwenperf.lab.beside import measure_in_turn
from qwenperf.lab.compare import Comparison, create_folder
from qwenperf.lab.inventory import Inventory
from qwenperf.lab.measure_engine import measure_engine
from qwenperf.lab.measure_step import measure_step
from qwenperf.lab.pairs import PairOptions
from qwenperf.lab.run_cases import run_cases
from qwenperf.lab.run_pairs import RunPairs
from qwenperf.lab.side_command import run_side
from qwenperf.lab.sides import Side
from qwenperf.measure.measuring_lock import FOLDER, HANDED_DOWN, WAIT
from qwenperf.schema.comparison import PairRecord
from qwenperf.settings import from_environment
from qwenperf.stats.spending import Plan

WAYS = {
    "a run": lambda: run_cases(None, [None], folder=None, options=None, listener=None),
    "pairs of runs": lambda: RunPairs.run(None),
    "pairs of runs, as many as tell": lambda: RunPairs.until(None, None, 1),
    "a side's own command": lambda: run_side(None, []),
    "an engine": lambda: measure_engine(None, None, None, log=None, clock=None),
    "engines by turns": lambda: measure_in_turn([None], trials=1),
}


@pytest.mark.usefixtures("measured_beside")
@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_measured_beside_another_measurement(way):
    """What each is given would break it at its first line."""
    with pytest.raises(MachineBusyError):
        WAYS[way]()


@pytest.mark.usefixtures("measured_beside")
def test_a_step_is_timed_alone_and_watched_beside_anything():
    """Compiles do not depend on the clock."""
    import jax
    import jax.numpy as jnp

    step = jax.jit(lambda state: state * 2.0, donate_argnums=0)
    with pytest.raises(MachineBusyError):
        measure_step(step, jnp.ones(4), trials=1)
    assert measure_step(step, jnp.ones(4), trials=0).metrics["compiles_steady"].value == 0


def test_a_side_s_own_code_is_told_of_no_lock_but_the_one_that_is_held_for_it(tmp_path):
    """Code from before it refuses variables that it does not know."""
    side = Side(name="base", label="base", kind="same", root=tmp_path, python="-")
    environ = {FOLDER: "/a", WAIT: "1", HANDED_DOWN: "1-a /a/lock"}
    told = side.child_environ(environ)
    assert {name: told.get(name) for name in environ} == {FOLDER: None, WAIT: None, HANDED_DOWN: "1-a /a/lock"}
    assert from_environment(told).values == {}


def comparison(tmp_path, **more):
    base, head = (Side(name=name, label=name, kind="same", root=tmp_path, python="-") for name in ("base", "head"))
    return Comparison(
        base=base, head=head, inventory=Inventory(shared=()), plan=Plan(), options=PairOptions(),
        folder=create_folder(tmp_path), listener=SimpleNamespace(pair_ended=lambda *_: None), facts={}, **more,
    )  # fmt: skip


@pytest.mark.usefixtures("measured_beside")
def test_a_comparison_that_waits_in_vain_leaves_no_folder(tmp_path):
    one = comparison(tmp_path)
    with pytest.raises(MachineBusyError):
        one.run()
    assert not one.folder.exists()


def test_an_interrupt_of_the_waiting_is_an_interrupted_comparison(tmp_path, monkeypatch):
    @contextmanager
    def waits():
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(compare_module, "one_measurement", waits)
    one = comparison(tmp_path)
    assert one.run().interrupted
    assert (one.folder / "comparison.json").is_file()


def test_the_time_of_a_comparison_begins_when_it_measures(tmp_path, monkeypatch):
    """It may have waited for longer than it may take."""
    clock = SimpleNamespace(seconds=0.0)

    @contextmanager
    def waits():
        clock.seconds += 1000
        yield

    def measure(_self, number, *, stage):
        clock.seconds += 20
        return PairRecord(number=number, first="base", stage=stage)

    monkeypatch.setattr(compare_module, "one_measurement", waits)
    monkeypatch.setattr(compare_module, "time", SimpleNamespace(monotonic=lambda: clock.seconds))
    monkeypatch.setattr("qwenperf.lab.pairs.Pairs.measure", measure)
    assert len(comparison(tmp_path, limit_s=50).run().pairs) == 2
