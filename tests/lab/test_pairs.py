"""Process pairs, with real processes on a tiny model: one pair measured once for all tests."""

import dataclasses
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import qwenperf
from qwenperf.errors import EnvironmentUnfitError, MeasurementError
from qwenperf.lab import pair_worker
from qwenperf.lab.forms import Forms
from qwenperf.lab.pairs import ANCHORS, PairOptions, Pairs, _balanced
from qwenperf.lab.share_programs import share_programs
from qwenperf.lab.sides import Side
from qwenperf.lab.subject import Subject
from qwenperf.workloads.case import Case, Workload

ROOT = Path(qwenperf.__file__).parent.parent
GOOD = Case(model="tiny", engine="cached", workload=Workload(prompt_length=4, new_tokens=4))
TOO_LONG = Case(model="tiny", engine="cached", workload=Workload(prompt_length=2000, new_tokens=4))
OPTIONS = PairOptions(rounds=2, trial_s=0.001)


def make_side(name, **changes):
    side = Side(name=name, label=name, kind="revision", root=ROOT, python=sys.executable)
    return dataclasses.replace(side, **changes)


@pytest.fixture(scope="module")
def again(tmp_path_factory, compiles_quickly):
    """Return pairs with two measured: a case that works, one that cannot, and another engine in head."""
    pairs = Pairs(
        base=make_side("base", environ=compiles_quickly),
        head=make_side("head", engine="cached-host", environ=compiles_quickly),
        cases=(GOOD, TOO_LONG),
        options=OPTIONS,
        logs=tmp_path_factory.mktemp("logs"),
        seed=1,
        cache=tmp_path_factory.mktemp("cache"),
    )
    return pairs, pairs.measure(1), pairs.measure(2)


@pytest.fixture(scope="module")
def measured(again):
    """Return the pairs, and the first one."""
    return again[:2]


def test_a_pair_has_rounds_of_both_sides_and_of_the_anchors(measured):
    """Each round is ABBA or BAAB, both equally often, with wall and CPU time, load and stolen time of every trial."""
    _, pair = measured
    assert pair.failed is None
    assert set(pair.rounds) == {GOOD.id, *ANCHORS}
    for rounds in pair.rounds.values():
        assert sorted(one.order for one in rounds) == ["ABBA", "BAAB"]
        assert all(len(one.wall_s) == 4 and min(one.wall_s) > 0 and min(one.cpu_s) > 0 for one in rounds)
        told = [one.extra["trials"] for one in rounds]
        assert all(len(one["steal_s"]) == len(one["load"]) == 4 for one in told)
        assert [sum(one["steal_s"]) for one in told] == [one.steal_s for one in rounds]


def test_anchors_can_be_left_out_of_the_rounds(measured):
    pairs, _ = measured
    without = dataclasses.replace(pairs, options=dataclasses.replace(OPTIONS, anchors=False))
    assert {name for name, _ in without._turns(random.Random(1), "base")} == {GOOD.id}


def test_each_side_tells_what_does_not_depend_on_the_clock(measured):
    """Tokens of the two engines agree, their programs do not."""
    pairs, _ = measured
    base, head = (pairs.evidence[side][GOOD.id] for side in ("base", "head"))
    assert base["tokens"] == head["tokens"]
    assert len(base["tokens"][0]) == 4
    assert set(base["programs"]) == {"prefill", "decode_step", "generate"}
    assert set(head["programs"]) == {"prefill", "decode_step"}
    assert base["metrics"]["weight_bytes"]["value"] > 0


def test_a_later_pair_loads_the_programs_of_the_first(again):
    """Nothing is compiled, and what is loaded has the text of what was compiled; sizes are not asked for again."""
    pairs, first, second = again
    assert second.failed is None
    assert min(first.extra["compiled"].values()) > 0
    assert second.extra["compiled"] == {"base": 0, "head": 0}
    assert set(second.rounds) == set(first.rounds)
    for side in ("base", "head"):
        loaded, told = pairs.loaded[1, side, GOOD.id], pairs.evidence[side][GOOD.id]["programs"]
        assert {"prefill"} <= loaded.keys()
        assert {name: told[name] for name in loaded if name in told} == {
            name: text for name, text in loaded.items() if name in told
        }
        assert pairs.evidence[side][GOOD.id]["metrics"]


def test_a_process_that_loads_another_program_is_refused(again):
    """Its pair would be of something else, and say so of the code."""
    pairs, _, _ = again
    key = (1, "base", GOOD.id)
    subject = Subject(name="base", log=Path(), child=None, reader=-1, writer=-1)
    pairs._check_programs(subject, key, pairs.loaded[key])
    with pytest.raises(MeasurementError, match="runs another prefill than in an earlier process"):
        pairs._check_programs(subject, key, {**pairs.loaded[key], "prefill": "other"})


def test_the_lot_decides_which_side_begins_one_round_more():
    """With an odd number of rounds; head and base could as well be swapped."""
    for first, second in (("base", "ABBA"), ("head", "BAAB")):
        orders = _balanced(3, random.Random(1), first)
        assert sorted(orders).count(second) == 2


def test_a_program_of_both_sides_is_kept_once(tmp_path):
    """The copy of the side that is named first, so that both load the same."""
    for folder, text in (("a", "one"), ("b", "two")):
        (tmp_path / folder / "deep").mkdir(parents=True)
        (tmp_path / folder / "deep" / "both").write_text(text)
        (tmp_path / folder / text).write_text(text)
    share_programs(tmp_path / "a", tmp_path / "b", into=tmp_path / "all")
    assert (tmp_path / "all" / "deep" / "both").read_text() == "one"
    assert {path.name for path in (tmp_path / "all").iterdir()} == {"deep", "one", "two"}


def test_a_case_that_cannot_be_built_costs_the_others_nothing(measured):
    """It says why, and is left out of the rounds."""
    pairs, _ = measured
    assert "max_position_embeddings" in pairs.evidence["base"][TOO_LONG.id]["error"]
    assert pairs.comparable() == (GOOD.id,)


def test_the_side_that_is_spawned_first_is_drawn_by_lot(measured):
    """Once either way in each two pairs, and not always the same way round."""
    pairs, pair = measured
    assert pair.first == ("base" if pairs.base_first(1, 1) else "head")
    firsts = [pairs.base_first(number, 1) for number in range(1, 41)]
    assert all(first != second for first, second in zip(firsts[::2], firsts[1::2], strict=True))
    assert 3 < sum(firsts[::2]) < 17
    assert firsts != [pairs.base_first(number, 2) for number in range(1, 41)]


def test_a_pair_whose_process_dies_says_so_and_loses_nothing_else(tmp_path):
    """The comparison goes on with the next pair."""
    broken = make_side("head", python="/bin/false")
    pairs = Pairs(base=make_side("base"), head=broken, cases=(GOOD,), options=OPTIONS, logs=tmp_path, seed=1)
    pair = pairs.measure(2)
    assert pair.failed == "head (head) ended (exit code 1)."
    assert pair.rounds == {}


def test_another_package_than_the_one_asked_for_is_refused(tmp_path):
    """An installed copy that comes before the revision's tree would be measured on both sides."""
    with pytest.raises(EnvironmentUnfitError, match="was imported from"):
        pair_worker.check_origin(str(tmp_path))
    pair_worker.check_origin(str(ROOT))


def test_a_side_runs_its_own_tree_without_the_persistent_cache():
    """The caller's own packages come behind it."""
    environ = {"PYTHONPATH": "/elsewhere", "JAX_COMPILATION_CACHE_DIR": "/tmp/cache", "JAX_PLATFORMS": "cpu"}
    assert make_side("base").child_environ(environ) == {
        "JAX_PLATFORMS": "cpu",
        "JAX_ENABLE_COMPILATION_CACHE": "false",
        "PYTHONPATH": f"{ROOT}:/elsewhere",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }


def test_a_side_with_a_cache_keeps_the_smallest_program():
    """In a folder of its own interpreter."""
    one, other = (
        make_side("base", python=python).child_environ({}, Path("/cache"))["JAX_COMPILATION_CACHE_DIR"]
        for python in ("/a/python", "/b/python")
    )
    assert Path(one).parent == Path(other).parent == Path("/cache")
    assert one != other
    environ = make_side("base").child_environ({}, Path("/cache"))
    assert environ["JAX_ENABLE_COMPILATION_CACHE"] == "true"
    assert environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] == "0"


def test_pinning_leaves_the_first_cores():
    """Asked of a process of its own: this one goes on with all of its cores."""
    code = "import os; from qwenperf.lab.pair_worker import pin; pin(1); print(len(os.sched_getaffinity(0)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"


class Lazy:
    """Notes what it is asked for, and from the third request on gives back half of it."""

    name = "lazy"

    def __init__(self):
        self.asked = []

    def generate(self, prompt_BT, new_tokens):
        """Return tokens."""
        self.asked.append(prompt_BT.tobytes())
        return np.zeros((len(prompt_BT), new_tokens if len(self.asked) < 3 else new_tokens // 2), np.int32)


def test_timed_requests_are_all_others_and_what_they_give_back_is_looked_at():
    """An engine that keeps its answers, or does less once it is warm, is not fast for that."""
    engine, prompt_BT = Lazy(), np.arange(8, dtype=np.int32)[None]
    timed = pair_worker._Requests(
        Forms(engine=engine, workload=Workload(prompt_length=8, new_tokens=4), prompt_BT=prompt_BT)
    )
    for _ in range(2):
        timed.prepare(1)
        timed()
        timed.check()
    assert len({prompt_BT.tobytes(), *engine.asked}) == 3
    timed.prepare(1)
    timed()
    with pytest.raises(MeasurementError, match="a timed request"):
        timed.check()
