"""The roofline is measured once an environment, kept for a week, and never believed when damaged."""

import json

import pytest

from qwenperf.gate.ceiling import product_rate
from qwenperf.measure import roofline
from qwenperf.schema.records import Roofline

DAY_S = 24 * 3600.0
START = 1_800_000_000.0
BUSY = {"measured_at": START, "load": 1000.0}


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """One real measurement, and the folder that keeps it."""
    folder = tmp_path_factory.mktemp("roofline")
    return folder, roofline.measure_roofline("env", folder, now=lambda: START)


def keep(folder, **changes):
    """Write a roofline that nobody measured, to see whether it is taken."""
    kept = {"bytes_per_s": 1.5, "flops_per_s": 2.5, "source": "kept", "extra": {"measured_at": START, "load": 0.0}}
    (folder / "env.json").write_text(json.dumps({**kept, **changes}))


def ask(folder, at=START, environment="env", *, load=0.0, bytes_per_s=10.0, **more):
    """Ask for the roofline at a time; measuring anew takes no time and gives a known answer."""

    def fresh(at):
        extra = {"measured_at": at, "load": load, **more}
        return Roofline(bytes_per_s=bytes_per_s, flops_per_s=20.0, source="fresh", extra=extra)

    return roofline.measure_roofline(environment, folder, now=lambda: at, measure=fresh)


def test_a_machine_reads_and_multiplies_and_says_how(measured):
    found = measured[1]
    assert found.bytes_per_s > 1e7
    assert found.flops_per_s > 1e7
    assert set(found.extra["flops_per_s_by_dtype"]) == {"f32", "bf16"}
    assert "thread" in found.source
    assert "matrix product" in found.source


@pytest.mark.parametrize("cache_mb", [None, 1, 32, 300, 1152])
def test_the_array_is_larger_than_any_cache(monkeypatch, cache_mb):
    """Some servers' last level has hundreds of megabytes: half of a smaller array would lie in it."""
    cache = None if cache_mb is None else cache_mb << 20
    monkeypatch.setattr(roofline, "last_level_caches_bytes", lambda: cache)
    monkeypatch.setattr(roofline, "usable_memory_bytes", lambda: 32 << 30)
    assert roofline._array_bytes() >= max(64 << 20, 2 * (cache or 0))
    assert roofline._array_bytes() <= max(512 << 20, 2 * (cache or 0))


def test_the_array_leaves_room_in_a_small_memory(monkeypatch):
    """A container with little memory on a large server is not ended for what the server's caches need."""
    monkeypatch.setattr(roofline, "last_level_caches_bytes", lambda: 2 << 30)
    monkeypatch.setattr(roofline, "usable_memory_bytes", lambda: 2 << 30)
    assert roofline._array_bytes() == 512 << 20


def test_it_is_kept_for_the_environment(measured):
    folder, found = measured
    again = ask(folder, START + 0.5 * 3600)
    assert (again.bytes_per_s, again.source) == (found.bytes_per_s, found.source)
    assert ask(folder, environment="other").source == "fresh"
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(("days", "source"), [(6.9, "kept"), (7.1, "fresh"), (-1.0, "fresh")])
def test_it_is_measured_again_after_a_week_or_when_it_comes_from_the_future(days, source, tmp_path):
    keep(tmp_path)
    assert ask(tmp_path, START + days * DAY_S).source == source


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"bytes_per_s": 1}',
        '{"bytes_per_s": "many", "flops_per_s": 1, "source": "", "extra": {"measured_at": 1800000000}}',
        '{"bytes_per_s": 0, "flops_per_s": 1, "source": "", "extra": {"measured_at": 1800000000}}',
        '{"bytes_per_s": 1, "flops_per_s": 1, "source": "", "extra": null}',
        '{"bytes_per_s": 1, "flops_per_s": 1, "source": "", "extra": [1800000000]}',
        '{"bytes_per_s": 1, "flops_per_s": 1, "source": 7, "extra": {"measured_at": 1800000000, "load": 0}}',
        '{"bytes_per_s": NaN, "flops_per_s": 1, "source": "", "extra": {"measured_at": 1800000000}}',
    ],
)
def test_a_damaged_file_is_measured_over(text, tmp_path):
    (tmp_path / "env.json").write_text(text)
    assert ask(tmp_path).source == "fresh"
    assert json.loads((tmp_path / "env.json").read_text())["source"] == "fresh"


def test_one_measured_under_load_is_tried_again_after_an_hour(tmp_path):
    keep(tmp_path, extra=BUSY)
    assert ask(tmp_path, START + 600).source == "kept"
    assert ask(tmp_path, START + 4000).source == "fresh"


def test_of_two_measurements_each_rate_is_the_higher_one(tmp_path):
    """A busy one may have read at full speed and multiplied at a tenth of it: that tenth is no limit of the machine."""
    by_dtype = {"f32": 2.5, "bf16": 40.0}
    keep(tmp_path, extra={**BUSY, "flops_per_s_by_dtype": by_dtype}, bytes_per_s=99.0)
    found = ask(tmp_path, START + 4000, flops_per_s_by_dtype={"f32": 20.0, "bf16": 30.0})
    assert (found.bytes_per_s, found.flops_per_s) == (99.0, 20.0)
    assert found.extra["flops_per_s_by_dtype"] == {"f32": 20.0, "bf16": 40.0}
    assert found.source == "fresh; higher when measured before: bytes_per_s, bf16"


def test_after_that_it_is_not_measured_again_for_as_long(tmp_path):
    """Not at the next call, nor within the hour where the machine is still busy; and no rate outlives its week."""
    keep(tmp_path, extra=BUSY, bytes_per_s=99.0)
    ask(tmp_path, START + 4000, load=1000.0)
    assert ask(tmp_path, START + 4001, bytes_per_s=7e9).bytes_per_s == 99.0
    for hour in range(2, 7 * 24 + 1):
        found = ask(tmp_path, START + hour * 4000.0, load=1000.0)
        assert found.bytes_per_s == (99.0 if hour * 4000.0 <= 7 * DAY_S else 10.0)


def test_a_cache_that_cannot_be_written_is_no_obstacle(tmp_path):
    (tmp_path / "file").write_text("")
    assert ask(tmp_path / "file").source == "fresh"


def test_the_cache_is_where_xdg_says(monkeypatch, tmp_path):
    monkeypatch.delenv("QWENPERF_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    ask(None)
    assert (tmp_path / "qwenperf" / "roofline" / "env.json").is_file()


def test_the_cache_is_where_our_own_variable_says(monkeypatch, tmp_path):
    monkeypatch.setenv("QWENPERF_CACHE", str(tmp_path / "mine"))
    ask(None)
    assert (tmp_path / "mine" / "roofline" / "env.json").is_file()


def test_a_dtype_that_was_not_measured_has_the_roofline_of_f32():
    assert product_rate(Roofline(bytes_per_s=1.0, flops_per_s=3.0), "bf16") == 3.0
