"""What pytest-benchmark is given to time: one request of the case in QWENPERF_VERDICTS_CASE. See `live_peers`."""

from __future__ import annotations

import json
import os
from typing import Any

CASE = "QWENPERF_VERDICTS_CASE"


def test_request(benchmark: Any) -> None:
    """Time a warm request, as a benchmark beside unit tests does."""
    from qwenperf.lab.options import Options
    from qwenperf.lab.prompts import make_prompt
    from qwenperf.lab.runner import make_engine
    from qwenperf.models.registry import load_model
    from qwenperf.workloads.case import Case

    case = Case.from_json(json.loads(os.environ[CASE]))
    work = case.workload
    model = load_model(case.model, work.dtype, seed=case.seed)
    engine, _ = make_engine(model, case, Options())
    prompt_BT = make_prompt(work, vocab_size=model.config.vocab_size, tokenizer=model.tokenizer, seed=case.seed)
    engine.generate(prompt_BT, work.new_tokens)
    benchmark(engine.generate, prompt_BT, work.new_tokens)
