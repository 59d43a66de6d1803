"""What a trace shows are decode steps of one request, at each attempt the same ones."""

import numpy as np

from qwenperf.lab.forms import Forms
from qwenperf.lab.options import Options
from qwenperf.lab.trace import trace_steps
from qwenperf.workloads.case import Workload

WORK = Workload(prompt_length=2, new_tokens=6)


class Counting:
    """Streams without any device work, which no profile shows, so that every capture is tried twice."""

    name = "counting"

    def __init__(self):
        self.made = []

    def generate(self, tokens_BT, new_tokens):
        """Return zeros."""
        return np.zeros((len(tokens_BT), new_tokens), np.int32)

    def stream(self, tokens_BT, new_tokens):
        """Yield zeros, and note which."""
        for index in range(new_tokens):
            self.made.append(index)
            yield np.zeros(len(tokens_BT), np.int32)


def test_a_second_attempt_sees_the_steps_of_the_first(tmp_path):
    """Each begins a request and leaves its prefill and first step out; none runs into the next prefill."""
    engine = Counting()
    forms = Forms(engine=engine, workload=WORK, prompt_BT=np.zeros((1, 2), np.int32))
    options = Options(trace_folder=str(tmp_path), session="counting", trace_steps=3)
    capture = trace_steps(forms, options)
    assert capture.findings[0].code == "trace-without-operations"
    assert engine.made == [0, 1, 2, 3, 4] * 2
