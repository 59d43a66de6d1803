"""Somebody's own engine is measured by name, and what is no engine is named before anything is measured."""

import numpy as np
import pytest

from qwenperf.errors import ConfigError, UsageError
from qwenperf.lab.options import Options
from qwenperf.lab.own_engine import own_engine
from qwenperf.lab.runner import run_case
from qwenperf.workloads.case import Case, Workload
from qwenperf.workloads.factory import factory_parts

MODULE = """
import numpy as np
from qwenperf.decode.build import build_engine

def ours(model, capacity):
    return build_engine(model, "cached-host", capacity=capacity)

def constant(model, capacity):
    return lambda tokens, new_tokens: np.full((len(tokens), new_tokens), capacity, np.int32)

def broken(model, capacity):
    raise ValueError("no weights")

def nothing(model, capacity):
    return 3

def short(model):
    return None

number = 7
"""


@pytest.fixture(scope="module", autouse=True)
def module(tmp_path_factory):
    """A module of somebody's, where Python finds it."""
    folder = tmp_path_factory.mktemp("theirs")
    (folder / "their_engines.py").write_text(MODULE)
    (folder / "unfinished.py").write_text("def make(model, capacity:\n")
    (folder / "raising.py").write_text("raise RuntimeError('no\\nlicence')\n")
    (folder / "leaving.py").write_text("raise SystemExit(3)\n")
    (folder / "spaces").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield


def test_a_factory_s_engine_is_measured_as_one_of_ours():
    """Its tokens are compared with its own truth, and the record has its name."""
    work = Workload(prompt_length=4, new_tokens=4)
    case = Case(model="tiny", engine="their_engines:ours", workload=work)
    record = run_case(case, Options(trials=2, roofline=False, steady_budget_s=0.0))
    assert record.id == "tiny/their_engines:ours/b1-p4-n4-f32"
    assert record.evidence.divergence.equal
    assert "approximate" not in record.spec
    assert not record.spec["reference"]


def test_a_bare_function_will_do():
    """Whatever the adapters take; it is given the positions that a request needs."""
    tokens = own_engine("their_engines:constant", None, 9).generate(np.zeros((2, 3), np.int32), 4)
    assert np.asarray(tokens).tolist() == [[9] * 4] * 2


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("their_engines:broken", "their_engines:broken raised ValueError: no weights"),
        ("their_engines:short", "raised TypeError.*factory\\(model, capacity\\)"),
        ("their_engines:nothing", "int 3 is no engine"),
        ("their_engines:gone", "gone is not there in"),
        ("their_engines:number", "number is int, which cannot be called"),
        ("sys:nothere", "nothere is not there in module sys\\."),
        ("builtins:nope", "nope is not there in module builtins\\."),
        ("spaces:make", "make is not there in module spaces\\."),
        ("unfinished:make", "importing unfinished raised SyntaxError: .*unfinished.py, line 1"),
        ("raising:make", "importing raising raised RuntimeError: no licence\\."),
        ("leaving:make", "importing leaving raised SystemExit: 3"),
        ("their_engine:ours", "No module named 'their_engine'.*PYTHONPATH"),
    ],
)
def test_what_makes_no_engine_is_named(name, told):
    """With what was seen, and what to do, in one line."""
    with pytest.raises(UsageError, match=told) as caught:
        own_engine(name, None, 8)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["a:", ":b", "a.b", "a:b:c", "a:b+weights=int8", "../a:b", "a b:c"])
def test_a_name_is_a_module_and_a_function(name):
    """Settings are for engines that have them."""
    with pytest.raises(ConfigError, match=r"is no package\.module:factory"):
        factory_parts(name)
