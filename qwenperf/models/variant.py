"""How the forward pass is written: variants of one and the same function, which compile to different programs.

Static data that is bound before anything is traced. What the weights themselves hold (fused, stacked or quantised
matrices) is no variant: the layers see it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from qwenperf.models.taps import UNTOUCHED, Tap
from qwenperf.workloads.engine import EngineSettings

_PLAIN = EngineSettings()


@dataclass(frozen=True, kw_only=True)
class Variant:
    """The settings of ``EngineSettings`` that the forward pass reads, by the same names and with the same defaults.

    ``tap`` is no setting: it is where hooks are bound (see ``taps``).
    """

    rotary: str = _PLAIN.rotary
    contraction: str = _PLAIN.contraction
    rows: int = _PLAIN.rows
    fusion: str = _PLAIN.fusion
    precision: str = _PLAIN.precision
    softmax: str = _PLAIN.softmax
    attention: str = _PLAIN.attention
    mask: str = _PLAIN.mask
    window: int = _PLAIN.window
    key_block: int = _PLAIN.key_block
    cache_layout: str = _PLAIN.cache_layout
    activations: str = _PLAIN.activations
    tap: Tap = UNTOUCHED


PLAIN = Variant()


def variant_of(settings: EngineSettings) -> Variant:
    """Return what of an engine's settings the forward pass reads."""
    names = [field.name for field in fields(Variant) if field.name != "tap"]
    return Variant(**{name: getattr(settings, name) for name in names})
