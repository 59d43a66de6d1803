"""What is asked of an engine is whole numbers, whoever made them."""

import json

import numpy as np
import pytest

from qwenperf.errors import ConfigError
from qwenperf.workloads.case import Case, Workload

LONG = Workload(prompt_length=4, new_tokens=40)


def test_whole_numbers_of_numpy_are_whole_numbers():
    """A length that comes out of an array is as good as one that was typed, in the record too."""
    workload = Workload(prompt_length=np.int32(4), new_tokens=np.int64(8), batch=np.uint8(2))
    assert workload == Workload(prompt_length=4, new_tokens=8, batch=2)
    assert json.loads(json.dumps(vars(workload)))["new_tokens"] == 8


@pytest.mark.parametrize("value", [1, 8.0, "8", None, True, np.True_, np.float32(8), np.arange(3), np.int64(-8)])
def test_anything_else_is_refused_with_its_value(value):
    """A fraction, a text or an array is no number of tokens."""
    with pytest.raises(ConfigError, match=r"new_tokens is .* not a whole number of at least 2"):
        Workload(prompt_length=4, new_tokens=value)


@pytest.mark.parametrize("name", ["batch", "prompt_length"])
def test_a_truth_is_no_number_of_anything(name):
    """`batch=True` is somebody's mistake, and no batch of one."""
    with pytest.raises(ConfigError, match=f"workload {name} is True, which is not a whole number of at least 1"):
        Workload(**{"prompt_length": 4, "new_tokens": 8, name: True})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"trials": True}, "trials is True, which is not a whole number of at least 1"),
        ({"trials": 0}, "trials is 0, which is not"),
        ({"trials": 2.5}, "trials is 2.5, which is not"),
        ({"seed": True}, "seed is True, which is not a whole number"),
        ({"measured_tokens": True}, "measured_tokens is True, which is not a whole number"),
        ({"time_limit_s": True}, "time_limit_s is True, which is no number of seconds above 0"),
        ({"time_limit_s": float("nan")}, "time_limit_s is nan, which is no"),
        ({"requests_only": 1}, "requests_only is 1, which is neither true nor false"),
    ],
)
def test_a_case_refuses_what_is_no_number_and_no_truth(change, told):
    """Each field by its name, with what was given."""
    with pytest.raises(ConfigError, match=told):
        Case(model="tiny", engine="naive", workload=LONG, **change)


def test_a_case_that_times_requests_only_is_read_back_and_others_do_not_speak_of_it():
    """Code that does not know the field yet reads the cases that do not need it."""
    case = Case(model="tiny", engine="cached", workload=LONG, requests_only=True)
    assert Case.from_json(json.loads(json.dumps(case.to_json()))) == case
    assert "requests_only" not in Case(model="tiny", engine="cached", workload=LONG).to_json()


@pytest.mark.parametrize("engine", ["cached", "cached-concat+weights=int8", "best-cpu"])
def test_a_request_with_a_cache_is_never_extrapolated_from_its_ends(engine):
    """The prompt would be counted once for every few tokens."""
    with pytest.raises(ConfigError, match="measured_tokens is 4 for an engine with a cache"):
        Case(model="tiny", engine=engine, workload=LONG, measured_tokens=4)


@pytest.mark.parametrize("engine", ["naive", "padded+weights=int8", "theirs:make", "no-such-engine"])
def test_other_engines_may_be_measured_at_their_ends(engine):
    """Also one of which nothing is known here."""
    assert Case(model="tiny", engine=engine, workload=LONG, measured_tokens=4).measured_tokens == 4
