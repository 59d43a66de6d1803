"""The runs before one are found beside it, and a run that misses its budget is held beside them."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from qwenperf.cli import main
from qwenperf.cli.earlier_runs import EarlierRuns
from qwenperf.schema.codec import dumps
from qwenperf.schema.records import Outcome, metric

_SPEC = importlib.util.spec_from_file_location("traced_runs", Path(__file__).parents[1] / "traced_runs.py")
made = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(made)
run = made.run


@pytest.fixture
def kept(tmp_path):
    """A folder of runs, and what puts some there."""

    def kept(*runs):
        for one in runs:
            (tmp_path / one.id).mkdir()
            (tmp_path / one.id / "run.json").write_text(dumps(one))
        return EarlierRuns(out=tmp_path)

    return kept


def test_runs_before_one_are_read_once_and_the_newest_first(kept, tmp_path):
    """Those after it are not, and what cannot be read is left out."""
    runs = [run(number, Outcome.PASS, 1e-3) for number in (1, 2, 3, 4, 9)]
    earlier = kept(*runs)
    (tmp_path / "20261122T120000Z-000000").mkdir()
    (tmp_path / "20261122T120000Z-000000" / "run.json").write_text("{")
    first = next(iter(earlier.before(runs[3].id)))
    assert first == runs[2]
    assert list(earlier.known.values()) == [runs[2]]
    (tmp_path / first.id / "run.json").write_text("{")
    assert list(earlier.before(runs[3].id)) == [runs[2], runs[1], runs[0]]


def test_the_gate_command_says_it(kept, tmp_path, capsys):
    """Of a saved run, by the budgets that it is given."""
    slow = run(4, Outcome.FAIL, 5e-3)
    case = replace(slow.cases[0], metrics={"decode_tokens_per_s": metric("decode_tokens_per_s", 10.0)})
    kept(run(2, Outcome.PASS, 2e-3), replace(slow, cases=(case,)))
    (tmp_path / "budgets.toml").write_text('[tool.qwenperf.budgets."*"]\ndecode_tokens_per_s = { min = 900 }\n')
    with pytest.raises(SystemExit) as end:
        main(["gate", str(tmp_path / slow.id), "--budgets", str(tmp_path / "budgets.toml")])
    assert end.value.code == 1
    assert "since 20261122T000000Z-000000: dot +3.00 ms a token" in capsys.readouterr().out
