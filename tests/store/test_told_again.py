"""Files of other tools grow: what was imported from one already is no second measurement."""

import dataclasses
import json

import pytest

from qwenperf.errors import StoreError
from qwenperf.formats import asv_read, serving
from qwenperf.formats.foreign import Told
from qwenperf.formats.place import Document
from qwenperf.store.answers import OTHER_VERSIONS
from qwenperf.store.base import Added, Window
from qwenperf.store.check import check_store
from qwenperf.store.directory import open_store

TOLD = Told(modified_at="2026-01-02T03:04:05+00:00")
LATER = Told(modified_at="2026-01-09T03:04:05+00:00")
COLUMNS = ["result", "params", "started_at", "version"]
START_MS = 1767312000000


def of_asv(commit="a", at_ms=1767225600000, version="1", **results):
    """The run that a result file of asv is: ``benchmark=(value, started_at)``."""
    result = {
        "commit_hash": commit * 40, "env_name": "e", "date": at_ms, "version": 2, "python": "3.11",
        "params": {"machine": "lab", "python": "3.11"}, "requirements": {}, "env_vars": {}, "result_columns": COLUMNS,
        "results": {f"b.track_{name}": [[value], [], began, version] for name, (value, began) in results.items()},
    }  # fmt: skip
    (run,) = asv_read.read([Document(name=f"r/lab/{commit}.json", text=json.dumps(result))], TOLD)
    return run


def of_sglang(*durations, told=TOLD, **changes):
    """The runs that a file of SGLang's, a line a result, is."""
    server = {
        "model_path": "m", "tp_size": 1, "random_seed": 1, "version": "0.5.1.dev7+gabc",
        "internal_states": [{"last_gen_throughput": 1.5}],
    }  # fmt: skip
    line = {"backend": "sglang", "dataset_name": "random", "completed": 8, "server_info": {**server, **changes}}
    text = "\n".join(json.dumps(line | {"duration": one, "output_throughput": 100 / one}) for one in durations)
    return serving.read_sglang([Document(name="r.jsonl", text=text)], told)


def values(store, case, metric, window=None):
    """The values of a history, in its order."""
    return [point.value for point in store.series(case, metric, window or Window()).points]


@pytest.fixture
def store(tmp_path):
    """An empty store on a disk."""
    return open_store(str(tmp_path / "store"))


def test_a_result_file_of_asv_that_grew_is_counted_once(made, store):
    """A benchmark was added to a commit that was imported before."""
    first = of_asv(sum=(1.0, START_MS))
    grown = of_asv(sum=(1.0, START_MS), more=(5.0, START_MS + 60_000))
    assert first.id != grown.id
    for run in (first, grown):
        store.add(made.source_of(run))
    assert values(store, "b.track_sum", "value") == [1.0]
    assert values(store, "b.track_more", "value") == [5.0]
    assert check_store(store) == ([], 2)


def test_a_benchmark_of_asv_that_ran_again_is_another_reading(made, store):
    """Although the value is the same: it began at another time."""
    for began in (START_MS, START_MS + 60_000):
        store.add(made.source_of(of_asv(sum=(1.0, began))))
    assert values(store, "b.track_sum", "value") == [1.0, 1.0]


def test_commits_with_one_value_are_two_points(made, store):
    """Also of an old file that does not say when a benchmark began."""
    for commit, day in (("a", 0), ("b", 1)):
        store.add(made.source_of(of_asv(commit, 1767225600000 + day * 86_400_000, sum=(1.0, None))))
    store.add(made.source_of(of_asv("b", 1767225600000 + 86_400_000, sum=(1.0, None), more=(2.0, None))))
    assert values(store, "b.track_sum", "value") == [1.0, 1.0]


def test_values_of_a_version_that_is_no_more_are_no_part_of_the_history(made, store):
    """They were imported before the benchmark changed, when nobody knew of another version."""
    for number, version in enumerate("1122"):
        at_ms = 1767225600000 + number * 86_400_000
        store.add(made.source_of(of_asv("abcd"[number], at_ms, version, sum=(float(number), START_MS))))
    series = store.series("b.track_sum", "value")
    assert made.values(series) == [2.0, 3.0]
    assert series.extra == {OTHER_VERSIONS: 2}
    assert check_store(store) == ([], 4)


def test_the_same_results_read_beside_another_list_of_benchmarks_stay_what_they_were(made, store):
    """A benchmark was edited since: a store that is filled from the whole folder each night takes what is new."""
    first = of_asv(sum=(1.0, START_MS))
    beside = dataclasses.replace(first, extra={"source": {**first.extra["source"], "machine": {"ram": "17"}}})
    corrected = dataclasses.replace(beside, commit={"sha": "f" * 40})
    assert [store.add(made.source_of(run)) for run in (first, beside)] == [Added.ADDED, Added.ALREADY]
    with pytest.raises(StoreError, match="another run with the id"):
        store.add(made.source_of(corrected))


def test_what_was_told_again_stands_when_the_first_telling_is_removed(made, tmp_path):
    """And the newest points of a window are as many as were asked for."""
    folder = tmp_path / "store"
    first = of_asv(sum=(1.0, START_MS))
    grown = of_asv(sum=(1.0, START_MS), more=(5.0, START_MS + 1))
    for run in (first, grown, of_asv("c", sum=(3.0, START_MS), at_ms=1767225700000)):
        made.write_run(folder, run)
    assert values(open_store(str(folder)), "b.track_sum", "value", Window(last=3)) == [1.0, 3.0]
    (folder / first.id / "run.json").unlink()
    assert values(open_store(str(folder)), "b.track_sum", "value") == [1.0, 3.0]


def test_lines_of_a_file_that_grew_are_counted_once_and_in_their_order(made, store):
    """Such a result says no time: a file of lines is as old as its last one."""
    durations = (7.0, 3.0, 5.0, 2.0, 6.0, 4.0)
    case = of_sglang(1.0)[0].cases[0].id
    for run in (*of_sglang(*durations[:4]), *of_sglang(*durations, told=LATER)):
        store.add(made.source_of(run))
    assert values(store, case, "duration") == list(durations)


def test_starts_of_one_server_are_one_environment(made, store):
    """A seed that was drawn, ports and how fast it was last are of the moment; what it was started with is not."""
    (first,) = of_sglang(1.0)
    moment = {"random_seed": 2, "internal_states": [{"last_gen_throughput": 9.5}], "port": 30001, "api_key": "k",
              "max_total_num_tokens": 20481, "version": "0.5.1.dev8+gdef"}  # fmt: skip
    again, other = (of_sglang(1.5, told=LATER, **changes)[0] for changes in (moment, {"tp_size": 2}))
    for run in (first, again, other):
        store.add(made.source_of(run))
    keys = [run.environment for run in store.runs()]
    assert len(set(keys)) == 2
    assert store.runs()[0].environment == next(one.environment for one in store.runs() if one.run == again.id)
