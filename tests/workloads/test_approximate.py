"""What approximate settings may cost is stated for each of them, and for no exact one."""

import contextlib
import dataclasses
import itertools
import math

import pytest

from qwenperf.errors import ConfigError
from qwenperf.workloads.approximate import LOGIT_ERROR, approximations, logit_bound
from qwenperf.workloads.case import Case, Workload
from qwenperf.workloads.engine import RUNGS, EngineSettings, parse_engine
from qwenperf.workloads.setting import SETTINGS

WORK = Workload(prompt_length=4, new_tokens=8)


def spec(engine):
    return Case(model="tiny", engine=engine, workload=WORK).to_json()


@pytest.mark.parametrize("rung", RUNGS)
def test_no_rung_has_a_bound(rung):
    """An exact engine is never let off."""
    assert logit_bound(RUNGS[rung]) is None
    assert "approximate" not in spec(rung)


def test_only_approximate_settings_have_bounds():
    """A setting that keeps all tokens cannot excuse one."""
    exact = {name for name, setting in SETTINGS.items() if setting.exact}
    assert exact.isdisjoint(LOGIT_ERROR)


def test_every_value_of_an_approximate_setting_is_exact_or_has_a_bound():
    """The default is what the truth has, and the truth of a window has the window."""
    defaults = {field.name: field.default for field in dataclasses.fields(EngineSettings)}
    for name, setting in SETTINGS.items():
        if not setting.exact and name != "window":
            assert set(setting.values) - {defaults[name]} == set(LOGIT_ERROR[name])


def test_squares_of_several_settings_bounds_add_up():
    """As those of errors do that know nothing of each other; the case says which settings they are for."""
    settings = parse_engine("cached+cache_dtype=int8+weights=int8+rows=2")
    assert approximations(settings) == {"cache_dtype=int8": 0.06, "weights=int8": 0.12}
    told = spec("cached+cache_dtype=int8+weights=int8+rows=2")["approximate"]
    assert told == {
        "settings": ["cache_dtype=int8", "weights=int8"],
        "max_logit_error": pytest.approx(math.sqrt(0.06**2 + 0.12**2)),
    }


def test_a_case_with_a_bound_is_read_back():
    """What a case tells of itself is no argument of it."""
    case = Case(model="tiny", engine="cached+weights=int8", workload=WORK)
    assert Case.from_json(case.to_json()) == case


def test_a_window_excuses_nothing():
    """Its truth is that of the same window."""
    assert "approximate" not in spec("cached+window=64")


def test_a_case_of_an_unknown_engine_is_still_data():
    """Whoever builds it refuses it, and the refusal is recorded with the case."""
    assert "approximate" not in spec("cahced+weights=int8")


@pytest.mark.parametrize("precision", ["highest", "high"])
def test_finer_products_excuse_nothing(precision):
    """They have less rounding than the truth, not more."""
    assert "approximate" not in spec(f"cached+precision={precision}")
    assert SETTINGS["precision"].exact


def buildable():
    """Yield every combination of approximate values that can be built, but the exact one."""
    values = [[getattr(EngineSettings(), name), *bounds] for name, bounds in LOGIT_ERROR.items()]
    for chosen in itertools.product(*values):
        with contextlib.suppress(ConfigError):
            yield EngineSettings(**dict(zip(LOGIT_ERROR, chosen, strict=True)))


def test_no_bound_lets_unrelated_logits_pass():
    """Those differ by more than the largest of them; the coarsest settings together are still held to less."""
    bounds = {settings: logit_bound(settings) or 0.0 for settings in buildable()}
    worst = max(bounds, key=bounds.get)
    assert len(approximations(worst)) == len(LOGIT_ERROR)
    assert max(LOGIT_ERROR["weights"].values()) < bounds[worst] < 0.9
