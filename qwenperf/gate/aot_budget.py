"""Budgets of compiled programs: tables of ``[tool.qwenperf.budgets]`` whose glob has an ``@`` and a target.

    [tool.qwenperf.budgets."qwen2.5-0.5b/*@v7x-*/decode_step"]
    temp_bytes = { max = 2_000_000 }           # any fact of ``aot_facts``
    relayouts = { max = 0 }
    kernels = ["*flash_attention*"]            # each glob must match a kernel of the program
    fits = false                               # not judged by the chip's memory

The glob is matched against the ids of programs, ``<case>@<target>/<program>``. As with other budgets, the table whose
glob has more literal characters wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from qwenperf.errors import ConfigError
from qwenperf.gate.aot_facts import FACTS
from qwenperf.gate.budget_set import matches
from qwenperf.gate.budget_values import check_keys, limit, table
from qwenperf.gate.limits import Limit
from qwenperf.gate.target_globs import is_of_programs

KEYS = ("kernels", "fits")


@dataclass(frozen=True, kw_only=True)
class ProgramBudget:
    """What holds for the programs that ``pattern`` matches; ``None`` says nothing."""

    pattern: str = "*"
    limits: Mapping[str, Limit] = field(default_factory=dict)
    kernels: tuple[str, ...] | None = None
    fits: bool | None = None

    @property
    def specificity(self) -> int:
        """How many characters of the glob stand for themselves."""
        return sum(character not in "*?[]" for character in self.pattern)


@dataclass(frozen=True, kw_only=True)
class ProgramBudgets:
    """Every table, in the order of the file."""

    budgets: tuple[ProgramBudget, ...] = ()

    def for_program(self, case_id: str) -> ProgramBudget:
        """Return what holds for one program on one target."""
        matching = [budget for budget in self.budgets if matches(case_id, budget.pattern)]
        limits: dict[str, Limit] = {}
        kernels, fits = None, None
        for budget in sorted(matching, key=lambda budget: budget.specificity):
            limits |= budget.limits
            kernels = kernels if budget.kernels is None else budget.kernels
            fits = fits if budget.fits is None else budget.fits
        return ProgramBudget(pattern=case_id, limits=limits, kernels=kernels, fits=fits)

    def unmatched(self, case_ids: Iterable[str]) -> tuple[str, ...]:
        """Return the globs that match no program."""
        ids = tuple(case_ids)
        patterns = dict.fromkeys(budget.pattern for budget in self.budgets)
        return tuple(pattern for pattern in patterns if not any(matches(one, pattern) for one in ids))


def parse(tables: Mapping[str, Any], origin: str) -> ProgramBudgets:
    """Read the budgets of compiled programs and leave the others.

    Raises:
      ConfigError: an unknown key (offers the nearest), a wrong type, a limit in the wrong direction.
    """
    found = {pattern: value for pattern, value in tables.items() if is_of_programs(pattern)}
    return ProgramBudgets(
        budgets=tuple(_budget(pattern, value, f'{origin} "{pattern}"') for pattern, value in found.items())
    )


def _budget(pattern: str, value: Any, where: str) -> ProgramBudget:
    entries = table(value, where)
    check_keys(entries, (*KEYS, *FACTS), where)
    kernels, fits = entries.get("kernels"), entries.get("fits")
    if kernels is not None and not _is_list_of_text(kernels):
        raise ConfigError(f"{where} kernels is {kernels!r}.", advice='Write a list of globs: ["*attention*"].')
    if fits is not None and not isinstance(fits, bool):
        raise ConfigError(f"{where} fits is {fits!r}.", advice="Write true or false.")
    return ProgramBudget(
        pattern=pattern,
        limits={key: limit(key, entry, where, FACTS[key].direction) for key, entry in entries.items() if key in FACTS},
        kernels=None if kernels is None else tuple(kernels),
        fits=fits,
    )


def _is_list_of_text(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) and one for one in value)
