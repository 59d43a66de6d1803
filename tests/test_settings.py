"""Settings merge from three sources, each value with its origin."""

import re

import pytest

from qwenperf.errors import ConfigError
from qwenperf.settings import Settings, from_environment, from_flags, from_table, merge, read_size


def test_flags_overrule_variables_and_variables_the_file():
    """A flag wins over a variable, a variable over pyproject.toml, and each origin is told."""
    settings = merge(
        from_table({"suite": "quick", "trials": 3, "time-limit": 9}, "pyproject.toml"),
        from_environment({"QWENPERF_TRIALS": "4", "QWENPERF_TIME_LIMIT": "8", "HOME": "/root"}),
        from_flags({"time_limit_s": 7.0, "out": None}),
    )
    assert (settings.suite, settings.trials, settings.time_limit_s, settings.out) == ("quick", 4, 7.0, "profiles")
    assert settings.origins["suite"] == "pyproject.toml [tool.qwenperf] suite"
    assert settings.origins["trials"] == "QWENPERF_TRIALS"
    assert settings.origins["time_limit_s"] == "--time-limit"
    assert settings.origins["out"] == "default"


def test_nothing_given_is_the_defaults():
    """Without any source every value is its default."""
    assert merge() == Settings(origins=dict.fromkeys(Settings().__dataclass_fields__.keys() - {"origins"}, "default"))


def test_an_unknown_key_of_the_file_offers_the_nearest():
    """A mistyped key names itself, its file and the nearest known key."""
    with pytest.raises(ConfigError, match=r"pyproject.toml \[tool.qwenperf\] time_limit.*Did you mean 'time-limit'"):
        from_table({"time_limit": 3}, "pyproject.toml")


def test_the_budgets_table_is_left_to_its_own_reader():
    """Budgets live in the same table and are no setting."""
    assert not from_table({"budgets": {"*": {}}}, "pyproject.toml").values


def test_an_unknown_variable_offers_the_nearest():
    """A mistyped variable is an error, never ignored."""
    with pytest.raises(ConfigError, match=r"QWENPERF_TRIAL.*Did you mean 'QWENPERF_TRIALS'"):
        from_environment({"QWENPERF_TRIAL": "3"})


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("QWENPERF_TRIALS", "many"),
        ("QWENPERF_TRIALS", "0"),
        ("QWENPERF_TIME_LIMIT", "-1"),
        ("QWENPERF_TIME_LIMIT", "inf"),
        ("QWENPERF_TRACE", "perhaps"),
        ("QWENPERF_OUT", ""),
        ("QWENPERF_INCONCLUSIVE", "wran"),
    ],
)
def test_a_value_of_the_wrong_kind_names_its_origin(variable, text):
    """A value that cannot be read is an error that names where it was written."""
    with pytest.raises(ConfigError, match=f"{variable} is '{text}'"):
        from_environment({variable: text})


@pytest.mark.parametrize(
    ("key", "value"), [("time-limit", 10**400), ("out", "a\0b"), ("store", "\0")], ids=["number", "folder", "store"]
)
def test_a_value_that_no_system_takes_names_its_origin(key, value):
    """A number beyond all seconds, or a name with a NUL: no internal error later."""
    with pytest.raises(ConfigError, match=rf"pyproject.toml \[tool.qwenperf\] {key} is"):
        from_table({key: value}, "pyproject.toml")


@pytest.mark.parametrize(("text", "value"), [("1", True), ("yes", True), ("false", False), ("Off", False)])
def test_a_switch_is_read_from_words(text, value):
    """Switches are written as people write them."""
    assert merge(from_environment({"QWENPERF_TRACE": text})).trace is value


def test_a_boolean_is_no_number_of_trials():
    """True is not 1: a switch in the place of a number is an error."""
    with pytest.raises(ConfigError):
        from_table({"trials": True}, "pyproject.toml")


@pytest.mark.parametrize(("text", "expected"), [("500MB", 500_000_000), ("1.5 g", 1_500_000_000), (7, 7), ("0kB", 0)])
def test_a_size_is_read_as_people_write_it(text, expected):
    """Decimal prefixes, as everywhere."""
    assert read_size(text) == expected
    assert from_table({"trace-quota": text}, "pyproject.toml").values["trace_quota"] == expected


@pytest.mark.parametrize("text", ["big", "", "-1", "1e9", True, "5 XB", "1.5.0MB", "9" * 400, f"{'9' * 305}T"])
def test_what_is_no_size_is_an_error(text):
    """It names the setting."""
    with pytest.raises(ConfigError, match="trace-quota"):
        from_table({"trace-quota": text}, "pyproject.toml")


def test_a_variable_that_the_docs_name_is_no_unknown_setting(repository):
    """A job sets them for all of its steps: those that measure have no use for them, and must not end by them."""
    told = "\n".join(page.read_text(encoding="utf-8") for page in sorted((repository / "docs").glob("*.md")))
    named = set(re.findall(r"\bQWENPERF_[A-Z_]*[A-Z]\b", told)) - {"QWENPERF_STORE", "QWENPERF_INCONCLUSIVE"}
    assert {"QWENPERF_WEBHOOK_SECRET", "QWENPERF_GITHUB_APP_KEY", "QWENPERF_TOKEN"} <= named
    assert from_environment(dict.fromkeys(named, "x")).values == {}
