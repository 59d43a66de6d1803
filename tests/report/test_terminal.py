"""A run's report reads at 80 columns, without colour, and says in words what went wrong."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from qwenperf.report.terminal import Places, render, run_report, rung_table
from qwenperf.schema.records import (
    CaseRecord,
    Divergence,
    Evidence,
    Finding,
    Outcome,
    Roofline,
    RunRecord,
    Severity,
    Status,
    TokenEvidence,
    Verdict,
    metric,
)

GOLDEN = Path(__file__).with_name("run.txt")
WORKLOAD = {"prompt_length": 16, "new_tokens": 20, "batch": 1, "dtype": "f32"}
PLACES = Places(record="profiles/r1/run.json", traces="profiles/r1/plugins/profile", logdir="profiles")


def case(engine, speed=None, *, outcome=Outcome.PASS, **more):
    values = {} if speed is None else {"decode_tokens_per_s": speed, "cold_tokens_per_s": speed / 8, "mbu": speed / 1e4}
    values |= {} if speed is None else {"cold_request_s": 160 / speed, "compiles_cold": 20, "compiles_steady": 0}
    evidence = Evidence(
        divergence=Divergence(equal=True, reference="uncached"),
        roofline=Roofline(bytes_per_s=24.1e9, flops_per_s=2e11),
    )
    record = CaseRecord(
        id=f"4x128/{engine}/b1-p16-n20-f32",
        spec={"model": "4x128", "engine": engine, "workload": WORKLOAD},
        metrics={name: metric(name, value) for name, value in values.items()},
        evidence=evidence,
        verdicts=(Verdict(gate="tokens", outcome=outcome, summary="20 tokens equal"),),
        trace=f"plugins/profile/{engine}",
    )
    return replace(record, **more)


def run_of(*cases, **more):
    declared = tuple(one.id for one in cases)
    return RunRecord(id="r1", created_at="", suite="smoke", environment={}, cases=cases, declared=declared, **more)


def text_of(*cases, **more):
    return render(run_report(run_of(*cases, **more), PLACES))


@pytest.fixture(scope="module")
def eventful_run():
    """A run in which everything that a report can show has happened."""
    broken = Verdict(
        gate="shapes",
        outcome=Outcome.FAIL,
        summary="1 compile after warm-up",
        detail=("decode_step compiled at loop.py:12: cache shape f32[8,4] -> f32[9,4]",),
        advice="Allocate the cache once.",
    )
    noisy = Verdict(gate="throughput", outcome=Outcome.INCONCLUSIVE, summary="too noisy: 12% could be seen")
    differing = Evidence(divergence=Divergence(equal=False, reference="uncached", near_tie=True, position=3))
    spoken = Evidence(tokens=TokenEvidence(prompt=((1,),), generated=((2,),), text=" a ship\nin the fog."))
    finding = Finding(
        code="high-load", severity=Severity.WARNING, message="the load is 3.1 on 2 cores.", advice="Wait."
    )
    return run_of(
        case("eager", 21.5),
        case("naive", 1234.5, outcome=Outcome.SKIPPED, evidence=differing),
        case(
            "cached-concat",
            status=Status.TIMED_OUT,
            error="killed after its time limit of 120 s.",
            verdicts=(),
            evidence=Evidence(),
        ),
        case("cached-host", 9876.5, verdicts=(broken,), findings=(finding,)),
        case("cached", 12345.6, verdicts=(noisy,), evidence=spoken, findings=(finding,)),
    )


def test_the_report_is_the_golden_one(eventful_run):
    """The whole text is as published; look at the golden file to see it."""
    text = render(run_report(replace(eventful_run, declared=(*eventful_run.declared, "4x128/padded/x")), PLACES))
    assert text == GOLDEN.read_text()


def test_a_declared_budget_that_was_not_judged_is_seen():
    """In the table and below it; one of another machine is said and is no alarm."""
    missing = Verdict(
        gate="budget:peak_bytes",
        outcome=Outcome.SKIPPED,
        summary="peak_bytes was not measured",
        data={"budget": "not judged"},
    )
    other = replace(
        missing, gate="budget:ttft_s", summary="budget skipped: set for a TPU", data={"budget": "elsewhere"}
    )
    plain = replace(missing, gate="rotary", summary="was not read", data={})
    one = case("cached", 100.0)
    text = text_of(replace(one, verdicts=(*one.verdicts, missing, other, plain)))
    assert "skipped: 4x128/cached/b1-p16-n20-f32: budget:peak_bytes: peak_bytes was not\nmeasured" in text
    assert "budget skipped: set for a\nTPU" in text
    assert "was not read" not in text
    assert next(line for line in text.splitlines() if line.startswith("cached ")).endswith("not judged")
    assert next(
        line for line in text_of(replace(one, verdicts=(*one.verdicts, other))).splitlines() if "100" in line
    ).endswith("pass")


def test_what_gates_could_not_judge_of_an_own_engine_is_listed():
    """Its table says pass for what was judged; of ours the rest is known, and throughput waits for a budget."""
    skipped = [
        Verdict(gate="tokens", outcome=Outcome.SKIPPED, summary="no truth", advice="Give it one."),
        Verdict(gate="throughput", outcome=Outcome.SKIPPED, summary="no budget"),
    ]
    own, ours = (replace(case(name, 100.0), verdicts=tuple(skipped)) for name in ("my.module:make", "cached"))
    text = " ".join(text_of(own, ours).split())
    assert "not judged: 4x128/my.module:make/b1-p16-n20-f32: tokens: no truth. Give it one." in text
    assert text.count("not judged:") == 1


def test_tables_fit_80_columns(eventful_run):
    """No line of a table is wider than a plain terminal."""
    assert max(map(len, render(run_report(eventful_run, PLACES)).splitlines())) <= 80


def test_colour_is_never_the_only_sign(eventful_run):
    """With colour and without, the words are the same."""
    colored = render(run_report(eventful_run, PLACES), color=True)
    assert "\x1b[" in colored
    plain = "\n".join(line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", colored).splitlines()) + "\n"
    assert plain == render(run_report(eventful_run, PLACES))


def test_without_naive_there_is_no_speed_up_to_show():
    """A ratio needs its base."""
    assert "x naive" not in text_of(case("cached", 100.0))


def test_the_quick_line_says_both_ratios_and_the_time_saved():
    """The speed-up line names which ratio is steady and which cold, in 80 columns."""
    line = next(line for line in text_of(case("naive", 100.0), case("cached", 850.0)).splitlines() if "over" in line)
    assert line == "cached over naive: 8.50x steady decode, 8.50x cold, 1.41 s of 1.60 s saved"


def test_models_and_workloads_have_tables_of_their_own():
    """Rungs of different models do not stand in one table."""
    other = replace(case("cached", 5.0), spec={"model": "tiny", "engine": "cached", "workload": WORKLOAD})
    assert text_of(case("cached", 100.0), other).count("rung  ") == 2


def test_markup_in_a_model_name_or_text_is_shown_as_it_is():
    """What looks like markup is text."""
    evidence = Evidence(tokens=TokenEvidence(prompt=((1,),), generated=((2,),), text="[red]x[/red] :smile:"))
    text = text_of(case("cached", 100.0, evidence=evidence, spec={"model": "[b]m[/b]", "engine": "cached"}))
    assert "[b]m[/b] wrote: [red]x[/red] :smile:" in text


def test_rungs_that_wrote_the_same_are_quoted_once():
    """Equal tokens are equal text; a rung that wrote something else is quoted too."""
    spoken = [Evidence(tokens=TokenEvidence(prompt=((1,),), generated=((2,),), text=text)) for text in ("a", "a", "b")]
    cases = (
        case(engine, 1.0, evidence=said) for engine, said in zip(("eager", "naive", "cached"), spoken, strict=True)
    )
    lines = [line for line in text_of(*cases).splitlines() if "wrote:" in line]
    assert lines == ["4x128 wrote: a", "4x128 wrote: b"]


def test_a_run_without_cases_is_still_a_report():
    """An interrupted run says so."""
    text = text_of(interrupted=True)
    assert "interrupted" in text
    assert "record: profiles/r1/run.json" in text


def test_a_long_name_of_settings_leaves_the_numbers_readable():
    """At 80 columns the name is folded, and no number is cut."""
    text = render([rung_table([case("cached" + "+weights=int8" * 6, 12345.0)])])
    assert "12,345" in text
    assert "…" not in text
