"""Budgets of compiled programs stand among the others, and a typing error in one is found."""

import tomllib
from pathlib import Path

import pytest

from qwenperf.aot.ids import PROGRAMS
from qwenperf.errors import ConfigError
from qwenperf.gate import aot_budget, budget
from qwenperf.gate.aot_facts import FACTS

STEP = "qwen2.5-0.5b/cached/b1-p512-n64-bf16@v7x-4/decode_step"


def test_a_glob_with_an_at_sign_is_of_compiled_programs_and_of_nothing_else():
    """A run does not look for the case of a budget of programs, and the other way round."""
    tables = {"*@v7x-*": {"temp_bytes": {"max": 1e6}}, "4x128/*": {"compiles_steady": {"max": 0}}}
    assert [one.pattern for one in budget.parse(tables).budgets] == ["4x128/*"]
    assert [one.pattern for one in aot_budget.parse(tables, "x").budgets] == ["*@v7x-*"]


def test_the_table_with_more_literal_characters_wins_limit_by_limit():
    """A general budget holds for what the special one does not say."""
    tables = {
        "*/cached/*@v7x-4/*": {"temp_bytes": {"max": 2.0}},
        "*@*": {"temp_bytes": {"max": 1.0}, "relayouts": {"max": 0}, "kernels": ["*flash*"], "fits": False},
    }
    found = aot_budget.parse(tables, "x").for_program(STEP)
    assert {name: one.max for name, one in found.limits.items()} == {"temp_bytes": 2.0, "relayouts": 0.0}
    assert (found.kernels, found.fits) == (("*flash*",), False)


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"temp_byte": {"max": 1}}, "temp_bytes"),
        ({"temp_bytes": {"min": 1}}, "lower is better"),
        ({"longest_context": {"max": 1}}, "higher is better"),
        ({"temp_bytes": {}}, "empty"),
        ({"temp_bytes": 7}, "not a table"),
        ({"relayouts": {"max": float("inf")}}, "finite"),
        ({"kernels": "flash"}, "list of globs"),
        ({"fits": 1}, "true or false"),
        ({"decode_tokens_per_s": {"min": 1}}, "unknown key"),
        ([{"temp_bytes": {"max": 1}}], "not a table"),
    ],
)
def test_what_is_no_budget_is_refused_with_the_table_and_the_reason(table, told):
    """Also ``qwenperf run``, which does not judge programs, says that their budgets are wrong."""
    for read in (budget.parse, lambda tables: aot_budget.parse(tables, "x")):
        with pytest.raises(ConfigError, match=r'"\*@v5e-1"') as error:
            read({"*@v5e-1": table})
        assert told in str(error.value)


def test_the_page_names_every_fact():
    """Nobody looks for a budget in the code."""
    page = (Path(__file__).parents[2] / "docs" / "aot.md").read_text(encoding="utf-8")
    assert [name for name in (*FACTS, *aot_budget.KEYS) if f"`{name}`" not in page and f"{name} = " not in page] == []


def test_a_glob_that_matches_no_program_is_told():
    """A budget that judges nothing is no budget."""
    found = aot_budget.parse({"*@v7x-*": {"fits": True}, "*@v9-*": {"fits": True}}, "x")
    assert found.unmatched([STEP]) == ("*@v9-*",)


def test_each_program_that_we_compile_for_a_target_has_a_table_of_its_own(repository):
    """A limit that holds for all chips would be that of the worst one."""
    (recipe,) = [line for line in (repository / "Makefile").read_text().splitlines() if "aot.toml" in line]
    tables = tomllib.loads((repository / "benchmarks" / "aot.toml").read_text())["tool"]["qwenperf"]["budgets"]
    own = {pattern.rpartition("@")[2]: table for pattern, table in tables.items()}
    wanted = {f"{target}/{program}" for target in recipe.rpartition("--target ")[2].split(",") for program in PROGRAMS}
    assert own.keys() == wanted | {"*"}
    assert all(own[name].keys() >= {"hbm_bytes", "temp_bytes", "relayout_bytes"} for name in wanted)
