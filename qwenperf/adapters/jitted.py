"""A function that is called again and again and hands state on to itself: which arguments, and in which program.

Knows nothing of tokens and models: a training step, a decode step and a simulation are the same to it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax

from qwenperf.adapters.programs import hlo_shape, parameters, program_of, same_structure
from qwenperf.decode.engine import Program
from qwenperf.errors import UsageError, nearest_advice

Carry = int | Mapping[str, int]
"""How many arguments in front are carried, in the order of the results; or by name, with the place in the result."""

Arguments = tuple[Any, ...]


@dataclass(frozen=True, kw_only=True)
class CarriedStep:
    """``carried`` has the name, the position among the arguments and the place in the result of what is handed on."""

    name: str
    function: Callable[..., Any]
    carried: tuple[tuple[str, int, int], ...]

    def arguments(self, state: Arguments, rest: Arguments) -> Arguments:
        """Return all arguments: ``state`` at the carried positions, ``rest`` in order at the others."""
        carried = {position: value for (_, position, _), value in zip(self.carried, state, strict=True)}
        others = iter(rest)
        count = len(state) + len(rest)
        return tuple(carried[at] if at in carried else next(others) for at in range(count))

    def split(self, args: Arguments) -> tuple[Arguments, Arguments]:
        """Return the carried arguments and the others; undoes ``arguments``."""
        positions = [position for _, position, _ in self.carried]
        rest = tuple(value for at, value in enumerate(args) if at not in positions)
        return tuple(args[position] for position in positions if position < len(args)), rest

    def handed_on(self, state: Arguments, result: Any) -> Arguments:
        """Return the carried arguments of the next call. One carried argument may be the whole result.

        Raises:
          UsageError: the result has no such place.
        """
        if len(state) == 1 and same_structure(result, state[0]):
            return (result,)
        last = max(place for _, _, place in self.carried)
        if not isinstance(result, tuple | list) or len(result) <= last:
            sized = isinstance(result, tuple | list)
            seen = f"{len(result)} values" if sized else f"a {type(result).__name__}"
            names = ", ".join(name for name, _, _ in self.carried)
            raise UsageError(
                f"{self.name} returned {seen}; the next {names} cannot be found in it.",
                advice="Say where it is: carry={'state': 1} for the second value of the result.",
            )
        return tuple(result[place] for _, _, place in self.carried)

    def program(self, args: Arguments) -> Program | None:
        """Return the compiled program for ``args``; ``None`` where the function itself is not jitted."""
        return program_of(self.name, self.function, *args, state=())

    def undonated(self, args: Arguments, program: Program) -> tuple[str, ...]:
        """Name the carried arrays that are not donated, with their shapes: ``state.params['w'] f32[8,8]``."""
        return tuple(
            f"{path} {hlo_shape(leaf)}" for path, leaf in self._arrays(args) if path not in set(program.donated)
        )

    def carried_bytes(self, args: Arguments) -> int:
        """Return the size of all carried arrays."""
        return sum(int(leaf.nbytes) for _, leaf in self._arrays(args))

    def _arrays(self, args: Arguments) -> list[tuple[str, Any]]:
        return [
            (f"{name}{jax.tree_util.keystr(path)}", leaf)
            for name, position, _ in self.carried
            for path, leaf in jax.tree_util.tree_flatten_with_path(args[position])[0]
            if isinstance(leaf, jax.Array)
        ]


def carried_step(function: Any, carry: Carry = 1, name: str = "") -> CarriedStep:
    """Return ``function`` as a step that carries what ``carry`` says.

    Raises:
      UsageError: no function, no such argument, or nothing that is carried.
    """
    if not callable(function):
        raise UsageError(f"{function!r} is no function that can be called as a step.")
    called = name or getattr(function, "__name__", "") or type(function).__name__
    names = _parameters(function)
    if isinstance(carry, Mapping):
        unknown = next((one for one in carry if one not in names), None)
        if unknown is not None:
            raise UsageError(f"{called} has no argument {unknown!r} to carry.", advice=nearest_advice(unknown, names))
        carried = tuple((one, names.index(one), place) for one, place in carry.items())
    elif type(carry) is int:
        carried = tuple((one, at, at) for at, one in enumerate(_first(function, max(carry, 0))))
    else:
        carried = ()
    if not carried or not all(type(place) is int and place >= 0 for _, _, place in carried):
        raise UsageError(f"carry={carry!r} names nothing.", advice="Give a number of arguments, or {'state': 0}.")
    return CarriedStep(name=called, function=function, carried=carried)


def _parameters(function: Callable[..., Any]) -> list[str]:
    """Return the names that stand for one argument each, by position."""
    try:
        known = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [one.name for one in known if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]


def _first(function: Callable[..., Any], count: int) -> list[str]:
    try:
        return parameters(function, count)
    except (TypeError, ValueError):
        return [f"args[{at}]" for at in range(count)]
