"""What importing a room loads, and what it can do without."""

import pkgutil
import subprocess
import sys
import tomllib

import pytest

import qwenperf


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def rooms_below_the_line(repository) -> list[str]:
    """The layers contract is the one list of rooms; this is the one that says which of them know no JAX."""
    contracts = tomllib.loads((repository / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return next(contract["source_modules"] for contract in contracts if contract["name"] == "No JAX below the line")


def modules_of(rooms: list[str]) -> list[str]:
    names = [module.name for module in pkgutil.walk_packages(qwenperf.__path__, "qwenperf.")]
    return [name for name in names if any(name == room or name.startswith(f"{room}.") for room in rooms)]


def test_everything_below_the_line_imports_without_jax(repository):
    """Gates, reports and records work on a machine where JAX is not installed."""
    modules = modules_of(rooms_below_the_line(repository))
    assert "qwenperf.schema.records" in modules
    assert "qwenperf.units" in modules
    done = run_python(
        "import importlib, sys\n"
        "for name in ('jax', 'jaxlib', 'flax'): sys.modules[name] = None\n"
        f"for name in {modules!r}: importlib.import_module(name)"
    )
    assert done.returncode == 0, done.stderr


def test_importing_the_package_loads_nothing_heavy():
    """``import qwenperf`` costs no JAX, no Flax, no numpy and no command line."""
    done = run_python(
        "import sys, qwenperf\n"
        "print(*sorted({'jax', 'jaxlib', 'flax', 'numpy', 'click', 'rich', 'tokenizers'} & sys.modules.keys()))"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


@pytest.mark.parametrize("module", ["qwenperf.cli", "qwenperf.pytest_plugin", "benchmarks.suite.ladder"])
def test_edges_start_without_jax(module, repository):
    """Help, test collection and benchmark listing wait for no JAX."""
    done = run_python(
        f"import sys; sys.path.insert(0, {str(repository)!r}); import {module}; "
        "print(*sorted({'jax', 'jaxlib', 'flax'} & sys.modules.keys()))"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_a_blocked_import_would_be_noticed():
    """The block above really blocks."""
    done = run_python("import sys; sys.modules['jax'] = None; import jax")
    assert done.returncode != 0
    assert "ModuleNotFoundError" in done.stderr
