"""What people copy from the examples and from docs/pytest.md works."""

import re
import shutil

import pytest

from qwenperf.pytest_plugin.project import budgets_for


@pytest.mark.slow
def test_the_examples_pass(pytester, repository):
    """What people copy works; the timed ones are left to a quiet machine."""
    shutil.copytree(repository / "examples", pytester.path / "examples")
    result = pytester.runpytest_inprocess("examples", "-W", "ignore::pytest.PytestUnknownMarkWarning", "-m", "not perf")
    result.assert_outcomes(passed=7, deselected=4)


def test_the_documented_tests_pass(pytester, repository):
    """Every block of docs/pytest.md is a file, and runs."""
    text = (repository / "docs" / "pytest.md").read_text()
    blocks = re.findall(r"^```python title=(\S+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == text.count("```python")
    (project,) = re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    for name, code in [*blocks, ("pyproject.toml", project)]:
        (pytester.path / name).write_text(code)
    case_id = "test_gates.py::test_every_gate/decode_step/b1-p5-n16-f32"
    assert budgets_for(case_id, {}, pytester.path).for_case(case_id, "").limits.keys() == {"compiles_steady"}
    pytester.syspathinsert()
    pytester.runpytest_inprocess("-W", "ignore::qwenperf.pytest_plugin.InconclusiveWarning").assert_outcomes(passed=7)
