"""What an engine makes once and hands to every step: rotary tables, and the table of masks where it has one."""

from __future__ import annotations

from qwenperf.decode.state import StepTables, Tables
from qwenperf.models.config import ModelConfig
from qwenperf.models.masks import make_mask_table
from qwenperf.models.rotary import make_tables
from qwenperf.workloads.engine import EngineSettings


def make_step_tables(config: ModelConfig, capacity: int, settings: EngineSettings) -> StepTables:
    """Return the tables that ``settings`` ask for, for positions up to ``capacity``."""
    rotary = make_tables(config, capacity) if settings.rotary == "tables" else None
    if settings.mask != "table":
        return rotary
    return Tables(rotary=rotary, mask=make_mask_table(capacity, settings.window))
