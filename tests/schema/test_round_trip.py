import tomllib
from collections.abc import Mapping
from dataclasses import is_dataclass, replace
from enum import StrEnum
from functools import cache
from typing import Any, get_args

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from qwenperf.gate.budget import parse
from qwenperf.gate.evaluate import GATES, judge_case, judge_run
from qwenperf.gate.propose import propose
from qwenperf.gate.verdict import PRECEDENCE, exit_code
from qwenperf.schema import codec, hints
from qwenperf.schema.metrics import REGISTRY
from qwenperf.schema.records import (
    CaseRecord,
    Divergence,
    Outcome,
    ProgramFacts,
    RunRecord,
    Status,
    StreamEvidence,
    metric,
)

UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)
"""A whole run has so many parts that shrinking one takes minutes."""

slow_to_draw = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=50, phases=UNSHRUNK)
quick = settings(slow_to_draw, max_examples=100)

# Texts are drawn from the code's own words too, and a metric of the registry has a unit of its own.
NAMES = st.text(max_size=6).filter(lambda name: name not in REGISTRY)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
FREE = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | FINITE | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=5,
)


@cache
def record(kind):
    """Draw a record of ``kind``; its ``extra`` never takes the name of a field."""
    known = hints.known_fields(kind)
    parts = {name: st.just(item.default) if name == "schema" else value(hint) for name, (hint, item) in known.items()}
    extra = st.dictionaries(NAMES.map(lambda name: f"x-{name}"), FREE, max_size=2)
    return st.builds(kind, **parts, extra=extra)


def value(hint):  # noqa: PLR0911  one line a kind of hint
    """Draw a value of a type hint."""
    if (inner := hints.optional_of(hint)) is not None:
        return st.none() | value(inner)
    if hint is Any:
        return FREE
    if is_dataclass(hint):
        return record(hint)
    options = get_args(hint)
    if hints.origin_of(hint) is tuple:
        if options[-1] is Ellipsis:
            return st.lists(value(options[0]), max_size=2).map(tuple)
        return st.tuples(*map(value, options))
    if hints.origin_of(hint) is Mapping:
        return st.dictionaries(NAMES, value(options[1]), max_size=2)
    if issubclass(hint, StrEnum):
        return st.sampled_from(list(hint))
    return {str: NAMES, bool: st.booleans(), int: st.integers(-(10**20), 10**20), float: FINITE}[hint]


@cache
def runs():
    """Draw a run whose cases can be told apart."""
    return record(RunRecord).map(
        lambda run: replace(
            run, cases=tuple(replace(case, id=f"{number}{case.id}") for number, case in enumerate(run.cases))
        )
    )


@slow_to_draw
@given(runs())
def test_any_run_survives_the_way_to_text_and_back(run):
    """Reading what was written gives the same run, unknown keys included."""
    assert codec.loads(codec.dumps(run)) == run


@slow_to_draw
@given(record(CaseRecord))
def test_any_case_survives_the_way_to_text_and_back(case):
    """A case file of its own reads back as the same case."""
    assert codec.case_loads(codec.dumps(case)) == case


@slow_to_draw
@given(runs())
def test_any_run_can_be_judged_and_proposed_from(run):
    """However odd the numbers of a record, gates say something about it, and only a measured case passes."""
    judged = judge_run(run, parse({"*": {"decode_tokens_per_s": {"min": 1}, "min_roofline_share": 0.5}}))
    for case in judged.cases:
        assert case.verdicts
        if case.status is not Status.MEASURED:
            assert {verdict.outcome for verdict in case.verdicts} <= {Outcome.SKIPPED, Outcome.FAIL}
    assert exit_code(judged) in PRECEDENCE
    assert codec.loads(codec.dumps(judged)) == judged
    tomllib.loads(propose(judged))


@quick
@given(record(CaseRecord), record(StreamEvidence), record(Divergence), record(ProgramFacts))
def test_any_evidence_can_be_judged(case, stream, divergence, program):
    """Positions and steps of different lengths, sizes below 0: an odd record is no crash."""
    evidence = replace(case.evidence, stream=stream, divergence=divergence, program=program)
    names = ("kv_cache_allocated_bytes", "compiles_steady", "decode_tokens_per_s", "mbu", "mfu", "bytes_per_step")
    for value in (0.0, -1.0, 1e300):
        metrics = {name: metric(name, value) for name in names}
        case = replace(case, metrics=metrics, evidence=evidence, status=Status.MEASURED)
        assert len(judge_case(case, parse({}), {})) == len(GATES)
