"""One side of a pair: ``python -P -m qwenperf.lab.pair_worker SPEC COMMANDS ANSWERS`` (the last two are descriptors).

SPEC is JSON: ``cases``, ``known``, ids of cases whose sizes an earlier process of this side has told, ``root``, the
folder that the package must have been imported from, ``tree`` where engines are somebody's own and come from a
revision's files, and ``beside`` where those lie beside the package. It answers ``{"ready": ...}`` once all cases are
built and warm, then to each ``{"case": id, "repeats": n}`` with the seconds that took, and to one with ``trace``, a
folder, ``session`` and ``of`` (``requests`` or ``steps``) in the place of ``repeats`` with the file of a profile. A
case that cannot be built is an error of that case alone. Nothing runs between two commands.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import qwenperf
from qwenperf.errors import EnvironmentUnfitError, MeasurementError, QwenperfError
from qwenperf.lab.orphan import end_with_parent
from qwenperf.lab.own_tree import OwnTree, check_engine_file, import_from, refuse_shared
from qwenperf.lab.start import start_jax
from qwenperf.schema.metrics import Kind
from qwenperf.schema.records import Metric, ProgramFacts
from qwenperf.schema.writing import encode
from qwenperf.workloads.case import Case
from qwenperf.workloads.factory import factory_parts, is_factory

if TYPE_CHECKING:
    from qwenperf.lab.forms import Forms


def main(arguments: Sequence[str]) -> None:
    """Build the cases of SPEC, then time what is asked for until nobody asks any more."""
    spec, commands, answers = json.loads(arguments[0]), int(arguments[1]), int(arguments[2])
    for descriptor in (commands, answers):
        os.set_inheritable(descriptor, False)  # noqa: FBT003  (positional only)
    end_with_parent(answers)

    def say(message: dict[str, Any]) -> None:
        os.write(answers, json.dumps(message).encode() + b"\n")

    try:
        check_origin(spec.get("root"))
        pin(spec.get("cores"))
        seen = start_jax()
        tree = OwnTree.from_json(spec["tree"]) if "tree" in spec else None
        if tree is not None:
            import_from(tree)
        cases = {one["id"]: Case.from_json(one["case"]) for one in spec["cases"]}
        beside = OwnTree.from_json(spec["beside"]) if "beside" in spec else None
        origin = partial(_origin, tree=tree, beside=beside)
        _serve(cases, frozenset(spec.get("known", ())), seen, commands, say, origin=origin)
    except QwenperfError as error:
        say({"error": str(error), "exit_code": error.exit_code})


def check_origin(root: str | None) -> None:
    """Refuse to measure another package than the one that was asked for.

    Raises:
      EnvironmentUnfitError: the package was imported from elsewhere; names both places.
    """
    found = Path(qwenperf.__file__).resolve().parent.parent
    if root is not None and found != Path(root).resolve():
        raise EnvironmentUnfitError(
            f"qwenperf was imported from {found}, and the revision to measure is in {root}.",
            advice="An installed copy, or PYTHONPATH, comes before it.",
        )


def pin(cores: int | None) -> None:
    """Keep this process to the first ``cores`` cores, before JAX counts them; ``None`` leaves it free."""
    if cores is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])


def _serve(
    cases: Mapping[str, Case],
    known: frozenset[str],
    environment: dict[str, Any],
    commands: int,
    say: Callable[..., None],
    *,
    origin: Callable[[str], dict[str, str]],
) -> None:
    from qwenperf.measure.anchors import make_anchors
    from qwenperf.measure.clock import Clock
    from qwenperf.measure.compiles import CompileLog

    with CompileLog() as log:
        clock = Clock(log)
        forms: dict[str, Forms] = {}
        evidence: dict[str, Any] = {}
        for name, case in cases.items():
            try:
                forms[name], evidence[name] = _build(case, clock, log, known=name in known, origin=origin)
            except QwenperfError as error:
                evidence[name] = {"error": str(error)}
            except Exception as error:  # noqa: BLE001  (one case's bug must not cost the others)
                evidence[name] = {"error": f"{type(error).__name__}: {error}"}
        requests = {name: _Requests(form) for name, form in forms.items()}
        runs: dict[str, Callable[[], Any]] = {**requests, **make_anchors()}
        missed = sum(not event.cache_hit for event in log.events)
        say({"ready": evidence, "environment": environment, "missed": missed, "traces": True, "whole": True})
        with os.fdopen(commands, encoding="utf-8") as lines, log.phase("steady"):
            for line in lines:
                asked, before = json.loads(line), len(log.events)
                if "trace" in asked:
                    seen = _trace(forms[asked["case"]], asked)
                    say({**seen, "compiles": len(log.events) - before})
                    continue
                timed = requests.get(asked["case"])
                if timed is not None:
                    timed.prepare(asked["repeats"])
                spent = clock.spend(runs[asked["case"]], asked["repeats"])
                if timed is not None:
                    timed.check()
                say({"wall_s": spent.wall_s, "cpu_s": spent.cpu_s, "compiles": len(log.events) - before})


class _Requests:
    """The requests of a case as they are timed: each for a prompt that was not asked for before.

    So that an engine that keeps its answers is not fast for that; both sides of a pair ask for the same ones.
    """

    def __init__(self, form: Forms) -> None:
        from qwenperf.lab.prompts import other_prompts

        self._form, self._prompts = form, other_prompts(form.prompt_BT)
        self._waiting: list[Any] = []
        self._last: Any = None

    def prepare(self, repeats: int) -> None:
        """Make the next prompts, before the clock runs."""
        self._waiting = list(islice(self._prompts, repeats))

    def __call__(self) -> Any:
        self._last = _request(self._form, self._waiting.pop())
        return self._last

    def check(self) -> None:
        """Refuse an engine that does less once it is warm.

        Raises:
          MeasurementError: the last request gave back something that is no answer.
        """
        import numpy as np

        self._form.check_tokens(np.asarray(self._last), "a timed request")


def _request(form: Forms, prompt_BT: Any = None) -> Any:
    """Make one request, as it is timed; by default for the prompt whose tokens are compared."""
    prompt_BT = form.prompt_BT if prompt_BT is None else prompt_BT
    return form.engine.generate(prompt_BT, form.workload.new_tokens)


def _origin(engine: str, *, tree: OwnTree | None, beside: OwnTree | None) -> dict[str, str]:
    """Return the file of somebody's engine; one that has run, so that what it imports while it runs is seen too.

    Raises:
      EnvironmentUnfitError: it, or what it imports, is not the revision's.
    """
    if tree is not None:
        return {"engine_file": check_engine_file(engine, tree)}
    if beside is None or not is_factory(engine):
        return {}
    refuse_shared(engine, beside)
    file = getattr(sys.modules[factory_parts(engine)[0]], "__file__", None)
    return {"engine_file": file} if isinstance(file, str) else {}


def _build(
    case: Case, clock: Any, log: Any, *, known: bool, origin: Callable[[str], dict[str, str]]
) -> tuple[Forms, dict[str, Any]]:
    """Return a case's engine and prompt, warm, and what is known of it before it is timed.

    Of a ``known`` case that is what may differ from one process to another.
    """
    import numpy as np

    from qwenperf.lab.forms import Forms
    from qwenperf.lab.options import Options
    from qwenperf.lab.prompts import make_prompt
    from qwenperf.lab.runner import make_engine
    from qwenperf.models.registry import load_model

    work = case.workload
    model = load_model(case.model, work.dtype, seed=case.seed)
    engine, _ = make_engine(model, case, Options())
    prompt_BT = make_prompt(work, vocab_size=model.config.vocab_size, tokenizer=model.tokenizer, seed=case.seed)
    form = Forms(engine=engine, workload=work, prompt_BT=prompt_BT)
    request = partial(_request, form)
    before = len(log.events)
    with log.phase("cold"):
        first = clock.call(request)
    compiles = len(log.events) - before
    with log.phase("warmup"):
        warm_s = min(clock.call(request).seconds for _ in range(1 if known else 2))
    tokens = np.asarray(first.result)
    if tokens.shape != (work.batch, work.new_tokens):
        raise MeasurementError(f"{case.id} returned {list(tokens.shape)} tokens.")
    told = {"tokens": tokens.tolist(), "compiles": compiles, "warm_s": warm_s} | origin(case.engine)
    if known:
        return form, told | {"programs": _programs_in_use(engine, case)}
    with log.phase("check"):
        programs, metrics = _facts(engine, case)
    fixed = {name: encode(one, type(one), name, []) for name, one in metrics.items() if one.kind is Kind.DETERMINISTIC}
    return form, told | {"programs": programs, "metrics": fixed}


def _trace(form: Forms, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Save a profile of a few requests or decode steps; say where and what took the time, or why there is none."""
    from qwenperf.lab.options import Options
    from qwenperf.lab.trace import trace_requests, trace_steps

    of, options = asked.get("of", "steps"), Options(trace_folder=asked["trace"], session=asked["session"])
    seen = trace_requests(form, options, partial(_request, form)) if of == "requests" else trace_steps(form, options)
    lost = [finding.message for finding in seen.findings]
    summary = None if seen.summary is None else {**seen.summary, "of": of}
    return {"trace": None if seen.path is None else str(seen.path), "summary": summary, "lost": lost}


def _programs_in_use(engine: Any, case: Case) -> dict[str, str]:
    """Return fingerprints of the programs that the request has run, as far as the engine knows them; builds none."""
    from qwenperf.decode.ladder_engine import LadderEngine
    from qwenperf.program.fingerprint import fingerprint

    if not isinstance(engine, LadderEngine):
        return {}
    found: dict[str, str] = {}
    work = case.workload
    for planned in engine.plan(work.batch, work.prompt_length, work.new_tokens):
        built = planned.call.executables.built.get(planned.key)
        if built is not None and planned.name not in found:
            found[planned.name] = fingerprint(built.compiled.as_text() or "")
    return found


def _facts(engine: Any, case: Case) -> tuple[dict[str, str], dict[str, Metric]]:
    """Return fingerprints of an engine's programs and its metrics, as far as it shows them."""
    from qwenperf.decode.engine import CompiledEngine, SizedEngine
    from qwenperf.lab import metrics as formulas
    from qwenperf.lab.program_facts import facts_of

    sizes = (case.workload.batch, case.workload.prompt_length, case.workload.new_tokens)
    facts: dict[str, ProgramFacts] = {}
    metrics: dict[str, Metric] = {}
    if isinstance(engine, CompiledEngine):
        facts = {name: facts_of(one) for name, one in engine.programs(*sizes).items()}
    if isinstance(engine, SizedEngine):
        metrics |= dict(formulas.fact_metrics(case.workload, engine.facts(*sizes)))
    if "decode_step" in facts:
        metrics |= dict(formulas.program_metrics(facts["decode_step"]))
    return {name: one.fingerprint for name, one in facts.items()}, metrics


if __name__ == "__main__":
    main(sys.argv[1:])
