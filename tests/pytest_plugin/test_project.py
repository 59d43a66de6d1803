import pytest

from qwenperf.errors import ConfigError
from qwenperf.pytest_plugin.project import budgets_for


@pytest.mark.parametrize("glob", ["test_x.py::test[[]a]/mine/*", "test_x.py::test[a]/mine/*", "*::test[[]?]/mine/b1"])
def test_budgets_of_the_project_hold_and_those_of_the_marker_win(tmp_path, glob):
    """Globs of the file are matched against the id in the record, brackets and all; no longer one beats the marker."""
    (tmp_path / "pyproject.toml").write_text(
        f"[tool.qwenperf.budgets.'{glob}']\ncompiles_cold.max = 3\npeak_bytes.max = 7\n"
        "[tool.qwenperf.budgets.'other/*']\ncompile_s.max = 1\n"
    )
    case_id = "test_x.py::test[a]/mine/b1"
    limits = budgets_for(case_id, {"compiles_cold": {"max": 5}}, tmp_path).for_case(case_id, "").limits
    assert {name: limit.max for name, limit in limits.items()} == {"compiles_cold": 5, "peak_bytes": 7}
    assert budgets_for(case_id, {}, tmp_path / "none").budgets == ()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[tool.qwenperf.budgets.'*']\npeek_bytes.max = 1", r"'peek_bytes' in .*pyproject.toml .* mean 'peak_bytes'"),
        ("[tool.qwenperf]\nbudgets = 3", r"pyproject.toml: budgets of .* is not a table"),
        ("[tool", r"cannot read .*pyproject.toml"),
    ],
)
def test_a_bad_budget_of_the_project_is_named(tmp_path, text, told):
    """The file, the key and the nearest one, as on the command line."""
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(ConfigError, match=told):
        budgets_for("mine", {}, tmp_path)
