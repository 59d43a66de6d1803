"""Our cached engine, really slower: it takes a share of its decode steps twice. And how much slower that makes it.

`benchmarks.verdicts.slowed:make` is an engine for `qwenperf compare --engines`; the share comes from the environment,
because a factory is given a model and a capacity alone. `python -m benchmarks.verdicts.slowed` measures shares against
the plain engine in one process, by turns. Which share makes 10% is found out by `calibrate`, in processes of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from qwenperf.errors import ConfigError, MeasurementError
from qwenperf.workloads.case import Case

SHARE = "QWENPERF_VERDICTS_SHARE"
ENGINE = "benchmarks.verdicts.slowed:make"
ROUNDS = 40
CLOSE = 0.01
"""Distance from the wanted slowdown, in the median of the processes, that is good enough."""

_TRIAL_S = 0.03
_LIMIT_S = 300


def make(model: Any, capacity: int) -> Any:
    """Return the engine with the share that the environment asks for."""
    try:
        share = float(os.environ[SHARE])
    except (KeyError, ValueError):
        raise ConfigError(
            f"{SHARE} is no number.", advice="Set it to the share of steps that are taken twice."
        ) from None
    return slowed_engine(model, capacity, share)


def slowed_engine(model: Any, capacity: int, share: float) -> Any:
    """Return the cached engine with ``share`` of its decode steps taken twice."""
    from qwenperf.decode.build import build_engine
    from qwenperf.decode.rung import steps_of
    from qwenperf.workloads.engine import parse_engine

    settings = parse_engine("cached")
    step = repeating(steps_of(settings).decode_step, share)
    return build_engine(model, settings, capacity=capacity, step=step, name=f"cached, {share:.4f} of its steps twice")


def repeating(inner: Any, share: float) -> Any:
    """Return ``inner`` as a step that is taken twice at ``share`` of the positions, evenly spread; tokens stay."""
    import jax
    import jax.numpy as jnp

    def counted(position: jax.Array) -> jax.Array:
        return jnp.floor(jnp.float32(share) * position.astype(jnp.float32)).astype(jnp.int32)

    def step(params: Any, tokens: jax.Array, state: Any, tables: Any, *, config: Any) -> Any:
        def again(_: jax.Array, tokens_B: jax.Array) -> jax.Array:
            wasted = inner(params, tokens_B, state, tables, config=config)
            # Never true, and the compiler cannot know it: the second step is neither left out nor shared.
            return jnp.where(wasted.logits[:, 0] > 1e30, wasted.token, tokens_B)

        times = counted(state.length + jnp.int32(1)) - counted(state.length)
        return inner(params, jax.lax.fori_loop(jnp.int32(0), times, again, tokens), state, tables, config=config)

    return step


def measure(case: Case, shares: Sequence[float], rounds: int = ROUNDS) -> list[float]:
    """Return the relative slowdown of requests that each share makes: the median of rounds there and back again."""
    import numpy as np

    from qwenperf.decode.build import build_engine
    from qwenperf.lab.prompts import make_prompt
    from qwenperf.measure.clock import Clock
    from qwenperf.measure.compiles import CompileLog
    from qwenperf.models.registry import load_model

    work = case.workload
    model, capacity = load_model(case.model, work.dtype, seed=case.seed), work.prompt_length + work.new_tokens
    prompt_BT = make_prompt(work, vocab_size=model.config.vocab_size, tokenizer=model.tokenizer, seed=case.seed)
    engines = [build_engine(model, "cached", capacity=capacity)]
    engines += [slowed_engine(model, capacity, share) for share in shares]
    with CompileLog() as log:
        clock = Clock(log)
        runs = [lambda engine=engine: engine.generate(prompt_BT, work.new_tokens) for engine in engines]
        fastest = min(clock.call(runs[0]).seconds for _ in range(4))
        for run in runs[1:]:
            clock.spend(run, 3)
        repeats = max(1, round(_TRIAL_S / fastest))
        there = list(range(len(runs)))
        taken = np.zeros((rounds, len(runs)))
        for number in range(rounds):
            for which in (*there, *there[::-1]):
                taken[number, which] += clock.spend(runs[which], repeats).wall_s
    return [float(value) for value in np.median(taken[:, 1:] / taken[:, :1], axis=0) - 1]


def calibrate(case: Case, wanted: Sequence[float], run: Any, *, processes: int = 3, tries: int = 4) -> dict[str, Any]:
    """Find the shares that make requests slower by ``wanted``, and say what fresh processes saw of them.

    ``run(case, shares)`` measures in a process of its own. The line through two shares is a first guess, which the
    median of ``processes`` corrects until every slowdown is as close as ``CLOSE``.

    Raises:
      MeasurementError: it is not, after ``tries``; names what was seen.
    """
    trial = (min(wanted) / 2, max(wanted))
    low, high = run(case, trial)
    # A step that is taken twice costs about a step; noise that says otherwise would send the next guess far off.
    gain = max((high - low) / (trial[1] - trial[0]), 0.5)
    shares = [trial[0] + (target - low) / gain for target in wanted]
    history = []
    for _ in range(tries):
        shares = [max(share, 0.0) for share in shares]
        seen = [run(case, shares) for _ in range(processes)]
        middle = [median(values) for values in zip(*seen, strict=True)]
        history.append({"shares": shares, "seen": seen, "median": middle})
        if all(abs(value - target) <= CLOSE for value, target in zip(middle, wanted, strict=True)):
            return {"wanted": list(wanted), "shares": shares, "median": middle, "history": history}
        shares = [share + (target - value) / gain for share, target, value in zip(shares, wanted, middle, strict=True)]
    raise MeasurementError(
        f"no share of repeated steps was found that slows requests by {list(wanted)}: {history[-1]['median']} at last.",
        advice="Calibrate on a quiet machine.",
    )


def run_apart(root: Path, environ: Mapping[str, str], rounds: int = ROUNDS) -> Any:
    """Return a function that measures shares in a fresh process of the code in ``root``."""

    def run(case: Case, shares: Sequence[float]) -> list[float]:
        asked = json.dumps({"case": case.to_json(), "shares": list(shares), "rounds": rounds})
        done = subprocess.run(
            [sys.executable, "-P", "-m", "benchmarks.verdicts.slowed", asked],
            capture_output=True, text=True, timeout=_LIMIT_S, check=False, env=dict(environ), cwd=root,
        )  # fmt: skip
        if done.returncode:
            raise MeasurementError(f"the calibration ended with {done.returncode}: {done.stderr.strip()[-400:]}")
        seen: list[float] = json.loads(done.stdout.splitlines()[-1])
        return seen

    return run


def main() -> None:
    """Measure the shares of the one argument, a JSON object, and print the slowdowns as JSON."""
    asked = json.loads(sys.argv[1])
    seen = measure(Case.from_json(asked["case"]), asked["shares"], asked["rounds"])
    print(json.dumps(seen))  # noqa: T201 - the answer is what the process is for


if __name__ == "__main__":
    main()
