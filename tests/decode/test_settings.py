import pytest

from qwenperf.decode.settings import EngineSettings
from qwenperf.errors import ConfigError, UnknownNameError


@pytest.mark.parametrize(
    "settings",
    [
        {"cache": "concat", "donate": False},
        {"cache": "static", "shape": "growing", "donate": False},
        {"cache": "none", "shape": "growing", "donate": True},
        {"cache": "none", "shape": "growing", "donate": False, "loop": "device"},
        {"jit": False},
        {"jit": False, "donate": False, "loop": "device"},
    ],
)
def test_settings_that_exclude_each_other_are_refused(settings):
    """Nothing is quietly changed to what would work."""
    with pytest.raises(ConfigError, match="engine settings"):
        EngineSettings(**settings)


def test_an_unknown_value_offers_the_nearest():
    """Each field lists its values."""
    with pytest.raises(UnknownNameError, match=r"unknown engine setting cache 'statik'\. Did you mean 'static'"):
        EngineSettings(cache="statik")


def test_settings_are_plain_data():
    """Records carry them."""
    assert EngineSettings().to_json() == {
        "jit": True,
        "cache": "static",
        "shape": "padded",
        "rotary": "tables",
        "loop": "host",
        "donate": True,
    }
