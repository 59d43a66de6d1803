"""A traced call as a jitted function again, whose arguments have the names that they had in somebody's code.

A compiler names what it is given by key paths, and so do donations, copies and findings: a program whose arguments were
numbered could not be compared with the next one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

_ROOT = re.compile(r"(?P<root>[A-Za-z_]\w*)(?P<rest>.*)")


@dataclass(frozen=True, kw_only=True)
class Taken:
    """One array that a call takes: its key path (``state['k'][0]``), its shape, and whether it is given up."""

    path: str
    shape: jax.ShapeDtypeStruct
    donated: bool


@dataclass(frozen=True)
class _Key:
    """One step of a key path that prints as all that is left of it."""

    text: str

    def __str__(self) -> str:
        return self.text


@jax.tree_util.register_pytree_with_keys_class
class _Argument:
    """Leaves of one argument; ``rests`` are their key paths below its name."""

    def __init__(self, rests: Sequence[str], leaves: Sequence[Any]) -> None:
        self.rests, self.leaves = tuple(rests), tuple(leaves)

    def tree_flatten_with_keys(self) -> tuple[tuple[tuple[_Key, Any], ...], tuple[str, ...]]:
        """Return the leaves with their keys, and what else makes the argument."""
        return tuple(zip(map(_Key, self.rests), self.leaves, strict=True)), self.rests

    @classmethod
    def tree_unflatten(cls, rests: tuple[str, ...], leaves: Sequence[Any]) -> _Argument:
        """Return the argument of ``leaves``."""
        return cls(rests, leaves)


def named_call(name: str, program: ClosedJaxpr, taken: Sequence[Taken]) -> tuple[Any, tuple[Any, ...]]:
    """Return ``program`` as a jitted function called ``name``, and the shapes to lower it for."""
    groups = list(_groups(taken))

    def call(*arguments: _Argument) -> list[Any]:
        leaves: list[Any] = [None] * len(taken)
        for (_, numbers), argument in zip(groups, arguments, strict=True):
            for number, leaf in zip(numbers, argument.leaves, strict=True):
                leaves[number] = leaf
        return jaxpr_as_fun(program)(*leaves)  # type: ignore[no-any-return]

    kind = Parameter.POSITIONAL_ONLY
    call.__name__ = call.__qualname__ = name
    call.__signature__ = Signature([Parameter(root, kind) for root, _ in groups])  # type: ignore[attr-defined]
    donated = tuple(at for at, (_, numbers) in enumerate(groups) if taken[numbers[0]].donated)
    shapes = tuple(
        _Argument([_split(taken[one].path)[1] for one in numbers], [taken[one].shape for one in numbers])
        for _, numbers in groups
    )
    return jax.jit(call, donate_argnums=donated), shapes


def _groups(taken: Sequence[Taken]) -> Iterator[tuple[str, list[int]]]:
    """Yield each argument's name with the numbers of its arrays: all of them are given up, or none."""
    found: dict[tuple[str, bool], list[int]] = {}
    for number, one in enumerate(taken):
        found.setdefault((_split(one.path)[0], one.donated), []).append(number)
    used: set[str] = set()
    for (root, _), numbers in found.items():
        # Of what is half given up, such as *args, both halves have the name; a parameter's is its own.
        name = next(one for one in (root, *(f"{root}_{number}" for number in numbers)) if one not in used)
        used.add(name)
        yield name, numbers


def _split(path: str) -> tuple[str, str]:
    """Return the name of the argument, and the rest of a key path."""
    match = _ROOT.fullmatch(path)
    return (match["root"], match["rest"]) if match else ("argument", f"[{path!r}]")
