"""Pairs of engine settings on tiny models: each is refused in words, or decodes what an uncached pass chooses.

    python tools/setting_pairs.py --count 40 --seed 1      a sample of pairs, or all of them: --all

A pair is two values, of two settings, that the rung ``cached`` does not have. Exact settings must give the tokens of an
uncached pass; approximate ones, logits within the sum of their bounds, and the tokens that their own logits choose.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import numpy as np

from qwenperf.decode.build import build_engine
from qwenperf.decode.ladder_engine import LadderEngine
from qwenperf.decode.process import check_process
from qwenperf.decode.start import save_executables
from qwenperf.errors import UsageError
from qwenperf.lab.divergence import compare
from qwenperf.lab.logits import Logits
from qwenperf.models.config import ModelConfig
from qwenperf.models.registry import Model
from qwenperf.models.seeded import seeded_params
from qwenperf.workloads.approximate import logit_bound
from qwenperf.workloads.engine import RUNGS, parse_engine
from qwenperf.workloads.models import PRESETS
from qwenperf.workloads.setting import SETTINGS

CAPACITY, LENGTH, NEW, BATCH = 12, 6, 6, 2
SMALL = {"window": 3, "key_block": 4, "prefill_chunk": 5, "bucket": 4}
"""What numbers are on sequences this short; others keep their measured values."""
_QWEN2 = PRESETS["tiny"] | {"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 64, "vocab_size": 64}
SHAPES = {
    "qwen2": _QWEN2,
    "qwen3": _QWEN2 | {"model_type": "qwen3", "head_dim": 16},
    "gpt2": PRESETS["gpt2"] | {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 64, "n_positions": CAPACITY},
}
PROMPT = np.random.default_rng(3).integers(0, 64, (BATCH, LENGTH))


class WrongAnswerError(Exception):
    """What a pair decodes is not what it should."""


@cache
def model_of(family: str) -> Model:
    """Return the tiny model of a family."""
    config = ModelConfig.from_hf(SHAPES[family])
    return Model(name=family, config=config, params=seeded_params(config, seed=2), dtype="f32")


def changes() -> Iterator[str]:
    """Yield every ``setting=value`` in which an engine may differ from the rung ``cached``."""
    plain = RUNGS["cached"]
    for name, setting in SETTINGS.items():
        values = setting.values if setting.least is None else [SMALL.get(name, value) for value in setting.values[-1:]]
        for value in values:
            if value != getattr(plain, name):
                yield f"{name}={str(value).lower() if isinstance(value, bool) else value}"


def pairs() -> list[tuple[str, str]]:
    """Return all pairs of values of two settings."""
    return [(one, other) for one, other in combinations(changes(), 2) if _name(one) != _name(other)]


def try_pair(family: str, pair: tuple[str, str]) -> str:
    """Return how a pair went: ``right``, ``refused`` or what was wrong."""
    try:
        engine = _build(family, "+".join(("cached", *pair)))
        _check(engine)
    except UsageError as error:
        return _told(pair, error)
    except WrongAnswerError as error:
        return str(error)
    except Exception:  # noqa: BLE001  # whatever it is, it is what is looked for
        return traceback.format_exc(limit=-3)
    return "right"


def _parted(all_pairs: list[tuple[str, str]]) -> tuple[dict[tuple[str, str], str], list[tuple[str, str]]]:
    """Return how pairs end that are refused by what they are called, and the pairs that are not."""
    ends, rest = {}, []
    for pair in all_pairs:
        try:
            settings = parse_engine("+".join(("cached", *pair)))
            check_process(settings)
        except UsageError as error:
            ends[pair] = _told(pair, error)
        else:
            rest.append(pair)
    return ends, rest


def _told(pair: tuple[str, str], error: UsageError) -> str:
    named = any(_name(one) in str(error) for one in pair)
    return "refused" if named else f"refused without naming either: {error}"


def _build(family: str, name: str) -> LadderEngine:
    settings = parse_engine(name)
    model = model_of(family)
    declared = [(BATCH, LENGTH, NEW)]
    if settings.start == "request":
        return build_engine(model, name, capacity=CAPACITY)
    if settings.start == "declared":
        return build_engine(model, name, capacity=CAPACITY, declare=declared)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "programs"
        earlier = build_engine(model, name.replace("start=saved", "start=request"), capacity=CAPACITY)
        save_executables(earlier, path, declared)
        return build_engine(model, name, capacity=CAPACITY, declare=declared, executables=path)


def _check(engine: LadderEngine) -> None:
    new = np.asarray(engine.generate(PROMPT, NEW))
    if not np.array_equal(np.asarray(engine.generate(PROMPT, NEW)), new):
        raise WrongAnswerError("a second request gets other tokens than the first")
    logits, state = engine.prefill(PROMPT)
    own = [np.asarray(logits, np.float32)]
    for column in new.T[:-1]:
        logits, state = engine.decode_step(column, state)
        own.append(np.asarray(logits, np.float32))
    whole = np.concatenate((PROMPT, new[:, :-1]), axis=1)
    uncached = np.asarray(engine.uncached_logits(whole), np.float32)[:, LENGTH - 1 :]
    found = compare(new, Logits(uncached=uncached, engine=np.stack(own, axis=1)), "f32")
    bound = logit_bound(engine.settings)
    if bound is None and not found.equal and not found.near_tie:
        raise WrongAnswerError(f"other tokens than an uncached pass chooses: {found}")
    error = found.max_logit_error
    if error is None or error > (found.logit_tolerance if bound is None else bound):
        raise WrongAnswerError(f"a logit is off by {error}, which is beyond {bound}: {found}")
    if "not_own_choice" in found.extra:
        raise WrongAnswerError(f"a token is not what the engine's own logits choose: {found}")


def _name(change: str) -> str:
    return change.partition("=")[0]


def main() -> int:
    """Try pairs; return 1 where one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--all", action="store_true", help="every pair instead of a sample")
    parser.add_argument("--count", type=int, default=40, help="pairs of a sample")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--family", choices=SHAPES, help="one family for all; by default they take turns")
    asked = parser.parse_args()
    # What is refused by name costs nothing: all of it is tried, and the sample is of what is built.
    refused, chosen = _parted(pairs())
    if not asked.all:
        chosen = random.Random(asked.seed).sample(chosen, asked.count)
    families = [asked.family] if asked.family else list(SHAPES)
    ends = Counter[str](refused.values())
    for pair, end in refused.items():
        if end != "refused":
            print(f"cached+{'+'.join(pair)}: {end}")
    for index, pair in enumerate(chosen):
        family = families[index % len(families)]
        end = try_pair(family, pair)
        ends[end] += 1
        print(f"{family} cached+{'+'.join(pair)}: {end}", flush=True)
        # Each pair leaves programs in JAX's caches, and no pair needs another's.
        jax.clear_caches()
    wrong = ends.total() - ends["right"] - ends["refused"]
    print(f"{ends['right']} right, {ends['refused']} refused, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
