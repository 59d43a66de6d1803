import pytest

from qwenperf.errors import ConfigError
from qwenperf.gate.budget import parse
from qwenperf.gate.budget_set import Times

HERE = "cpu-x86_64-2core"
CASE = "4x128/cached/b1-p16-n40-f32"


def floor(table, case=CASE, environment=HERE):
    limit = parse(table).for_case(case, environment).limits.get("decode_tokens_per_s")
    return limit and limit.min


def at_least(value, **more):
    return {"decode_tokens_per_s": {"min": value}, **more}


def test_every_key_arrives():
    """One table with everything in it."""
    table = {
        "environment": "cpu-*",
        "decode_tokens_per_s": {"min": 900},
        "peak_rss_bytes": {"min": 1, "max": 2},
        "min_times": {"rung": "naive", "factor": 4},
        "min_roofline_share": 0.3,
    }
    budget = parse({"4x128/*": table}).for_case(CASE, HERE)
    assert set(budget.limits) == {"decode_tokens_per_s", "peak_rss_bytes"}
    assert budget.min_times == Times(rung="naive", factor=4.0)
    assert budget.min_roofline_share == 0.3


def test_a_case_that_no_glob_matches_has_no_budget():
    """Other cases' limits are not its own."""
    assert floor({"gpt2-size/*": at_least(5)}) is None


@pytest.mark.parametrize("reverse", [False, True])
def test_the_more_specific_glob_wins_in_any_order(reverse):
    """A default for all, an exception for one."""
    tables = [("*", at_least(1)), ("*/cached/*", at_least(2)), (CASE, at_least(3))]
    assert floor(dict(reversed(tables) if reverse else tables)) == 3


def test_of_equally_specific_globs_the_later_wins():
    """As in any file that is read from top to bottom."""
    assert floor({"4x128*": at_least(1), "*4x128*": at_least(2)}) == 2
    assert floor({"*4x128*": at_least(2), "4x128*": at_least(1)}) == 1


def test_a_list_of_tables_gives_each_environment_its_own():
    """The same cases have other numbers on other machines."""
    tables = {CASE: [at_least(900, environment="cpu-x86_64-*"), at_least(9000, environment="tpu-*")]}
    assert floor(tables) == 900
    assert floor(tables, environment="tpu-v5e-x4") == 9000
    outside = parse(tables).for_case(CASE, "gpu-h100-x1")
    assert not outside.limits
    assert "and this is 'gpu-h100-x1'" in outside.outside["decode_tokens_per_s"]


def test_counts_and_sizes_hold_on_other_machines_too():
    """A class is for what the clock says; a compiler's sizes are another platform's only where that differs."""
    table = {
        "environment": "cpu-x86_64-8core",
        "ttft_s": {"max": 1},
        "compiles_steady": {"max": 0},
        "kv_cache_allocated_bytes": {"max": 9},
        "temp_bytes": {"max": 9},
    }
    here = parse({"*": table}).for_case(CASE, HERE)
    assert set(here.limits) == {"compiles_steady", "kv_cache_allocated_bytes", "temp_bytes"}
    assert set(here.outside) == {"ttft_s"}
    assert set(parse({"*": table}).for_case(CASE, "tpu-v5e-x4").outside) == {"ttft_s", "temp_bytes"}


@pytest.mark.parametrize("reverse", [False, True])
def test_a_table_for_another_class_yields_to_one_for_this_in_any_order(reverse):
    """Counts, sizes and shares hold elsewhere too, and still no table for a CPU loosens what a GPU's table says."""

    def limit(metric, here, first, second):
        tables = [{"environment": glob, metric: {"max": most}} for glob, most in (first, second)]
        return parse({"m/*": tables[::-1] if reverse else tables}).for_case("m/a", here).limits[metric].max

    assert limit("compiles_cold", "gpu-nvidia-h100-x1", ("gpu-*", 3), ("cpu-*", 10)) == 3
    assert limit("temp_bytes", HERE, ("cpu-x86_64-2core", 3), ("cpu-x86_64-8core", 10)) == 3
    assert limit("compiles_cold", "tpu-v5e-x4", ("gpu-*", 3), ("cpu-*", 10)) == (3 if reverse else 10)


def test_what_is_for_all_classes_or_for_this_wins_over_another_class_also_with_a_shorter_glob():
    """And shares and multiples as limits do."""
    other = {"environment": "gpu-*", "compiles_cold": {"max": 9}, "min_roofline_share": 0.5}
    other["min_times"] = {"rung": "naive", "factor": 9}
    here = {"compiles_cold": {"max": 3}, "min_roofline_share": 0.1, "min_times": {"rung": "naive", "factor": 2}}
    budget = parse({"4x128/*": here, CASE: other}).for_case(CASE, HERE)
    assert (budget.limits["compiles_cold"].max, budget.min_roofline_share, budget.min_times.factor) == (3, 0.1, 2)


def test_a_glob_that_matches_no_case_is_a_finding():
    """A typing error in a glob would never be noticed otherwise."""
    budgets = parse({"4x128/cachd/*": at_least(1), "4x128/*": at_least(1)})
    (finding,) = budgets.unmatched([CASE])
    assert "'4x128/cachd/*' matches no case" in finding.message
    assert CASE in finding.advice


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"decode_tokens_per_sec": {"min": 1}}, "unknown key 'decode_tokens_per_sec'"),
        ({"decode_tokens_per_sec": {"min": 1}}, "Did you mean 'decode_tokens_per_s'?"),
        ({"min_time": {}}, "Did you mean 'min_times'?"),
        ({"tpot_s": {"maximum": 1}}, "unknown key 'maximum'"),
        ({"tpot_s": 3}, "tpot_s is 3, which is not a table"),
        ({"tpot_s": {}}, "tpot_s is empty"),
        ({"tpot_s": {"max": "3 ms"}}, "tpot_s.max is '3 ms', which is not a finite number"),
        ({"tpot_s": {"max": True}}, "tpot_s.max is True"),
        ({"tpot_s": {"max": float("nan")}}, "tpot_s.max is nan"),
        ({"tpot_s": {"max": 10**400}}, "which is not a finite number"),
        ({"tpot_s": {"min": 1}}, "tpot_s has only a min, and lower is better"),
        ({"decode_tokens_per_s": {"max": 1}}, "has only a max, and higher is better"),
        ({"tpot_s": {"min": 3, "max": 1}}, "has min 3 above max 1"),
        ({"min_times": {"factor": 2}}, "min_times has no `rung`"),
        ({"min_times": {"rung": "naive"}}, "min_times has no `factor`"),
        ({"min_times": {"rung": "naiv", "factor": 2}}, "Did you mean 'naive'?"),
        ({"min_times": {"rung": ["naive"], "factor": 2}}, "min_times.rung is ['naive']"),
        ({"min_times": {"rung": "naive", "factor": 0}}, "min_times.factor is 0, which is not above 0"),
        ({"min_times": {"rung": "naive", "factor": 2, "metric": "tpot"}}, "Did you mean 'tpot_s'?"),
        ({"min_roofline_share": 30}, "min_roofline_share is 30, which is not above 0 and at most 1"),
        ({"environment": 7}, "environment is 7"),
        (3, "is 3, which is not a table"),
        ([3], "is 3, which is not a table"),
    ],
)
def test_a_bad_budget_is_one_clear_line(table, message):
    """The table is named, and the nearest key offered."""
    with pytest.raises(ConfigError) as caught:
        parse({CASE: table})
    assert message in str(caught.value)
    assert f'[tool.qwenperf.budgets] "{CASE}"' in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_key_is_met_with_the_nearest_and_not_with_all():
    """A line of all metrics is read by nobody."""
    with pytest.raises(ConfigError, match=r"Did you mean 'decode_tokens_per_s'\? The nearest of \d+ known: ") as caught:
        parse({"*": {"decode_token_per_s": {"min": 1}}})
    assert len(str(caught.value)) < 300
