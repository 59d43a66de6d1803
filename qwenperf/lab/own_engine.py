"""Makes somebody's own engine from its factory, so that the command measures it as one of ours."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from qwenperf.adapters import as_engine
from qwenperf.decode.engine import Engine
from qwenperf.errors import QwenperfError, UsageError
from qwenperf.models.registry import Model
from qwenperf.workloads.factory import factory_parts

_SIGNATURE = "It is called as factory(model, capacity), the loaded model and the positions that a request needs."


def own_engine(name: str, model: Model, capacity: int) -> Engine:
    """Return what ``name`` (``package.module:factory``) makes of ``model``, as an engine; see ``adapters.as_engine``.

    Its tokens are compared where it has ``uncached_logits``: only it knows which model it runs.

    Raises:
      ConfigError: ``name`` is no such name.
      UsageError: no such module or function, one that raises, or what it returns is no engine.
    """
    factory = _find(name)
    try:
        made = factory(model, capacity)
    except QwenperfError:
        raise
    except Exception as error:
        raise UsageError(f"{name} raised {type(error).__name__}: {error}", advice=_SIGNATURE) from error
    return as_engine(made, name=name)


def _find(name: str) -> Callable[..., Any]:
    module_name, function = factory_parts(name)
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        advice = "Install it, or name its folder in PYTHONPATH: the working folder is not searched."
        raise UsageError(f"engine {name}: {error}.", advice=advice) from error
    found = getattr(module, function, None)
    if not callable(found):
        seen = "is not there" if found is None else f"is {type(found).__name__}, which cannot be called"
        raise UsageError(f"engine {name}: {function} {seen} in {module.__file__}.", advice=_SIGNATURE)
    return found  # type: ignore[no-any-return]  # callable() was asked
