"""How a test has its engine measured: what is asked, under which name, and the budgets that hold for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qwenperf.pytest_plugin.limits import refuse_company
from qwenperf.pytest_plugin.marks import Marks
from qwenperf.schema.records import CaseRecord

if TYPE_CHECKING:
    from qwenperf.gate.budget_set import BudgetSet, CaseBudget
    from qwenperf.lab.beside import Asked
    from qwenperf.lab.request import Request


@dataclass(frozen=True, kw_only=True)
class Asking:
    """A test, its project and its marks: with them each of its questions is measured, and nothing is judged."""

    test: str
    root: Path
    marks: Marks

    def request(self, engine: Any, prompt: Any, new_tokens: int, *, uncached: Any = None) -> Request:
        """Return what is asked of anybody's engine."""
        from qwenperf.lab.request import make_request

        return make_request(engine, prompt, new_tokens, uncached=uncached, dtype=self.marks.dtype)

    def measured(
        self, engine: Any, prompt: Any, new_tokens: int, *, uncached: Any = None, check: bool = True
    ) -> CaseRecord:
        """Return the record of an engine, measured alone on this machine."""
        __tracebackhide__ = True
        from qwenperf.lab.request import measure_request

        one = self._asked(engine, prompt, new_tokens, uncached=uncached)
        return measure_request(one.request, trials=self.marks.trials, case_id=one.case_id, spec=one.spec, check=check)

    def beside(self, engine: Any, than: Any, prompt: Any, new_tokens: int) -> list[CaseRecord]:
        """Return the records of two engines that were measured in turn."""
        __tracebackhide__ = True
        from qwenperf.lab.beside import measure_in_turn

        asked = (self._asked(engine, prompt, new_tokens), self._asked(than, prompt, new_tokens, suffix=" (than)"))
        return measure_in_turn(asked, trials=self.marks.trials)

    def named(self, case: CaseRecord) -> CaseRecord:
        """Return ``case`` under the id that it has in the record: budgets of the project are matched against it."""
        return replace(case, id=f"{self.test}/{case.id}")

    def budgets(self, named: CaseRecord) -> BudgetSet:
        """Return the budgets of the marker and of the project, of which some may hold for a named case."""
        from qwenperf.pytest_plugin.project import budgets_for

        return budgets_for(named.id, self.marks.budgets, self.root)

    def budget(self, case: CaseRecord) -> CaseBudget:
        """Return the budget that holds for a case on this machine."""
        named = self.named(case)
        return self.budgets(named).for_case(named.id, environment_here())

    def _asked(self, engine: Any, prompt: Any, new_tokens: int, *, uncached: Any = None, suffix: str = "") -> Asked:
        __tracebackhide__ = True
        refuse_company()
        from qwenperf.lab.beside import Asked

        request = self.request(engine, prompt, new_tokens, uncached=uncached)
        name = request.engine.name + suffix
        spec = {"engine": name, "workload": vars(request.workload), "test": self.test}
        return Asked(request=request, case_id=f"{name}/{request.workload.label}", spec=spec)


def environment_here() -> str:
    """Return the environment class of this machine."""
    from qwenperf.gate.environment import environment_class
    from qwenperf.measure import environment

    return environment_class(environment.describe())
