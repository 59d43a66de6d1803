"""How the forward pass is written: variants of one and the same function, which compile to different programs.

Static data that is bound before anything is traced. What the weights themselves hold (fused, stacked or quantised
matrices) is no variant: the layers see it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from qwenperf.models.taps import UNTOUCHED, Tap
from qwenperf.workloads.engine import EngineSettings


@dataclass(frozen=True, kw_only=True)
class Variant:
    """The settings of ``workloads.setting`` that the forward pass reads, by the same names.

    ``tap`` is no setting: it is where hooks are bound (see ``taps``).
    """

    rotary: str = "tables"
    contraction: str = "dot_general"
    rows: int = 1
    fusion: str = "xla"
    precision: str = "default"
    softmax: str = "f32"
    attention: str = "grouped"
    mask: str = "computed"
    window: int = 0
    key_block: int = 0
    cache_layout: str = "head-major"
    activations: str = "native"
    tap: Tap = UNTOUCHED


PLAIN = Variant()


def variant_of(settings: EngineSettings) -> Variant:
    """Return what of an engine's settings the forward pass reads."""
    names = [field.name for field in fields(Variant) if field.name != "tap"]
    return Variant(**{name: getattr(settings, name) for name in names})
