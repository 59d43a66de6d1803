"""The live run of comparisons whose answer is known: its parts, and (slowly) all of it once."""

import importlib
import itertools
import json
import sys
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.errors import MeasurementError, UsageError
from qwenperf.lab.pairs import PairOptions
from qwenperf.schema.comparison import ComparedCase, ComparisonRecord, PairRecord, RoundRecord, SideRecord
from qwenperf.schema.records import Outcome, Verdict
from qwenperf.stats.spending import Plan
from qwenperf.workloads.case import Case, Workload

MODULES = (
    "live live_asv live_kinds live_log live_machines live_peers live_tables live_try read_pairs scenarios slowed table "
    "unattended"
).split()
MACHINE = {"cpu_model": "Here 1", "cores": 2}
CASE = Case(model="tiny", engine="cached", workload=Workload(prompt_length=4, new_tokens=8))


@pytest.fixture(scope="module")
def parts(repository):
    sys.path.insert(0, str(repository))
    return SimpleNamespace(**{name: importlib.import_module(f"benchmarks.verdicts.{name}") for name in MODULES})


@pytest.fixture
def here(parts, monkeypatch):
    """Run on the machine that comparisons are made up for; nothing of the process changes."""
    monkeypatch.setattr(parts.live, "this_machine", lambda: MACHINE)
    monkeypatch.setattr(parts.live, "own_code", lambda root: root)
    monkeypatch.setattr(parts.unattended.signal, "signal", lambda *_: None)
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")


@pytest.fixture
def log(parts, tmp_path):
    return parts.live_log.LiveLog(lines=tmp_path / "live.jsonl", pairs=tmp_path / "pairs.csv")


def make_record(ratios, outcome=Outcome.PASS):
    """Return a comparison whose pairs show head ``ratio`` times as slow."""
    one = RoundRecord(order="ABBA", wall_s=(0.01,) * 4, cpu_s=(0.01,) * 4)
    pairs = []
    for number, ratio in enumerate(ratios, start=1):
        slow = replace(one, wall_s=(0.1, 0.1 * ratio, 0.1 * ratio, 0.1))
        rounds = {CASE.id: (slow, slow), "anchor/memory": (one, one), "anchor/compute": (one, one)}
        pairs.append(PairRecord(number=number, first="base", rounds=rounds, extra={"ready_s": 1.0}))
    stage = {"outcome": outcome.value}
    verdict = Verdict(gate="speed", outcome=outcome, summary="time", data={"stage_1": stage})
    side = SideRecord(label="x", kind="same", environment=MACHINE)
    case = ComparedCase(id=CASE.id, verdicts=(verdict,))
    return ComparisonRecord(id="c", created_at="", base=side, head=side, cases=(case,), pairs=tuple(pairs))


def add(parts, log, kind, number, ratios, outcome=Outcome.PASS, **more):
    record = make_record(ratios, outcome)
    line = parts.live_try.line_of(record, parts.live_kinds.KINDS[kind], number, 30.0, {})
    log.add({**line, **more}, list(parts.live_log.rows_of(record, kind, number)))


def test_whenever_the_run_ends_all_kinds_are_about_as_far(parts):
    """The next comparison is of the kind of which the smallest share is done."""
    wanted, tries = {"idle": 4, "slow-10": 2}, []
    while (name := parts.live_kinds.next_kind(wanted, tries, 1000.0)) is not None:
        tries.append({"kind": name, "seconds": 10.0})
    names = [one["kind"] for one in tries]
    assert sorted(names[:3]) == ["idle", "idle", "slow-10"]
    assert (names.count("idle"), names.count("slow-10")) == (4, 2)


def test_no_comparison_begins_that_would_not_end_in_time(parts):
    """By the longest of its kind so far; a shorter kind may still fit."""
    tries = [{"kind": "idle", "seconds": 200.0}, {"kind": "busy", "seconds": 20.0}]
    assert parts.live_kinds.next_kind({"idle": 20, "busy": 2}, tries, 100.0) == "busy"
    assert parts.live_kinds.next_kind({"idle": 20}, tries, 100.0) is None


def test_a_killed_run_leaves_nothing_half_written(parts, log):
    """A line that was cut short is no comparison, and rows without a line are taken out."""
    add(parts, log, "idle", 1, [1.0])
    record = make_record([1.0])
    rows = list(parts.live_log.rows_of(record, "idle", 2))
    log.add({"calibration": {}}, rows)
    with log.lines.open("a") as file:
        file.write('{"kind": "idle", "try": 2, "sec')
    log.mend()
    assert [one["try"] for one in log.tries()] == [1]
    assert {row.split(",")[1] for row in log.pairs.read_text().splitlines()[1:]} == {"1"}
    add(parts, log, "idle", 2, [1.0, 1.0])
    assert [one["try"] for one in log.tries()] == [1, 2]
    assert len(parts.read_pairs.read_pairs(log.pairs)) == 3


def test_comparisons_with_other_settings_go_elsewhere(log):
    """Rates of two plans are rates of none."""
    log.settings({"rounds": 6})
    log.settings({"rounds": 6})
    with pytest.raises(UsageError, match=r"begun with rounds 6 \(now 4\)"):
        log.settings({"rounds": 4})


def test_recorded_pairs_can_be_replayed(parts, log):
    """Those of unchanged code, as ratios of head to base."""
    add(parts, log, "idle", 1, [1.0, 1.1])
    add(parts, log, "slow-10", 1, [1.2])
    (one,) = parts.scenarios.own_recordings(log.pairs.parent)
    assert one.name == "pairs, idle"
    assert one.pairs.tolist() == pytest.approx([0.0, np.log(1.1)], abs=1e-4)


def test_pairs_of_two_machines_are_replayed_apart(parts, tmp_path, monkeypatch):
    """A simulated pull request has the noise of one of them: here all of its pairs are of one size."""
    for name, ratio in (("calm", 1.01), ("loud", 1.2)):
        add(parts, parts.live_machines.log_of(name, tmp_path / "lines", tmp_path), "idle", 1, [ratio] * 3)
    found = parts.scenarios.own_recordings(tmp_path)
    assert [one.name for one in found] == ["calm, idle", "loud, idle"]
    monkeypatch.setattr(parts.scenarios, "own_recordings", lambda: found)
    made = parts.scenarios.scenarios()
    for name, ratio in (("calm", 1.01), ("loud", 1.2)):
        drawn = made[f"replay, own, {name}, idle"].draw(np.random.default_rng(0), 0.0)
        assert np.abs(drawn) == pytest.approx(np.log(ratio), abs=1e-4)


def test_machines_have_files_of_their_own(parts, tmp_path):
    """Named after processor and cores; what is there is found again."""
    name = parts.live_machines.name_of({"cpu_model": "Intel(R) Xeon(R) Processor @ 2.50GHz", "cores": 2})
    assert name == "intel-xeon-2.50ghz-2-cores"
    folders = tmp_path / "results" / "live", tmp_path / "data" / "pairs"
    for one in (name, "amd-epyc-2-cores"):
        add(parts, parts.live_machines.log_of(one, *folders), "idle", 1, [1.0])
    found = parts.live_machines.logs(*folders)
    assert list(found) == ["amd-epyc-2-cores", name]
    assert all(len(parts.read_pairs.read_pairs(log.pairs)) == 1 for log in found.values())


@pytest.mark.usefixtures("here")
def test_a_log_of_another_machine_is_not_gone_on_with(parts, log, tmp_path, capsys):
    """Its noise is another; what was measured there stays as it is."""
    other = {"cpu_model": "Another 3000", "cores": 96}
    add(parts, log, "idle", 1, [1.0], machine=other)
    log.same_machine(other)
    held = log.lines.read_text()
    assert parts.live.main(["--out", str(tmp_path), "--count", "idle=1"]) == 2
    said = capsys.readouterr().err
    assert (
        "holds comparisons of another machine: cpu_model Another 3000, cores 96; this one has cpu_model Here 1, cores 2"
        in said
    )
    assert log.lines.read_text() == held


def test_every_log_is_of_the_machine_that_it_is_named_after(parts):
    """Those that are kept here."""
    for name, log in parts.live_machines.logs().items():
        assert {parts.live_machines.name_of(one["machine"]) for one in log.tries()} == {name}
        assert log.pairs.is_file()


@pytest.mark.parametrize(
    ("hits", "count", "low", "high"), [(0, 20, 0.0, 0.1684), (5, 10, 0.1871, 0.8129), (10, 10, 0.6915, 1.0)]
)
def test_small_counts_carry_the_exact_interval(parts, hits, count, low, high):
    """Figures from published tables."""
    found = parts.table.exact(hits, count)
    assert (found["low"], found["high"]) == pytest.approx((low, high), abs=1e-4)


def test_needless_products_are_done_and_leave_the_tokens(parts):
    """Seen in the compiled step, which the products must not be optimised out of."""

    def inner(_params, tokens, state, _tables, *, config):  # noqa: ARG001
        return SimpleNamespace(token=tokens + jnp.int32(1), state=state)

    def token(length):
        step = parts.slowed.wasting(inner, 2.5)
        return step(None, jnp.full(1, 7, jnp.int32), SimpleNamespace(length=length), None, config=None).token

    compiled = jax.jit(token).lower(jax.ShapeDtypeStruct((), jnp.int32)).compile()
    assert [int(compiled(jnp.int32(at))[0]) for at in range(4)] == [8] * 4
    assert "while(" in compiled.as_text()
    assert "dot" in compiled.as_text()


def test_the_calibration_finds_products_that_slow_down_by_what_is_wanted(parts):
    """On an engine whose loop alone costs 1%, and each product 0.9%."""
    found = parts.slowed.calibrate(CASE, (0.05, 0.10), lambda _, products: [0.01 + 0.009 * one for one in products])
    assert found["products"] == pytest.approx([4 / 0.9, 10.0])
    assert found["standard_error"] == pytest.approx([0.0, 0.0], abs=1e-9)


def test_a_calibration_that_fails_is_none(parts):
    """Whatever is tried, processes are up to 30% apart."""
    drawn = itertools.cycle([[0.0, 0.6], [0.3, 0.9]])
    with pytest.raises(MeasurementError, match="is not known to"):
        parts.slowed.calibrate(CASE, (0.05, 0.10), lambda *_: next(drawn))


def test_the_tables_count_alarms_and_misses_of_everybody(parts, log):
    """One fail of unchanged code, one slowdown that was missed."""
    log.add({"calibration": {"wanted": [0.05, 0.1], "products": [4.0, 10.0], "standard_error": [0.004, 0.004]}})
    add(parts, log, "idle", 1, [1.0] * 4, Outcome.FAIL, pytest_benchmark={"alarm": True, "seconds": 9.0})
    add(parts, log, "idle", 2, [1.0] * 4)
    add(parts, log, "slow-10", 1, [1.2] * 4, Outcome.INCONCLUSIVE)
    text = parts.live_tables.markdown({"here": log})
    lines = {line.split(" | ")[0].strip("| "): line.split(" | ") for line in text.splitlines() if line.startswith("|")}
    assert "| unchanged, idle | 2 | 1 of 2 (1 to 99%) | 1 of 2 (1 to 99%) | 0 of 2 (0 to 84%)" in text
    assert "| unchanged, idle | 30 | 30 | 2 of 2 (16 to 100%) | 7.5 | 4 | 0.000 of 8 |" in text
    beside = {name: cells[1:] for name, cells in lines.items()}
    assert beside["qwenperf compare"][:3] == ["1 of 2 (1 to 99%)", "-", "1 of 1 (2 to 100%)"]
    assert beside["pytest-benchmark, mean:10% (run)"][0] == "1 of 1 (2 to 100%)"
    assert beside["10% on single runs"][:3] == ["0 of 2 (0 to 84%)", "-", "0 of 1 (0 to 97%)"]
    assert beside["asv continuous, factor 1.1 (its decision)"][:3] == ["0 of 2 (0 to 84%)", "-", "0 of 1 (0 to 97%)"]
    assert beside["200% on single runs"][2] == "1 of 1 (2 to 100%)"
    assert "standard error of 0.4%; all its pairs together: +20.0%" in text


def test_several_machines_have_tables_apiece_and_one_of_all(parts, tmp_path):
    """Counts are added up; deviations are each machine's own; other settings are not counted together."""
    logs = {name: parts.live_machines.log_of(name, tmp_path / "lines", tmp_path / "pairs") for name in ("a", "b")}
    for log, outcome in zip(logs.values(), (Outcome.FAIL, Outcome.PASS), strict=True):
        log.settings({"rounds": 6})
        add(parts, log, "idle", 1, [1.0, 1.1], outcome, machine={"cpu_model": log.lines.stem, "cores": 2})
    text = parts.live_tables.markdown(logs)
    one, two, both = text.split("### ")[1:]
    assert (one.splitlines()[0], two.splitlines()[0], both.splitlines()[0]) == ("a", "b", "All machines")
    assert ("cpu_model a, cores 2" in one, "cpu_model b, cores 2" in two) == (True, True)
    assert "| unchanged, idle | 1 | 1 of 1 (2 to 100%)" in one
    assert "| unchanged, idle | 1 | 0 of 1 (0 to 97%)" in two
    assert "| unchanged, idle | 2 | 1 of 2 (1 to 99%)" in both
    assert "| 0.067 of 2; 0.067 of 2 |" in both
    assert "| 10% on single runs | 0 of 2 (0 to 84%)" in both
    logs["b"].lines.write_text(logs["b"].lines.read_text().replace('"rounds": 6', '"rounds": 4'))
    assert "begun differently: {'rounds': 6}; {'rounds': 4}" in parts.live_tables.markdown(logs)


@pytest.mark.usefixtures("here")
def test_a_run_goes_on_where_it_stopped(parts, tmp_path, monkeypatch, capsys):
    """Comparisons that were finished are not made again; pytest-benchmark's trouble costs none of them."""
    made = []

    def compare(_bench, kind, _say):
        made.append(kind.name)
        return make_record([1.0, 1.0]), 12.0

    def broken(*_):
        raise MeasurementError("no pytest there.")

    monkeypatch.setattr(parts.live_try.Bench, "compare", compare)
    monkeypatch.setattr(parts.live, "pytest_benchmark", broken)
    none = ["--count", "busy=0", "--count", "slow-10=0", "--count", "slow-5=0", "--out", str(tmp_path), "--asv", "0"]
    assert parts.live.main([*none, "--count", "idle=2"]) == 0
    assert parts.live.main([*none, "--count", "idle=3"]) == 0
    assert made == ["idle"] * 3
    lines = [json.loads(line) for line in (tmp_path / "live.jsonl").read_text().splitlines()]
    assert [one.get("try") for one in lines] == [None, 1, 2, 3]
    assert lines[1]["pytest_benchmark"] == {"error": "no pytest there."}
    assert parts.live.main(["--summary", "--out", str(tmp_path)]) == 0
    assert "| unchanged, idle | 3 | 0 of 3" in capsys.readouterr().out


@pytest.mark.usefixtures("here")
def test_each_tool_beside_is_asked_so_often_a_kind_and_goes_on_where_it_stopped(parts, tmp_path, monkeypatch, capsys):
    """Of them asv takes longest, and is asked for a few tries alone; the tables count what it said."""
    monkeypatch.setattr(parts.live_try.Bench, "compare", lambda *_: (make_record([1.0, 1.0]), 12.0))
    monkeypatch.setattr(parts.live, "pytest_benchmark", lambda *_: {"alarm": False, "seconds": 1.0})
    monkeypatch.setattr(parts.live, "asv_continuous", lambda *_: {"alarm": True, "seconds": 60.0})
    none = ["--count", "busy=0", "--count", "slow-10=0", "--count", "slow-5=0", "--out", str(tmp_path)]
    for count in ("1", "4"):
        assert parts.live.main([*none, "--peers", "3", "--asv", "2", "--count", f"idle={count}"]) == 0
    lines = [json.loads(line) for line in (tmp_path / "live.jsonl").read_text().splitlines()][1:]
    assert ["pytest_benchmark" in one for one in lines] == [True, True, True, False]
    assert ["asv_continuous" in one for one in lines] == [True, True, False, False]
    capsys.readouterr()
    assert parts.live.main(["--summary", "--out", str(tmp_path)]) == 0
    assert "| asv continuous, factor 1.1 (run) | 2 of 2 (16 to 100%)" in capsys.readouterr().out


@pytest.fixture
def bench(parts, repository, tmp_path):
    """What a live run of the tiny model has in common; an eighth of a product a step is called 10% slower."""
    return parts.live_try.Bench(
        root=repository, case=CASE, plan=Plan(), options=PairOptions(), out=tmp_path, products={0.1: 0.125}, commit={},
    )  # fmt: skip


def test_the_sides_of_a_change_are_two_commits_for_asv(parts, bench, tmp_path):
    """Of unchanged code too; each holds its own case, and its needless products a step."""
    told = []
    for kind in ("idle", "slow-10"):
        folder = tmp_path / kind
        folder.mkdir()
        base, head = (parts.live_asv.commit(folder, side, bench) for side in bench.sides(parts.live_kinds.KINDS[kind]))
        assert base != head
        told.append(json.loads((folder / "side.json").read_text()))
    assert [one["name"] for one in told] == ["head", "head"]
    assert [one["environ"] for one in told] == [{}, {parts.slowed.PRODUCTS: "0.125"}]
    assert [one["case"]["engine"] for one in told] == [CASE.engine, parts.slowed.ENGINE]


def test_what_asv_says_is_an_alarm_or_none_or_no_answer(parts):
    assert parts.live_asv.alarm("| + | 1.0ms | 2.0ms | 2.0 | PERFORMANCE DECREASED.")
    assert not parts.live_asv.alarm("BENCHMARKS NOT SIGNIFICANTLY CHANGED.")
    for said in ("Traceback", "time_request   failed\nBENCHMARKS NOT SIGNIFICANTLY CHANGED."):
        with pytest.raises(MeasurementError, match="measured nothing"):
            parts.live_asv.alarm(said)


@pytest.mark.slow
def test_asv_continuous_is_really_run(parts, bench, monkeypatch):
    """On the tiny model: it answers, whatever it says of a microsecond more or less."""
    real = parts.live_asv._make

    def once(folder, root):
        """Time in one process a commit, where asv itself would start two: each takes seconds to start."""
        real(folder, root)
        with (folder / "timed" / "request.py").open("a") as file:
            file.write("\n    rounds = 1\n")

    monkeypatch.setattr(parts.live_asv, "_make", once)
    said = parts.live_asv.asv_continuous(bench, parts.live_kinds.KINDS["slow-10"])
    assert isinstance(said["alarm"], bool)
    assert said["seconds"] > 0


def test_what_was_cut_or_measured_nothing_is_counted_apart(parts, log):
    """A comparison that takes longest is cut likeliest: leaving it out unseen would flatter the rates."""
    add(parts, log, "idle", 1, [1.0] * 4)
    add(parts, log, "idle", 2, [1.0] * 4, Outcome.SKIPPED)
    log.add({"cut": "idle", "seconds": 170.0, "pairs": 18})
    text = parts.live_tables.markdown({"here": log})
    assert "| unchanged, idle | 1 | 0 of 1 (0 to 97%)" in text
    assert "| 1 | 1 |" in text
    assert parts.live_kinds.next_kind({"idle": 2}, log.tries(), 1000.0) == "idle"


@pytest.mark.slow
def test_all_of_it_runs_unattended(parts, tmp_path, monkeypatch, capsys):
    """A comparison of unchanged and of slower code on the tiny model, calibrated, with pytest-benchmark beside."""
    monkeypatch.chdir(tmp_path)
    # A loaded machine may not see the slowdown of a tiny request, nor would more processes make it see it.
    monkeypatch.setattr(parts.slowed, "CLOSE", 10.0)
    monkeypatch.setattr(parts.live, "calibrate", partial(parts.slowed.calibrate, processes=2))
    wanted = {"idle": 1, "busy": 0, "slow-10": 1, "slow-5": 0}
    counts = [part for kind, count in wanted.items() for part in ("--count", f"{kind}={count}")]
    small = ["--model", "tiny", "--new-tokens", "16", "--rounds", "2", "--trial", "0.01", "--calibration-rounds", "4"]
    done = parts.live.main(
        [*counts, *small, "--looks", "6", "--peers", "1", "--asv", "0", "--out", str(tmp_path / "out")]
    )
    assert done == 0, capsys.readouterr().err
    tries = parts.live_log.LiveLog(lines=tmp_path / "out" / "live.jsonl", pairs=tmp_path / "out" / "pairs.csv").tries()
    assert sorted(one["kind"] for one in tries) == ["idle", "slow-10"]
    assert all("alarm" in one["pytest_benchmark"] for one in tries)
    assert all(one["pairs"] >= 6 and not one["broken"] for one in tries)
