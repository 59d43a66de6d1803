"""A tiny real engine, and the way from a broken one to its verdicts: the real lab, the real gates."""

import numpy as np
import pytest

from qwenperf.gate.budget_set import BudgetSet
from qwenperf.gate.evaluate import judge_case
from qwenperf.lab.measure_engine import measure_engine
from qwenperf.lab.options import Options
from qwenperf.measure.clock import Clock
from qwenperf.measure.compiles import CompileLog
from qwenperf.models.registry import load_model
from qwenperf.workloads.case import Workload

WORKLOAD = Workload(prompt_length=5, new_tokens=6)
CAPACITY = 12


@pytest.fixture(scope="session")
def model():
    return load_model("tiny")


def record_of(engine, workload=WORKLOAD, trials=1):
    """Measure an engine that is passed off as the rung ``cached-host``."""
    prompt = np.random.default_rng(1).integers(0, 200, (1, workload.prompt_length), np.int32)
    spec = {"model": "tiny", "engine": engine.name, "workload": vars(workload)}
    with CompileLog() as log:
        options = Options(trials=trials)
        return measure_engine(engine, workload, prompt, log=log, clock=Clock(log), options=options, spec=spec)


@pytest.fixture(scope="session")
def judge():
    """Return the verdicts on an engine, by gate."""

    def judge(engine):
        case = record_of(engine)
        return {verdict.gate: verdict for verdict in judge_case(case, BudgetSet(), {})}

    return judge
