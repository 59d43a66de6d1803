"""What `asv continuous` times: one warm request of the case that the measured commit names. See `live_asv`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path


class Request:
    """A warm request, as a benchmark of somebody's project times it: asv chooses repeats and rounds."""

    timeout = 300

    def setup(self) -> None:
        """Build the engine of the commit that is installed, and make its programs."""
        side = json.loads(Path(os.environ["ASV_ENV_DIR"], "side.json").read_text(encoding="utf-8"))
        sys.path.insert(0, side["root"])
        os.environ.update(side["environ"])
        from qwenperf.lab.options import Options
        from qwenperf.lab.prompts import make_prompt
        from qwenperf.lab.runner import make_engine
        from qwenperf.models.registry import load_model
        from qwenperf.workloads.case import Case

        case = Case.from_json(side["case"])
        work = case.workload
        model = load_model(case.model, work.dtype, seed=case.seed)
        self._engine, _ = make_engine(model, case, Options())
        self._prompt = make_prompt(work, vocab_size=model.config.vocab_size, tokenizer=model.tokenizer, seed=case.seed)
        self._tokens = work.new_tokens
        self._engine.generate(self._prompt, self._tokens)

    def time_request(self) -> None:
        """Make one request; its tokens arrive on the host."""
        self._engine.generate(self._prompt, self._tokens)
