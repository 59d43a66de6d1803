from types import SimpleNamespace

import pytest

from qwenperf.pytest_plugin.marks import read_marks


def test_a_test_s_own_budgets_leave_those_of_its_module_in_force():
    """The closest limit of each metric wins; a module's limit of another metric still holds."""
    module = pytest.mark.qwenperf(trials=3, budgets={"peak_bytes": {"max": 9}, "compiles_cold": {"max": 1}}).mark
    own = pytest.mark.qwenperf(budgets={"compiles_cold": {"max": 2}}).mark
    marks = read_marks(SimpleNamespace(iter_markers=lambda _: [own, module]), inconclusive="warn")
    assert marks.budgets == {"peak_bytes": {"max": 9}, "compiles_cold": {"max": 2}}
    assert marks.trials == 3
