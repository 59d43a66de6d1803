"""What a side's process tells of somebody's own engine, which runs in this one."""

import sys
from functools import partial

import pytest

from qwenperf.errors import EnvironmentUnfitError
from qwenperf.lab import pair_worker
from qwenperf.lab.own_tree import own_tree
from qwenperf.measure.clock import Clock
from qwenperf.measure.compiles import CompileLog
from qwenperf.workloads.case import Case, Workload

CASE = Case(model="tiny", engine="theirlazy:make", workload=Workload(prompt_length=4, new_tokens=4))
ENGINE = """
import numpy as np

def make(model, capacity):
    def generate(tokens, new_tokens):
        import theirlater
        return np.zeros((len(tokens), new_tokens), np.int32)
    return generate
"""


@pytest.fixture
def built(tmp_path, monkeypatch):
    """Return a builder of the case whose engine lies in a revision and imports, as it runs, from the given folder."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "theirlazy.py").write_text(ENGINE)
    monkeypatch.syspath_prepend(str(tmp_path / "tree"))

    def build(folder, which):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "theirlater.py").touch()
        monkeypatch.syspath_prepend(str(tmp_path / folder))
        tree = own_tree(tmp_path / "tree", tmp_path / "checkout", tmp_path / "checkout", [CASE.engine])
        origin = partial(pair_worker._origin, **({"tree": None, "beside": None} | {which: tree}))
        with CompileLog() as log:
            return pair_worker._build(CASE, Clock(log), log, known=False, origin=origin)[1]

    yield build
    for name in ("theirlazy", "theirlater"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("which", ["tree", "beside"])
def test_what_an_engine_imports_while_it_runs_is_the_revision_s_too(built, tmp_path, which):
    """Kernels and tokenizers are imported late: both sides would have the checkout's, and a slower one would pass."""
    assert built("tree", which)["engine_file"] == str(tmp_path / "tree" / "theirlazy.py")
    del sys.modules["theirlater"]
    with pytest.raises(EnvironmentUnfitError, match=r"theirlater was imported from .*checkout/theirlater.py"):
        built("checkout", which)
