"""What a test can ask about an engine: one method a question, one line a question in the test."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qwenperf.errors import UsageError
from qwenperf.pytest_plugin.asking import Asking, environment_here
from qwenperf.pytest_plugin.block import Block
from qwenperf.pytest_plugin.limits import WORKER, budgeted, check_unit, refuse_company, speed_budget
from qwenperf.pytest_plugin.marks import Marks
from qwenperf.pytest_plugin.session import Recorded, kept, not_judged, tell, tell_all
from qwenperf.schema.metrics import Kind, lookup
from qwenperf.schema.records import CaseRecord, Verdict
from qwenperf.workloads.whole import whole_number

if TYPE_CHECKING:
    from qwenperf.lab.calls import Watched
    from qwenperf.schema.analysis import AotRecord

_BLOCK: Any = object()
"""No subject: the block's form is meant. ``None`` is a subject that somebody forgot to make."""

_NOTHING_OF_JAX = (
    "no call compiled anything or returned an array of JAX. Either all was compiled before, or it runs in another "
    "process"
)


@dataclass(frozen=True, kw_only=True)
class Checks:
    """Gates on anybody's engine.

    An *engine* is a ``generate(tokens, new_tokens)`` function, a ``(prefill, decode_step)`` pair, an object with
    either, a Flax ``(model, params)`` pair, or whatever ``qwenperf.adapters`` made of them. A *prompt* is tokens,
    [T] or [B, T].
    """

    recorded: Recorded = field(repr=False)
    test: str
    root: Path
    marks: Marks
    blocks: list[Block] = field(default_factory=list, repr=False)

    @property
    def _asking(self) -> Asking:
        return Asking(test=self.test, root=self.root, marks=self.marks)

    @kept
    def no_recompiles(self, subject: Any = _BLOCK, *args: Any, calls: Sequence[Any] | None = None) -> Any:
        """Fail when something compiles that should be warm; return the last result.

        - ``no_recompiles(f, *args)`` calls ``f`` twice: only the first call may compile.
        - ``no_recompiles(f, calls=[(a,), (b,)])`` makes these calls: only the first may compile.
        - ``no_recompiles(engine, prompt, new_tokens)`` decodes: only prefill and the first steps may compile.
        - ``with no_recompiles() as block:`` lets nothing compile in the block; ``block.record()`` is what was seen.
        """
        __tracebackhide__ = True
        from qwenperf.lab import calls as lab

        if subject is _BLOCK:
            self.blocks.append(
                Block(judge=self._stable, crashed=partial(self.recorded.crashed, self.test, "no_recompiles"))
            )
            return self.blocks[-1]
        is_engine = isinstance(subject, tuple) or hasattr(subject, "generate") or hasattr(subject, "prefill")
        if calls is not None and (args or is_engine):
            other = "an engine" if is_engine else "other arguments"
            raise UsageError(
                f"no_recompiles has calls= and {other}: these would not be made.",
                advice="calls= takes all calls of a function; of an engine, ask once for each prompt.",
            )
        if is_engine:
            request = self._asking.request(subject, *args)
            return self._stable(lab.repeat_requests(request.engine, request.prompt_BT, request.workload.new_tokens))
        if not callable(subject):
            raise UsageError(f"no_recompiles({subject!r}): that is no function and no engine.")
        series = [args, args] if calls is None else [call if type(call) is tuple else (call,) for call in calls]
        watched = lab.repeat_calls(subject, series, name=getattr(subject, "__name__", repr(subject)))
        if not watched.has_jax:
            self.recorded.unjudged.append(f"{self.test}: no_recompiles saw nothing of JAX: {_NOTHING_OF_JAX}")
        return self._stable(watched)

    def close(self) -> None:
        """Fail where a block was made and not entered: nothing was watched, and the test is green for nothing."""
        __tracebackhide__ = True
        if any(not block.entered for block in self.blocks):
            raise UsageError("no_recompiles() watched nothing.", advice="Write `with qwenperf.no_recompiles():`.")

    @kept
    def tokens_match(
        self, engine: Any, prompt: Any, new_tokens: int, *, uncached: Any = None, against: Any = None
    ) -> CaseRecord:
        """Fail when greedy tokens, or logits of any step, differ from uncached decoding.

        The truth is ``uncached`` (tokens [B, T] to logits [B, T, V]), ``against`` (another engine), or else what the
        engine itself knows: its uncached logits, or its prefill on every prefix.
        """
        __tracebackhide__ = True
        from qwenperf.gate import tokens
        from qwenperf.lab import agreement

        if uncached is not None and against is not None:
            raise UsageError("tokens_match has uncached= and against=.", advice="Give one truth, or ask twice.")
        asked = self._asking.request(engine, prompt, new_tokens, uncached=uncached)
        if against is None:
            case = agreement.compare_with_uncached(asked.engine, asked.workload, asked.prompt_BT)
        else:
            trusted = self._asking.request(against, prompt, new_tokens).engine
            case = agreement.compare_with_engine(asked.engine, trusted, asked.workload, asked.prompt_BT)
        return self._settle(case, [tokens.judge(case)], required=(tokens.GATE,))

    @kept
    def at_least(
        self, value: float, unit: str, engine: Any, prompt: Any, new_tokens: int, *, than: Any = None
    ) -> CaseRecord:
        """Fail when decoding is slower than ``value`` in ``unit``.

        ``"tokens/s"``; ``"times"`` as fast as the engine ``than``, measured beside it; or ``"of roofline"``, the share
        of what this machine can do, for engines that know their ``facts``. Budgets of the marker and of the project
        for the throughput hold too; of two for the same, ``value`` counts.
        """
        __tracebackhide__ = True
        from qwenperf.gate import throughput

        check_unit(value, unit, than)
        whole_number("trials", self.marks.trials, least=1)
        if than is None:
            case, other = self._asking.measured(engine, prompt, new_tokens, check=False), None
        else:
            case, other = self._asking.beside(engine, than, prompt, new_tokens)
        peers = {} if other is None else {other.id: other}
        budget = speed_budget(self._asking.budget(case), value, unit, other)
        return self._settle(case, [throughput.judge(case, budget, peers)], required=(throughput.GATE,))

    @kept
    def passes(self, engine: Any, prompt: Any, new_tokens: int, *, uncached: Any = None) -> CaseRecord:
        """Fail when any gate does: shapes, tokens, rotary, cache-alias, scaling, and the budgets.

        Budgets are the marker's and those of ``[tool.qwenperf.budgets]`` in the project; the marker's win. Something to
        compare tokens with is needed, ``uncached`` for a bare function; the end of the session's report says which
        other gates had nothing to judge by.
        """
        __tracebackhide__ = True
        from qwenperf.gate import throughput, tokens
        from qwenperf.gate.evaluate import judge_case
        from qwenperf.schema.records import Outcome

        whole_number("trials", self.marks.trials, least=1)
        case = self._asking.measured(engine, prompt, new_tokens, uncached=uncached)
        named = self._asking.named(case)
        verdicts = judge_case(named, self._asking.budgets(named), {}, environment_here())
        required = (tokens.GATE, *budgeted(self._asking.budget(case)))
        judged = self._settle(case, verdicts, required=required)
        skipped = [one for one in verdicts if one.outcome is Outcome.SKIPPED and one.gate != throughput.GATE]
        self.recorded.skipped(self.test, skipped, wrapped=not case.evidence.programs and _has_steps(engine))
        return judged

    @kept
    def steps(
        self,
        step: Any,
        *args: Any,
        carry: int | Mapping[str, int] = 1,
        calls: int | Sequence[Any] = 4,
        tokens_per_call: int | None = None,
    ) -> CaseRecord:
        """Fail when a jitted function that hands state on to itself recompiles or copies it, or breaks a budget.

        - ``steps(step, state, batch)`` calls ``step`` with the state that it returned, or returned first.
        - ``steps(step, state, calls=[(batch, 0), (other, 1), ...])`` has other arguments for each call.
        - ``carry=2`` says that the first two arguments come back first; ``carry={"state": 1}`` which comes back where.

        Two calls may compile. All that is donated must alias, all that is carried must be donated. Budgets are those of
        ``passes``: ``peak_bytes``, ``calls_per_s``, and ``call_tokens_per_s`` where ``tokens_per_call`` is given.
        """
        __tracebackhide__ = True
        from qwenperf.gate import shapes
        from qwenperf.gate.evaluate import judge_case
        from qwenperf.lab.measure_step import measure_step
        from qwenperf.schema.records import Outcome

        trials = 0 if os.environ.get(WORKER) else self.marks.trials
        told = {"test": self.test}
        case = measure_step(
            step, *args, carry=carry, calls=calls, trials=trials, tokens_per_call=tokens_per_call, spec=told
        )
        budget, named = self._asking.budget(case), self._asking.named(case)
        if any(lookup(name).kind is Kind.TIMED for name in budget.limits):
            refuse_company()
        verdicts = judge_case(named, self._asking.budgets(named), {}, environment_here())
        judged = self._settle(case, verdicts, required=(shapes.GATE, *budgeted(budget)))
        skipped = [one for one in verdicts if one.outcome is Outcome.SKIPPED]
        self.recorded.skipped(self.test, skipped, plain=not (case.evidence.program or case.evidence.voids))
        return judged

    @kept
    def compiles_for(
        self,
        targets: str | Sequence[str],
        step: Any,
        *args: Any,
        donate_argnums: int | Sequence[int] | None = None,
        static_argnums: int | Sequence[int] | None = None,
        mesh: Mapping[str, int] | None = None,
        specs: Any = None,
        **limits: Any,
    ) -> AotRecord:
        """Fail when a program does not compile for a chip, does not fit it, or copies what was donated to it.

        All targets are compiled and judged before the test fails, once, for all that is wrong.

        - ``compiles_for("v5e-1,v7x-4", step, *args)`` compiles any jitted function; nothing runs, no chip is needed.
          Arguments are shapes (``jax.ShapeDtypeStruct``) or arrays.
        - ``compiles_for("v7x-4", step, *args, relayouts=0, temp_bytes=1e6, kernels=["*flash*"])`` fails beyond a limit
          as well, which is a most, or a least where more is better: any fact of budgets for programs.

        ``mesh`` and ``specs`` say how arguments are divided over devices, see ``qwenperf.compile_for``.
        """
        __tracebackhide__ = True
        from qwenperf.pytest_plugin.programs import judged, must_judge

        record = judged(
            targets, step, *args, test=self.test, root=self.root, limits=limits,
            told={
                "donate_argnums": donate_argnums, "static_argnums": static_argnums, "mesh": mesh, "specs": specs,
            },
        )  # fmt: skip
        self.recorded.add_programs(record.cases)
        told = [(case.id, case.verdicts, must_judge(case)) for case in record.cases]
        tell_all(told, inconclusive=self.marks.inconclusive)
        return record

    @kept
    def measure(self, engine: Any, prompt: Any, new_tokens: int, *, uncached: Any = None) -> CaseRecord:
        """Return the record of an engine, with every metric, unjudged."""
        __tracebackhide__ = True
        return self._settle(self._asking.measured(engine, prompt, new_tokens, uncached=uncached), [])

    def extra_info(self, benchmark: Any, case: CaseRecord) -> None:
        """Put the metrics of ``case`` into pytest-benchmark's JSON, as ``extra_info["qwenperf"]``."""
        from qwenperf.schema.codec import to_json

        data = to_json(case)
        benchmark.extra_info["qwenperf"] = {"id": data["id"], "metrics": data["metrics"], "verdicts": data["verdicts"]}

    def _stable(self, watched: Watched) -> Any:
        __tracebackhide__ = True
        from qwenperf.gate import shapes
        from qwenperf.gate.budget_set import CaseBudget

        case = watched.record()
        self._settle(case, [shapes.judge(case, CaseBudget())], required=(shapes.GATE,))
        return watched.result

    def _settle(self, case: CaseRecord, verdicts: Iterable[Verdict], *, required: Iterable[str] = ()) -> CaseRecord:
        """Keep the judged case for the session's record, and make its verdicts the test's."""
        __tracebackhide__ = True
        required = tuple(required)
        told = tuple(not_judged(verdict) if verdict.gate in required else verdict for verdict in verdicts)
        judged = replace(self._asking.named(case), verdicts=told)
        self.recorded.add(judged)
        tell(judged.verdicts, subject=case.id, inconclusive=self.marks.inconclusive, required=required)
        return judged


def _has_steps(engine: Any) -> bool:
    return isinstance(engine, tuple) or hasattr(engine, "decode_step")
