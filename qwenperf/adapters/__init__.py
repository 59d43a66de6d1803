"""Other people's engines as engines: a function, a pair of steps, a Flax model."""

from qwenperf.adapters.build import as_engine
from qwenperf.adapters.callable import CallableEngine
from qwenperf.adapters.flax import FlaxState, flax_engine
from qwenperf.adapters.steps import StepsEngine, prefix_logits

__all__ = ["CallableEngine", "FlaxState", "StepsEngine", "as_engine", "flax_engine", "prefix_logits"]
