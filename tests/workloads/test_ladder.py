"""The suite of settings follows the catalogue: every value is measured, beside an engine that differs in it alone."""

import dataclasses

import pytest

from qwenperf.gate.evaluate import GATES
from qwenperf.workloads import mistakes
from qwenperf.workloads.approximate import LOGIT_ERROR
from qwenperf.workloads.case import Case, Workload
from qwenperf.workloads.defaults import DEFAULTS
from qwenperf.workloads.engine import BEST, RUNGS, parse_engine
from qwenperf.workloads.flags import FLAG_SETS
from qwenperf.workloads.ladder import PLATFORMS, best_engine, ladder_steps
from qwenperf.workloads.setting import NOT_BUILT, SETTINGS
from qwenperf.workloads.suites import SUITES


def difference(engine, base):
    one, other = parse_engine(engine), parse_engine(base)
    names = [field.name for field in dataclasses.fields(one)]
    return {name for name in names if getattr(one, name) != getattr(other, name)}


@pytest.mark.parametrize("platform", DEFAULTS)
def test_every_value_of_every_setting_is_measured(platform):
    """But those that cached has, and flags of another platform."""
    cached = RUNGS["cached"]
    wanted = {
        (name, value)
        for name, setting in SETTINGS.items()
        for value in setting.values
        if name not in NOT_BUILT and value != getattr(cached, name)
        if name != "xla_flags" or platform in (FLAG_SETS[value].platforms or (platform,))
    }
    assert {(step.setting, step.value) for step in ladder_steps(platform)} == wanted


@pytest.mark.parametrize("platform", DEFAULTS)
def test_a_pair_differs_in_its_setting(platform):
    """Or a gain would be that of something else; a cache that is concatenated has a shape that grows."""
    for step in ladder_steps(platform):
        for pair in filter(None, (step.alone, step.together)):
            allowed = {step.setting} | ({"shape"} if step.value == "concat" else set())
            assert difference(pair.engine, pair.base) == allowed


@pytest.mark.parametrize(("name", "platform"), PLATFORMS.items())
def test_the_suite_has_both_engines_of_every_pair_once(name, platform):
    """A base that is not measured is no base."""
    engines = [case.engine for case in SUITES[name].cases]
    assert len(engines) == len(set(engines))
    pairs = [pair for step in ladder_steps(platform) for pair in (step.alone, step.together) if pair]
    assert {name for pair in pairs for name in (pair.engine, pair.base)} <= set(engines)


@pytest.mark.parametrize("platform", DEFAULTS)
def test_a_default_is_built_exact_and_says_where_it_was_measured(platform):
    """Nobody gets other tokens by default, or a value that somebody believed to be fast."""
    for name, fastest in DEFAULTS[platform].items():
        assert name not in NOT_BUILT
        assert fastest.value in SETTINGS[name].values
        assert fastest.value not in LOGIT_ERROR.get(name, {})
        assert "20" in fastest.measured
    assert parse_engine(f"best-{platform}") == BEST[f"best-{platform}"] == parse_engine(best_engine(platform))


def test_mistakes_name_gates_settings_and_values():
    """A misspelled one would excuse nothing, or another."""
    for gate, causes in mistakes._FOUND_BY.items():
        assert gate in GATES
        for name, bad in causes.items():
            assert set(bad) < set(SETTINGS[name].values)


def test_a_case_says_what_its_name_asks_for():
    """By gate; an engine without a mistake says nothing."""
    work = Workload(prompt_length=4, new_tokens=4)

    def told(engine):
        return Case(model="tiny", engine=engine, workload=work).to_json().get("on_purpose")

    assert told("cached+rotary=step+donate=false") == {"rotary": ["rotary=step"], "cache-alias": ["donate=false"]}
    assert told("cached") is None
    assert told("cached+layers=scanned+weights=int8") is None
