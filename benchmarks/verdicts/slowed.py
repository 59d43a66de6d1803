"""Our cached engine, really slower: each decode step does needless products. And how much slower that makes it.

`benchmarks.verdicts.slowed:make` is an engine for `qwenperf compare --engines`; how many products comes from the
environment, because a factory is given a model and a capacity alone. `python -m benchmarks.verdicts.slowed` measures
numbers of products against the plain engine in one process, by turns. How many make 10% is found out by `calibrate`, in
processes of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from qwenperf.errors import ConfigError, MeasurementError
from qwenperf.workloads.case import Case

PRODUCTS = "QWENPERF_VERDICTS_PRODUCTS"
ENGINE = "benchmarks.verdicts.slowed:make"
ROUNDS = 15
CLOSE = 0.015
"""Standard error of a slowdown that is still worth its name."""

_WIDTH = 128
_MANY = 60.0
"""Products a step of the measurement that tells what one costs."""

_LEAST_GAIN = 5e-4
"""Of a request, by one product a step; noise that says less would ask for thousands."""

_TRIAL_S = 0.03
_LIMIT_S = 300


def make(model: Any, capacity: int) -> Any:
    """Return the engine with as many products a step as the environment asks for."""
    try:
        products = float(os.environ[PRODUCTS])
    except (KeyError, ValueError):
        raise ConfigError(
            f"{PRODUCTS} is no number.", advice="Set it to the needless products of a decode step."
        ) from None
    return slowed_engine(model, capacity, products)


def slowed_engine(model: Any, capacity: int, products: float) -> Any:
    """Return the cached engine with ``products`` needless products in each of its decode steps, on average."""
    from qwenperf.decode.build import build_engine
    from qwenperf.decode.rung import steps_of
    from qwenperf.workloads.engine import parse_engine

    settings = parse_engine("cached")
    step = wasting(steps_of(settings).decode_step, products)
    return build_engine(model, settings, capacity=capacity, step=step, name=f"cached, {products:.2f} needless products")


def wasting(inner: Any, products: float) -> Any:
    """Return ``inner`` as a step with ``products`` needless ones on average, evenly over positions; tokens stay.

    Small products, not whole steps taken twice: those can only be counted out in whole steps of a request, each of
    which copies the cache and makes some 4%.
    """
    import jax
    import jax.numpy as jnp
    import numpy as np

    matrix = np.random.default_rng(0).normal(size=(_WIDTH, _WIDTH)).astype(np.float32) / np.sqrt(_WIDTH)

    def counted(position: jax.Array) -> jax.Array:
        return jnp.floor(jnp.float32(products) * position.astype(jnp.float32)).astype(jnp.int32)

    def step(params: Any, tokens: jax.Array, state: Any, tables: Any, *, config: Any) -> Any:
        times = (counted(state.length + jnp.int32(1)) - counted(state.length)).reshape(-1)[0]
        start = jnp.broadcast_to(tokens.reshape(-1)[:1].astype(jnp.float32), (1, _WIDTH))
        wasted = jax.lax.fori_loop(jnp.int32(0), times, lambda _, x: jnp.tanh(x @ matrix), start)
        # Never true, and the compiler cannot know it: the products are neither left out nor shared.
        return inner(
            params, jnp.where(wasted.sum() > 1e30, jnp.zeros_like(tokens), tokens), state, tables, config=config
        )

    return step


def measure(case: Case, products: Sequence[float], rounds: int = ROUNDS) -> list[float]:
    """Return the relative slowdown of requests by each number of products: the median of rounds there and back."""
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
    engines += [slowed_engine(model, capacity, count) for count in products]
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


def calibrate(case: Case, wanted: Sequence[float], run: Any, *, processes: int = 6) -> dict[str, Any]:
    """Find how many products make requests slower by ``wanted``, and how sure that is.

    ``run(case, products)`` measures in a process of its own. Processes differ by some percent, so that no single one
    tells: first none and ``_MANY`` products, whose distance is far above that, then what follows from them, and a line
    through all of it gives the answer, with its standard error.

    Raises:
      MeasurementError: the standard error is above ``CLOSE``; names what was seen.
    """
    points: list[tuple[float, float]] = []
    asked: Sequence[float] = (0.0, _MANY)
    for _ in range(2):
        points += [pair for _ in range(processes) for pair in zip(asked, run(case, asked), strict=True)]
        asked, errors = _products(points, wanted)
    found = {"wanted": list(wanted), "products": list(asked), "standard_error": list(errors), "points": points}
    if max(errors) > CLOSE:
        raise MeasurementError(
            f"how many needless products slow requests by {list(wanted)} is not known to {CLOSE:.0%}: {found}.",
            advice="Calibrate on a quiet machine.",
        )
    return found


def _products(points: Sequence[tuple[float, float]], wanted: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return where a line through ``points`` (products, slowdown) is at ``wanted``, and the standard errors there."""
    import numpy as np

    x, y = np.asarray(points).T
    gain, start = np.polyfit(x, y, 1)
    noise = float(np.sqrt(np.sum((y - start - gain * x) ** 2) / (len(x) - 2)))
    products = [max(target - float(start), 0.0) / max(float(gain), _LEAST_GAIN) for target in wanted]
    spread = float(np.sum((x - x.mean()) ** 2))
    return products, [noise * float(np.sqrt(1 / len(x) + (one - x.mean()) ** 2 / spread)) for one in products]


def run_apart(root: Path, environ: Mapping[str, str], rounds: int = ROUNDS) -> Any:
    """Return a function that measures products in a fresh process of the code in ``root``."""

    def run(case: Case, products: Sequence[float]) -> list[float]:
        asked = json.dumps({"case": case.to_json(), "products": list(products), "rounds": rounds})
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
    """Measure the products of the one argument, a JSON object, and print the slowdowns as JSON."""
    asked = json.loads(sys.argv[1])
    seen = measure(Case.from_json(asked["case"]), asked["products"], asked["rounds"])
    print(json.dumps(seen))  # noqa: T201 - the answer is what the process is for


if __name__ == "__main__":
    main()
