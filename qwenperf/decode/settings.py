"""What sets one engine apart from another: which of the known optimisations it has. Data only."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args, get_type_hints

from qwenperf.errors import ConfigError, UnknownNameError

CacheKind = Literal["none", "concat", "static"]
ShapeKind = Literal["growing", "padded"]
RotaryKind = Literal["recomputed", "tables"]
LoopKind = Literal["host", "device"]


@dataclass(frozen=True, kw_only=True)
class EngineSettings:
    """A set of optimisations.

    Attributes:
      jit: programs are compiled; otherwise every operation is dispatched by itself.
      cache: ``none`` (the whole sequence in each step), ``concat`` (keys and values grow by concatenation) or
        ``static`` (allocated once, updated in place).
      shape: ``growing`` with the sequence, or ``padded`` to the capacity, so that one program fits every step.
      rotary: sines and cosines ``recomputed`` in each layer of each step, or read from ``tables``.
      loop: one dispatch a token from the ``host``, or the whole loop in one program on the ``device``.
      donate: a step gives up the state that it was given, so that the cache is updated where it lies.
    """

    jit: bool = True
    cache: CacheKind = "static"
    shape: ShapeKind = "padded"
    rotary: RotaryKind = "tables"
    loop: LoopKind = "host"
    donate: bool = True

    def __post_init__(self) -> None:
        """Refuse what cannot be built.

        Raises:
          UnknownNameError: a value that its field does not have.
          ConfigError: settings that exclude each other; names both.
        """
        for name, hint in get_type_hints(type(self)).items():
            if get_args(hint) and getattr(self, name) not in get_args(hint):
                raise UnknownNameError(f"engine setting {name}", str(getattr(self, name)), get_args(hint))
        if self.cache != "none" and (self.cache == "concat") != (self.shape == "growing"):
            raise ConfigError(f"engine settings: cache={self.cache!r} cannot have shape={self.shape!r}.")
        if self.shape == "growing" and (self.loop == "device" or self.donate):
            given = "loop='device'" if self.loop == "device" else "donate=True"
            raise ConfigError(f"engine settings: {given} needs shape='padded': a growing state has no place to stay.")
        if not self.jit and (self.loop == "device" or self.donate):
            given = "loop='device'" if self.loop == "device" else "donate=True"
            raise ConfigError(f"engine settings: {given} needs jit=True.")

    @property
    def ahead_of_time(self) -> bool:
        """Whether programs are compiled before they are called, and refuse other shapes."""
        return self.jit and self.shape == "padded"

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain data."""
        return asdict(self)
