"""Makes somebody's own engine from its factory, so that the command measures it as one of ours."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
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
    factory = find_factory(name)
    try:
        made = factory(model, capacity)
    except QwenperfError:
        raise
    except Exception as error:
        raise UsageError(f"{name} raised {_in_a_line(error)}", advice=_SIGNATURE) from error
    return as_engine(made, name=name)


def find_factory(name: str) -> Callable[..., Any]:
    """Return the function that ``name`` names, whose module is imported; errors as ``own_engine``."""
    module_name, function = factory_parts(name)
    module = _import(name, module_name)
    found = getattr(module, function, None)
    if not callable(found):
        seen = "is not there" if found is None else f"is {type(found).__name__}, which cannot be called"
        # A module that is built in has no file, a folder without __init__.py has None.
        place = getattr(module, "__file__", None) or f"module {module_name}"
        raise UsageError(f"engine {name}: {function} {seen} in {place}.", advice=_SIGNATURE)
    return found  # type: ignore[no-any-return]  # callable() was asked


def _import(name: str, module_name: str) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except QwenperfError:
        raise
    except ImportError as error:
        advice = "Install it, start the command in the folder that holds it, or name that in PYTHONPATH."
        raise UsageError(f"engine {name}: {' '.join(str(error).split())}.", advice=advice) from error
    except (Exception, SystemExit) as error:  # somebody's script: anything may happen in it
        told = f"engine {name}: importing {module_name} raised {_in_a_line(error)}."
        raise UsageError(told, advice="Import it in Python to see where.") from error


def _in_a_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
