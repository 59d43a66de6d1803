import importlib.util
import tomllib

import pytest

from qwenperf.gate.budget import parse
from qwenperf.gate.evaluate import GATES
from qwenperf.schema.metrics import REGISTRY

NAMES = ("docs/metrics.md", "docs/cli.md", "qwenperf/schema/run.v1.json", "qwenperf/schema/comparison.v1.json")


@pytest.fixture(scope="module")
def generator(repository):
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("generate_docs", repository / "tools" / "generate_docs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", NAMES)
def test_generated_files_are_current(generator, name):
    """`python tools/generate_docs.py` was run after the last change."""
    assert generator.main(["--check", name]) == 0


def test_every_generated_file_is_checked(generator):
    """A new one is added to this test."""
    assert tuple(generator.FILES) == NAMES


def test_check_names_what_is_out_of_date_and_writes_nothing(generator, tmp_path, monkeypatch, capsys):
    """A file that was not made counts as out of date."""
    monkeypatch.setattr(generator, "ROOT", tmp_path)
    assert generator.main(["--check", "docs/metrics.md"]) == 1
    assert "docs/metrics.md is out of date" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_every_metric_is_documented_with_its_formula(generator):
    """The table has one row a metric."""
    page = generator.metrics_page()
    for definition in REGISTRY.values():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{definition.name}` |"))
        assert definition.formula.replace("|", r"\|") in row


def test_the_gates_page_names_every_gate_and_its_example_parses(repository):
    """What is shown can be pasted."""
    page = (repository / "docs" / "gates.md").read_text("utf-8")
    for gate in GATES:
        assert f"| `{gate}` |" in page
    example = tomllib.loads(page.split("```toml\n")[1].split("```")[0])
    budget = parse(example["tool"]["qwenperf"]["budgets"]).for_case("4x128/cached/x", "cpu-x86_64-2core")
    assert set(budget.limits) == {"decode_tokens_per_s", "temp_bytes"}
    assert budget.min_times.rung == "naive"
