import importlib
import importlib.util
import os
import re
import subprocess
import sys
import tomllib

import pytest

from qwenperf.gate.budget import parse
from qwenperf.gate.evaluate import GATES
from qwenperf.schema.metrics import REGISTRY
from qwenperf.workloads.claims import CLAIMS
from qwenperf.workloads.setting import SETTINGS

NAMES = (
    "docs/metrics.md",
    "docs/cli.md",
    "docs/ladder.md",
    "qwenperf/schema/run.v1.json",
    "qwenperf/schema/comparison.v1.json",
    "qwenperf/schema/aot.v1.json",
    "qwenperf/schema/bisection.v1.json",
    "qwenperf/schema/regressions.v1.json",
    "qwenperf/schema/upgrade.v1.json",
)


@pytest.fixture(scope="module")
def generator(repository):
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("generate_docs", repository / "tools" / "generate_docs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def stale(repository):
    """The files that are out of date, as a process of its own finds them: other tests add to this one's lists."""
    environ = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ} | {"JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "tools/generate_docs.py", "--check", *NAMES]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, env=environ, check=False)
    found = set(re.findall(r"^(\S+) is out of date", done.stdout, re.MULTILINE))
    assert done.returncode == bool(found), done.stdout + done.stderr
    return found


@pytest.mark.parametrize("name", NAMES)
def test_generated_files_are_current(stale, name):
    """`python tools/generate_docs.py` was run after the last change."""
    assert name not in stale


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


def test_the_ladder_s_page_has_every_setting_and_claim(generator):
    """Also one that was added a minute ago."""
    page = generator.ladder_page()
    for name in SETTINGS:
        assert f"| `{name}` |" in page
    for claim in CLAIMS:
        assert claim.said in page


OLD_NAMES = (
    "initialize_cache",
    "update_cache",
    "get_cached_kv",
    "generate_text_with_cache",
    "model.apply(..., kv_caches, position_offset)",
)


def test_old_names_lead_to_ours_that_exist(repository):
    """Each row of the table names things that can be imported."""
    page = (repository / "docs" / "ladder.md").read_text("utf-8").split("## Old names")[1]
    for name in OLD_NAMES:
        assert f"| `{name}` |" in page
    for path in re.findall(r"`(qwenperf\.[\w.]+)`", page):
        module, _, name = path.rpartition(".")
        owner = importlib.import_module(module) if importlib.util.find_spec(module) else None
        assert hasattr(owner, name), path


def test_mistakes_name_gates_that_exist(repository):
    """What the page says qwenperf says of them is said by a gate of that name."""
    page = (repository / "docs" / "mistakes.md").read_text("utf-8")
    named = set(re.findall(r"gate `([\w-]+)`", page))
    assert named
    assert named <= set(GATES) | {"carry-alias"}
