"""What the options that take a name may be given, as their help says it: from the registries, without JAX."""

from __future__ import annotations

from collections.abc import Iterable

from qwenperf.workloads.case import DTYPES, ENGINES
from qwenperf.workloads.engine import BEST
from qwenperf.workloads.models import PRESETS
from qwenperf.workloads.suites import SUITES


def _names(names: Iterable[str]) -> str:
    return ", ".join(names)


SUITE = _names(SUITES)
MODEL = f"a preset ({_names(PRESETS)}), a folder, a GGUF file or a hub id (owner/name)"
ENGINE = f"{_names((*ENGINES, *BEST))}; any with +setting=value; or package.module:factory"
DTYPE = " or ".join(DTYPES)
