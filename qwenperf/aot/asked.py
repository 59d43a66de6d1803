"""What ``compile_for`` is asked for, refused before anything compiles where it makes no sense."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from numbers import Integral

import jax

from qwenperf.aot.topology import known_advice
from qwenperf.errors import UsageError


def check_targets(targets: object) -> None:
    """Refuse what is neither a name nor a list of names.

    Raises:
      UsageError: says what is known.
    """
    names = (targets,) if isinstance(targets, str) else targets
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise UsageError(f"targets {targets!r} is no name and no list of names.", advice=known_advice())


def check_counts(**counts: tuple[object, int]) -> None:
    """Refuse what is no whole number of at least so much: estimates would be of nothing.

    Raises:
      UsageError: names it.
    """
    for name, (value, least) in counts.items():
        if not _is_count(value, least):
            raise UsageError(f"{name} is {value!r}, and no whole number of at least {least}.")


def check_mesh(mesh: object) -> None:
    """Refuse a mesh that has no axes with sizes; ``None`` is no mesh.

    Raises:
      UsageError: says how one is written.
    """
    if mesh is None:
        return
    axes = mesh.items() if isinstance(mesh, Mapping) else ()
    if not axes or not all(isinstance(name, str) and _is_count(size, 1) for name, size in axes):
        raise UsageError(f"mesh {mesh!r} has no axes with sizes.", advice="Write mesh={'data': 2, 'tensor': 2}.")


def check_partial(function: object) -> None:
    """Refuse shapes that a partial of a function holds where nothing can take them out: they are no arrays.

    Raises:
      UsageError: says where they belong.
    """
    while isinstance(function, functools.partial):
        held = jax.tree.leaves((function.args, function.keywords))
        if any(isinstance(one, jax.ShapeDtypeStruct) for one in held):
            raise UsageError(
                "a functools.partial holds a jax.ShapeDtypeStruct, which is no array to compute with.",
                advice="Give shapes as arguments, after the function; or positional ones in a partial of jax.jit.",
            )
        function = function.func


def _is_count(value: object, least: int) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, Integral) and int(value) >= least
