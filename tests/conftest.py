"""What every test runs under: the CPU, strict promotion, checked shapes, and a marker for timed tests."""

import gc
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

import pytest
from jaxtyping import install_import_hook

# Before anything imports JAX: probing for an accelerator takes seconds, and a silent promotion is a bug.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_NUMPY_RANK_PROMOTION", "raise")
os.environ.setdefault("JAX_NUMPY_DTYPE_PROMOTION", "strict")

# Their signatures carry shapes. The loop's carry protocols, which are the type checker's business; configurations are
# given wrong values on purpose, and must refuse them themselves.
CHECKED = (
    "qwenperf.models.attention",
    "qwenperf.models.decoder",
    "qwenperf.models.gpt2",
    "qwenperf.models.layers",
    "qwenperf.models.llama",
    "qwenperf.models.loss",
    "qwenperf.models.modules",
    "qwenperf.models.perplexity",
    "qwenperf.models.quantize",
    "qwenperf.models.quantized_product",
    "qwenperf.models.qwen2",
    "qwenperf.models.qwen3",
    "qwenperf.models.rotary",
    "qwenperf.decode.cache",
    "qwenperf.decode.perplexity",
    "qwenperf.decode.state",
    "qwenperf.decode.step",
    "qwenperf.decode.uncached",
)
PERF = Path(__file__).parent / "perf"
QUICK = "--xla_backend_optimization_level=0"
"""Machine code of hundreds of programs is made once and run once: better made quickly than well."""
PLAIN = "--xla_cpu_use_fusion_emitters=false"
"""Takes two thirds off a compile: fewer fusions, the same operations, buffers that are given up, and aliases.

A process ends over a flag that it does not know, and JAX of Python 3.12 and later knows this one no more.
"""
WHOLE = "--xla_cpu_parallel_codegen_split_count=1"
"""Takes a third off what is left: a program that is cut into parts for several cores is compiled part by part."""


def pytest_configure(config: pytest.Config) -> None:
    """Check shapes by jaxtyping in every test but the timed ones, which run what a user runs."""
    chosen = config.getoption("markexpr")
    if chosen != "perf":
        install_import_hook(CHECKED, "beartype.beartype")
        measure_beside_others(config)
    # A shell's background job starts with Ctrl-C switched off, and tests that interrupt would wait for ever.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # The first process of a parallel run only hands out tests.
    hands_out = config.getoption("numprocesses", None) and not hasattr(config, "workerinput")
    if "not slow" in chosen and not hands_out:
        compile_quickly()
    if not hands_out:
        gc.disable()


def pytest_collection_finish() -> None:
    """Spare the collector of garbage what all tests keep, which it would look through again and again."""
    gc.collect()
    gc.freeze()
    gc.enable()


def measure_beside_others(config: pytest.Config) -> None:
    """Give this process a lock on measuring of its own: workers side by side measure, and nobody believes the times."""
    folder = tempfile.TemporaryDirectory(prefix="qwenperf-lock-")
    os.environ["QWENPERF_LOCK"] = folder.name
    config.add_cleanup(folder.cleanup)


def compile_quickly() -> None:
    """Start JAX in this process, and in no child that does not ask for it, with flags of our own: XLA reads them once.

    What is asked about flags, environments and saved programs is asked of the environment, which stays as it was.
    """
    before = os.environ.get("XLA_FLAGS")
    os.environ["XLA_FLAGS"] = quick_flags()
    import jax

    jax.devices()
    if before is None:
        del os.environ["XLA_FLAGS"]
    else:
        os.environ["XLA_FLAGS"] = before


def quick_flags() -> str:
    """Return the flags of the environment and ours."""
    ours = (QUICK, PLAIN, WHOLE) if version("jaxlib").startswith("0.10.") else (QUICK,)
    return " ".join(filter(None, (os.environ.get("XLA_FLAGS"), *ours)))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything in tests/perf as timed, before ``-m`` chooses."""
    for item in items:
        if PERF in item.path.parents:
            item.add_marker(pytest.mark.perf)


@pytest.fixture(autouse=True)
def sessions_inside_stand_alone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a pytest session inside a test time things although this one may be a worker among others."""
    if "pytester" in request.fixturenames:
        monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)


MEASURES = """
import os, sys
from qwenperf.measure.measuring_lock import HANDED_DOWN, one_measurement
with one_measurement():
    print(os.environ[HANDED_DOWN], flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def measure_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Start processes that measure, one line on stdout once they do, until one comes in."""
    command = tmp_path / "qwenperf"
    command.write_text(MEASURES)
    (tmp_path / "lock").mkdir()
    monkeypatch.setenv("QWENPERF_LOCK", str(tmp_path / "lock"))
    started: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        words, pipe = [sys.executable, str(command), "compare", "main"], subprocess.PIPE
        started.append(subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True))
        return started[-1]

    yield start
    for process in started:
        with process:
            process.kill()


@pytest.fixture
def measured_beside(
    measure_apart: Callable[[], subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> subprocess.Popen[str]:
    """Another process that measures on this machine now; this one may not wait for it."""
    process = measure_apart()
    process.stdout.readline()
    monkeypatch.setenv("QWENPERF_LOCK_WAIT", "0")
    return process


@pytest.fixture(scope="session")
def compiles_quickly() -> dict[str, str]:
    """The environment of a child that compiles, where no more is asked than that it does."""
    return {"XLA_FLAGS": quick_flags()}


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return Path(__file__).parent.parent


@pytest.fixture(scope="session")
def weights_absent() -> Callable[[str], NoReturn]:
    """What a test calls that cannot have the real weights, with the reason.

    A skip on a machine without a network, a failure in CI, where a silent skip would prove nothing for years.
    """

    def absent(reason: str) -> NoReturn:
        if os.environ.get("CI", "").lower() in {"1", "true"}:
            pytest.fail(f"no real weights, and CI is set: {reason}")
        pytest.skip(f"no real weights: {reason}")

    return absent
