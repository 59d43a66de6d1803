"""Simulate pull requests of ten cases and count what the verdicts say: `python -m benchmarks.verdicts.simulate`.

Levels and factors of the method were chosen on other seeds than ``SEED``, which only judges.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.verdicts.others import alarms
from benchmarks.verdicts.scenarios import CALM_SD, CASES, PAIRS, Scenario, recordings, scenarios
from benchmarks.verdicts.table import markdown, rate
from qwenperf.schema.records import Outcome
from qwenperf.stats.confirm import confirm
from qwenperf.stats.sequential import Plan, judge, outcomes

Array = NDArray[np.float64]
Counts = dict[str, Any]

SEED = 20261128
EFFECTS = (0.05, 0.10)
WIDE = (0.02, 0.15)
"""Deviations of unchanged code, log-uniform: false alarms are asked for in calm and in noise."""

SLOPE = (0.01, 0.15)
"""Slowdowns among which the one that is found in 80% is looked for."""


def main() -> None:
    """Simulate, print the tables, write both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="pull requests of each kind of noise")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--noise", default="*", help="only the kinds of noise that match this glob")
    parser.add_argument("--name", default="simulated", help="of both files")
    asked = parser.parse_args()
    names = [name for name in scenarios() if fnmatchcase(name, asked.noise)]
    if not names:
        parser.error(f"no noise matches {asked.noise!r}: there is {'; '.join(scenarios())}")
    # A fork of a process in which JAX has started may deadlock.
    with ProcessPoolExecutor(asked.jobs, mp_context=get_context("spawn")) as pool:
        made = pool.map(measure, names, [asked.count] * len(names), [asked.seed] * len(names))
        rows = dict(zip(names, made, strict=True))
    some = "" if asked.noise == "*" else f" --noise {asked.noise!r} --name {asked.name}"
    result = {
        "command": f"python -m benchmarks.verdicts.simulate --count {asked.count} --seed {asked.seed}{some}",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "on": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}, numpy {np.__version__}",
        "count": asked.count,
        "noise": rows,
        "others": {} if some else others(asked.count, asked.seed),
    }
    asked.out.mkdir(parents=True, exist_ok=True)
    text = markdown(result)
    (asked.out / f"{asked.name}.json").write_text(json.dumps(result, indent=1) + "\n")
    (asked.out / f"{asked.name}.md").write_text(text)
    print(text)  # noqa: T201 - the tables are what the command is for


def others(count: int, seed: int) -> Mapping[str, Counts]:
    """Return how often other rules raise an alarm on recorded calm processes."""
    calm = [one for one in recordings() if one.calm]
    return {
        rule: {what: rate(hits, count) for what, hits in found.items()}
        for rule, found in alarms(calm, EFFECTS, count, seed).items()
    }


def measure(name: str, count: int, seed: int) -> Mapping[str, Any]:
    """Return every rate of one kind of noise, with its interval."""
    scenario = scenarios()[name]
    random = np.random.default_rng([seed, *name.encode()])
    return {
        "unchanged": unchanged(scenario, count, random),
        "changed": changed(scenario, count, random),
        "detectable": detectable(scenario, max(count // 4, 1), random),
    }


def unchanged(scenario: Scenario, count: int, random: np.random.Generator) -> Counts:
    """Count pull requests with any false fail, before and after confirmation, and outcomes of their cases."""
    fails = confirmed = improved = calm = calm_fails = 0
    kinds = dict.fromkeys(("pass", "inconclusive"), 0)
    for _ in range(count):
        sd = math.exp(random.uniform(math.log(WIDE[0]), math.log(WIDE[1])))
        is_calm = scenario.deviations is None or sd <= CALM_SD
        pairs = _named(scenario.draw(random, sd))
        made = outcomes(pairs, {}, Plan())
        failed = {case for case, outcome in made.items() if outcome is Outcome.FAIL}
        fails += bool(failed)
        calm += is_calm
        calm_fails += is_calm and bool(failed)
        improved += any(outcome is Outcome.IMPROVED for outcome in made.values())
        if failed:
            fresh = {case: x for case, x in _named(scenario.draw(random, sd)).items() if case in failed}
            again = confirm(judge(pairs, {}, Plan()), fresh)
            confirmed += any(two.outcome is Outcome.FAIL for two in again.values())
        for kind in kinds if is_calm else ():
            kinds[kind] += sum(outcome == kind for outcome in made.values())
    return {
        "any_false_fail": rate(fails, count),
        "any_false_fail_calm": rate(calm_fails, calm),
        "any_confirmed": rate(confirmed, count),
        "any_false_improved": rate(improved, count),
        "calm_cases_passed": rate(kinds["pass"], calm * CASES),
        "calm_cases_inconclusive": rate(kinds["inconclusive"], calm * CASES),
    }


def changed(scenario: Scenario, count: int, random: np.random.Generator) -> Counts:
    """Count what is said of one case that is slower, among nine others, on calm pairs."""
    found: Counts = {}
    for case, effect in enumerate(EFFECTS):
        found[f"{effect:+.0%}"] = dict.fromkeys(("fail", "inconclusive", "pass"), 0)
        found[f"{effect:+.0%}"]["case"] = case
    for _ in range(count):
        sd = random.uniform(*(scenario.deviations or (0, 0)))
        noise = scenario.draw(random, sd)
        noise[: len(EFFECTS)] += np.log1p(EFFECTS)[:, None]
        made = outcomes(_named(noise), {}, Plan())
        for effect in found.values():
            effect[made[f"case {effect['case']}"]] += 1
    return {name: {key: rate(effect[key], count) for key in effect if key != "case"} for name, effect in found.items()}


def detectable(scenario: Scenario, count: int, random: np.random.Generator) -> Counts:
    """Compare the effect that verdicts state with the one that is found in 80%, at the edge of calm."""
    slowdowns, fails, stated, edge = [], [], [], dict.fromkeys(EFFECTS, 0)
    for _ in range(count):
        noise = scenario.draw(random, CALM_SD)
        slowdown = random.uniform(*SLOPE)
        noise[0] += math.log1p(slowdown)
        noise[1 : 1 + len(EFFECTS)] += np.log1p(EFFECTS)[:, None]
        made = list(judge(_named(noise), {}, Plan()).values())
        slowdowns.append(slowdown)
        fails.append(made[0].outcome is Outcome.FAIL)
        for effect, decision in zip(EFFECTS, made[1:], strict=False):
            edge[effect] += decision.outcome is Outcome.FAIL
        stated += [decision.smallest_effect for decision in made[1 + len(EFFECTS) :] if decision.pairs == PAIRS]
    empirical = found_in(np.asarray(slowdowns), np.asarray(fails), Plan().power)
    ratios = np.asarray(stated) / empirical
    return {
        "empirical": empirical,
        "stated_median": float(np.median(stated)),
        "ratio": float(np.median(ratios)),
        "within_30%": rate(int(np.sum(np.abs(ratios - 1) <= 0.3)), len(ratios)),
        "found_at_the_edge": {f"{effect:+.0%}": rate(hits, count) for effect, hits in edge.items()},
    }


def found_in(slowdowns: Array, fails: NDArray[np.bool_], power: float) -> float:
    """Return the slowdown at which a logistic curve through ``fails`` reaches ``power``, by Newton's method."""
    design = np.stack([np.ones(len(slowdowns)), slowdowns / 0.05 - 1], axis=1)
    weights = np.zeros(2)
    for _ in range(30):
        chance = 1 / (1 + np.exp(-np.clip(design @ weights, -30, 30)))
        slope = design.T @ (design * (chance * (1 - chance))[:, None]) + 1e-6 * np.eye(2)
        weights = weights + np.linalg.solve(slope, design.T @ (fails - chance) - 1e-6 * weights)
    return float((math.log(power / (1 - power)) - weights[0]) / weights[1] + 1) * 0.05


def _named(noise: Array) -> dict[str, list[float]]:
    return {f"case {index}": row.tolist() for index, row in enumerate(noise)}


if __name__ == "__main__":
    main()
