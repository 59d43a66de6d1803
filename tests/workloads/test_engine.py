"""Engines as data: rungs, settings, and their names."""

import dataclasses

import pytest

from qwenperf.errors import ConfigError, UnknownNameError
from qwenperf.workloads.engine import RUNGS, EngineSettings, engine_name, parse_engine
from qwenperf.workloads.mistakes import on_purpose
from qwenperf.workloads.setting import SETTINGS


@pytest.mark.parametrize(
    "settings",
    [
        {"cache": "concat", "donate": False},
        {"cache": "static", "shape": "growing", "donate": False},
        {"cache": "none", "shape": "growing", "donate": True},
        {"cache": "none", "shape": "growing", "donate": False, "loop": "device"},
        {"jit": False},
        {"jit": False, "donate": False, "loop": "device"},
        {"cache": "none", "donate": False, "cache_dtype": "int8"},
        {"position": "static", "loop": "device"},
        {"activations": "int8"},
        {"cache": "concat", "shape": "growing", "donate": False, "layers": "scanned"},
        {"jit": False, "donate": False, "layers": "scanned"},
        {"jit": False, "donate": False, "fusion": "barriers"},
        {"contraction": "in-out", "weights": "int8"},
    ],
)
def test_settings_that_exclude_each_other_are_refused(settings):
    """Nothing is quietly changed to what would work."""
    with pytest.raises(ConfigError, match="engine settings"):
        EngineSettings(**settings)


def test_an_unknown_value_offers_the_nearest():
    """Each setting lists its values."""
    with pytest.raises(UnknownNameError, match=r"unknown engine setting cache 'statik'\. Did you mean 'static'"):
        EngineSettings(cache="statik")


@pytest.mark.parametrize("value", [-1, 1.5, True, "64"])
def test_a_number_of_keys_is_a_whole_number(value):
    """A string of digits is one only in a name."""
    with pytest.raises(ConfigError, match="engine setting window is"):
        EngineSettings(window=value)


def test_a_window_that_no_position_reaches_is_refused():
    """Positions are int32: the program of such a window does not compile."""
    assert parse_engine(f"cached+window={2**31 - 1}").window == 2**31 - 1
    with pytest.raises(ConfigError, match=f"engine setting window is {2**31}; positions are counted up to {2**31 - 1}"):
        parse_engine(f"cached+window={2**31}")


def test_every_field_is_a_setting_of_the_catalogue():
    """A setting that is nowhere explained could not be measured or documented."""
    assert [field.name for field in dataclasses.fields(EngineSettings)] == list(SETTINGS)


def test_a_rung_is_its_own_name():
    """Tables say `cached`, not what it is made of."""
    assert [engine_name(settings) for settings in RUNGS.values()] == list(RUNGS)


@pytest.mark.parametrize(
    "name", ["cached+layers=scanned", "cached+rotary=step+window=64", "naive+rotary=tables", "cached-host+reuse=false"]
)
def test_names_and_settings_undo_each_other(name):
    """A case id is read back as what was measured."""
    assert engine_name(parse_engine(name), rung=name.split("+")[0]) == name


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("cahced+layers=scanned", "unknown engine 'cahced'. Did you mean 'cached'"),
        ("cached+layer=scanned", "unknown engine setting 'layer'. Did you mean 'layers'"),
        ("cached+layers=scaned", "Did you mean 'scanned'"),
        ("cached+layers", "layers has no value"),
        ("cached+qkv=fused+qkv=fused", "qkv is given twice"),
        ("cached+window=wide", "window is 'wide', which is not a whole number"),
        ("cached+", "unknown engine setting ''"),
    ],
)
def test_a_name_that_means_nothing_is_refused(name, seen):
    """With the nearest one where something was mistyped."""
    with pytest.raises((UnknownNameError, ConfigError)) as caught:
        parse_engine(name)
    assert seen in str(caught.value)


def test_a_cache_of_another_dtype_is_copied_on_purpose_unless_it_is_read_in_blocks():
    """XLA's CPU compiler fuses the cast with the write; blocks are read after it, and are judged like any engine."""
    assert on_purpose(parse_engine("cached+cache_dtype=int8")) == {"cache-alias": ["cache_dtype=int8"]}
    assert on_purpose(parse_engine("cached+cache_dtype=int8+key_block=64")) == {}
    assert on_purpose(parse_engine("cached")) == {}
