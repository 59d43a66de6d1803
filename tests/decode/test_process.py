"""Settings of the process are checked by an engine that is built in one where JAX has started."""

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache

from qwenperf.decode.build import build_engine
from qwenperf.errors import ConfigError


def test_flags_of_another_platform_are_refused(model):
    """They would do nothing here, and the figures would carry their name."""
    with pytest.raises(
        ConfigError, match=r"xla_flags='gpu-triton-gemm' is for gpu, and this process runs on cpu\. For"
    ):
        build_engine(model, "cached+xla_flags=gpu-triton-gemm")


def test_flags_that_jax_was_not_started_with_are_refused(model, monkeypatch):
    """XLA has read its flags; now the engine would only be called so."""
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=false")
    with pytest.raises(
        ConfigError,
        match=r"needs --xla_cpu_multi_thread_eigen=false in XLA_FLAGS, which JAX reads once, when it starts",
    ):
        build_engine(model, "cached+xla_flags=cpu-single-thread")


def test_flags_that_the_process_has_are_taken(model, monkeypatch):
    """A process that was started with them builds the engine."""
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    assert build_engine(model, "cached+xla_flags=cpu-single-thread").name == "cached+xla_flags=cpu-single-thread"


def test_a_compile_cache_that_is_off_is_refused(model, tmp_path):
    """An engine cannot turn it on for the process; with a folder it is on."""
    with pytest.raises(ConfigError, match="persistent compilation cache is off in this process"):
        build_engine(model, "cached+compile_cache=true")
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    try:
        assert build_engine(model, "cached+compile_cache=true").settings.compile_cache
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
        compilation_cache.reset_cache()
