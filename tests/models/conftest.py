"""Golden files and the real weights, each read once."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qwenperf.models.registry import Model, load_model


@dataclass(frozen=True, kw_only=True)
class Golden:
    """What transformers computed: arrays by ``model/prompt/name``, facts, and the folder of tiny checkpoints."""

    folder: Path
    facts: Mapping[str, Any]
    tiny: Mapping[str, np.ndarray]
    smollm2: Mapping[str, np.ndarray]


def _arrays(path):
    with np.load(path) as arrays:
        return dict(arrays)


@pytest.fixture(scope="session")
def golden() -> Golden:
    folder = Path(__file__).parent.parent / "golden"
    facts = json.loads((folder / "golden.json").read_text(encoding="utf-8"))
    tiny, families, smollm2 = (_arrays(folder / f"{name}.npz") for name in ("tiny", "families", "smollm2"))
    return Golden(folder=folder, facts=facts, tiny=tiny | families, smollm2=smollm2)


@pytest.fixture(scope="session")
def smollm2(weights_absent) -> Model:
    model = load_model("smollm2-135m")
    if model.source == "seeded":
        weights_absent(model.findings[0].message)
    return model
