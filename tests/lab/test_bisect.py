"""The driver of a bisection: its answers on disk, and what a comparison means as an answer."""

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import jsonschema
import pytest

from qwenperf.errors import MeasurementError, RecordError, UsageError
from qwenperf.lab.bisect import FILE, Bisection, exit_code, new_record, opened
from qwenperf.lab.bisect_history import Ends
from qwenperf.lab.bisect_probe import Measured, Probe
from qwenperf.lab.bisect_search import Answer, Kind, Question, Search
from qwenperf.lab.sides import Side
from qwenperf.report.bisect import bisection_report
from qwenperf.schema.bisection import (
    AnswerRecord,
    CommitRecord,
    bisection_dumps,
    bisection_loads,
    bisection_to_json,
)
from qwenperf.schema.published import bisection_schema
from qwenperf.schema.records import Outcome
from qwenperf.stats.spending import Plan

SHAS = [f"{number:040x}" for number in range(9)]
COMMITS = tuple(
    CommitRecord(sha=new, parents=(old,), author="A. Uthor", date="2026-01-01T00:00:00Z", subject=f"change {new[-1]}")
    for old, new in pairwise(SHAS)
)
GOOD = CommitRecord(sha=SHAS[0], subject="good")
ENDS = Ends(good=GOOD, bad=COMMITS[-1], commits=COMMITS)


class Quiet:
    """A listener that counts."""

    def __init__(self):
        self.asked = []

    def asking(self, question, _record, _most):
        """Note a question."""
        self.asked.append(question.head)

    def answered(self, answer, record, most):
        """Hear an answer."""


def record_of(metric="request_s"):
    return new_record("tiny/cached/b1-p4-n8-f32", metric, ENDS, {"looks": "6,12,20"}, good_name="v1", bad_name="HEAD")


def bisection(folder, ask, record=None, explain=None):
    parents = {one.sha: one.parents for one in COMMITS}
    search = Search(good=SHAS[0], bad=SHAS[-1], parents=parents)
    return Bisection(
        record=record or record_of(), folder=folder, search=search, ask=ask, listener=Quiet(), explain=explain
    )


def planted(culprit, *, change=0.08):
    """Return answers for a change that ``culprit`` made."""

    def ask(question, _ends):
        changed = SHAS.index(question.base) < SHAS.index(culprit) <= SHAS.index(question.head)
        return AnswerRecord(
            kind=question.kind, base=question.base, head=question.head, attempt=question.attempt, seconds=2.0,
            answer=Answer.BAD if changed else Answer.GOOD, change=change if changed else 0.001,
            low=change - 0.01, high=change + 0.01, pairs=12, lines=("dot.1 +3 ms a token",) if changed else (),
        )  # fmt: skip

    return ask


def text_of(record):
    return "\n".join(str(one) for one in bisection_report(record, "file"))


def test_the_culprit_is_told_with_author_subject_size_and_trace(tmp_path):
    """And the record says the same when it is read again."""
    record = bisection(tmp_path, planted(SHAS[5])).run()
    assert (record.end, record.suspects, exit_code(record)) == ("culprit", (SHAS[5],), 0)
    written = bisection_loads((tmp_path / FILE).read_text(), "file")
    jsonschema.validate(bisection_to_json(record), bisection_schema())
    assert bisection_dumps(written) == bisection_dumps(record)
    told = text_of(record)
    for words in (SHAS[5], "change 5", "A. Uthor", "request_s +8.0% (+7.0% to +9.0%) over 12 pairs", "dot.1 +3 ms"):
        assert words in told, told
    assert f"against {SHAS[4][:10]}" in told, "not the size of the step itself"


@pytest.mark.parametrize("after", range(5))
def test_a_search_that_was_cut_goes_on_behind_its_last_answer(tmp_path, after):
    """Nothing that was answered is asked again."""
    done = []

    def ask(question, ends):
        if len(done) == after:
            raise KeyboardInterrupt
        done.append(question)
        return planted(SHAS[3])(question, ends)

    record = bisection(tmp_path, ask).run()
    assert (record.interrupted, exit_code(record), len(record.answers)) == (True, 130, after)
    assert "the same command goes on from here" in text_of(record)
    kept = bisection_loads((tmp_path / FILE).read_text(), "file")
    rest = bisection(tmp_path, planted(SHAS[3]), kept)
    whole = rest.run()
    assert (whole.end, whole.suspects, whole.interrupted) == ("culprit", (SHAS[3],), False)
    assert len(rest.listener.asked) == 5 - after


def test_one_process_at_a_time_is_in_a_folder_and_a_finished_search_is_read(tmp_path):
    """Another plan is another folder; --restart forgets."""
    with opened(tmp_path, record_of()) as (record, folder):
        bisection(folder, planted(SHAS[2]), record).run()
        with pytest.raises(UsageError, match="another process"), opened(tmp_path, record_of()):
            pass
    with opened(tmp_path, record_of()) as (record, _):
        assert record.end == "culprit"
    with opened(tmp_path, record_of(), restart=True) as (record, _):
        assert not record.answers
    with opened(tmp_path, record_of("ttft_s")) as (record, other):
        assert other != folder
    (folder / FILE).write_text("{")
    with pytest.raises(RecordError, match="--restart"), opened(tmp_path, record_of()):
        pass


def test_ends_that_do_not_differ_are_said_to_be_so(tmp_path):
    """Exit code 2: there is nothing to search for. Where it cannot be told, 3."""
    same = bisection(tmp_path, lambda question, _: answer(question, Answer.GOOD, "time +0.1%")).run()
    assert (same.end, exit_code(same), len(same.answers)) == ("same", 2, 1)
    assert "does not differ by the margin in good and bad: there is nothing to search for (time +0.1%)" in text_of(same)
    unclear = bisection(tmp_path, lambda question, _: answer(question, Answer.UNCLEAR, "noisy")).run()
    assert (unclear.end, exit_code(unclear), len(unclear.answers)) == ("unclear", 3, 3)
    broken = bisection(tmp_path, lambda question, _: answer(question, Answer.SKIP, "no such case")).run()
    assert (broken.end, exit_code(broken)) == ("broken", 5)
    assert "no such case" in text_of(broken)


def answer(question, said, why=""):
    return AnswerRecord(
        kind=question.kind, base=question.base, head=question.head, attempt=question.attempt, answer=said, why=why
    )


def test_commits_that_cannot_be_told_apart_are_listed_with_the_reason(tmp_path):
    """Exit code 3."""

    def ask(question, ends):
        if question.head in {SHAS[4], SHAS[5]}:
            return answer(question, Answer.SKIP, "does not build")
        return planted(SHAS[5])(question, ends)

    record = bisection(tmp_path, ask).run()
    assert (record.end, record.suspects, exit_code(record)) == ("range", (SHAS[4], SHAS[5], SHAS[6]), 3)
    assert f"{SHAS[5][:10]} change 5: not measured (does not build)" in text_of(record)


@pytest.fixture
def probe():
    """Return a maker of probes whose comparison is made up."""

    def make(metric, compare=None, broken=()):
        def side(sha):
            if sha in broken:
                raise MeasurementError("its lock cannot be installed.")
            return Side(name="head", label=sha[:10], kind="revision", root=Path(), python="python")

        return Probe(
            case="tiny/cached/b1-p4-n8-f32", metric=metric, arguments=(), side=side, plan=Plan(), compare=compare
        )

    return make


COMMIT = Question(kind=Kind.COMMIT, base=SHAS[0], head=SHAS[3])
OF_ENDS = Question(kind=Kind.ENDS, base=SHAS[0], head=SHAS[8])


ALL_BUT_ALIKE = tuple(math.log(1.08) + 0.01 * (number % 3 - 1) for number in range(24))
STEP = Question(kind=Kind.STEP, base=SHAS[2], head=SHAS[3])


def test_a_commit_is_told_from_what_the_ends_have_shown(probe):
    """The ends as a pull request is judged; a culprit against its parent more strictly than a commit, with traces."""
    asked = []

    def compare(base, head, plan, levels, traced):
        asked.append((base.label, head.label, plan.margin, levels, traced))
        return Measured(outcome=Outcome.FAIL, estimate=0.08, low=0.06, high=0.1, pairs=12, values=ALL_BUT_ALIKE)

    one = probe("request_s", compare)
    ends = one.ask(OF_ENDS, None)
    assert (ends.answer, ends.change, ends.low, ends.high) == ("bad", 0.08, 0.06, 0.1)
    assert asked[0][2:] == (0.03, None, False)
    one.ask(COMMIT, ends)
    assert asked[1][:2] == (SHAS[0][:10], SHAS[3][:10])
    commit, traced = asked[1][3:]
    assert not traced
    assert math.log(1.07) < commit.changed <= commit.expected == math.log(1.08)
    assert 0.005 < commit.deviation < 0.02
    assert (commit.false_changed, commit.most) == (0.02, 20)
    one.ask(STEP, ends)
    step, traced = asked[2][3:]
    assert traced
    assert (step.changed, step.expected, step.false_changed) == (commit.changed / 2, commit.expected, 0.005)


def test_another_attempt_has_more_pairs_and_half_the_chance_of_an_error(probe):
    """So that all attempts together err as rarely as is promised."""
    asked = []

    def compare(_base, _head, _plan, levels, traced):  # noqa: ARG001
        asked.append(levels)
        return Measured(outcome=Outcome.INCONCLUSIVE, values=ALL_BUT_ALIKE)

    ends = AnswerRecord(kind="ends", base=SHAS[0], head=SHAS[8], answer="bad", change=0.08)
    for attempt in (1, 2, 3):
        assert probe("request_s", compare).ask(replace(COMMIT, attempt=attempt), ends).answer == "unclear"
    assert [one.most for one in asked] == [20, 40, 60]
    assert [one.false_changed for one in asked] == [0.02, 0.01, 0.005]


def test_a_search_of_an_older_version_goes_on(probe):
    """Its ends say how far apart they are and not how surely: half of that counts as changed, as it did."""
    asked = []

    def compare(*_, traced):  # noqa: ARG001
        asked.append(_[3])
        return Measured(outcome=Outcome.PASS)

    ends = AnswerRecord(kind="ends", base=SHAS[0], head=SHAS[8], answer="bad", change=0.08, low=0.02, high=0.12)
    assert probe("request_s", compare).ask(COMMIT, ends).answer == "good"
    assert asked[0].changed == pytest.approx(math.log(1.04))


def test_the_first_commit_after_good_is_told_from_it_once_more(tmp_path):
    """It was compared with good in haste, as all others were."""
    asked = []

    def ask(question, ends):
        asked.append((question.kind, question.base, question.head))
        return planted(SHAS[1])(question, ends)

    record = bisection(tmp_path, ask).run()
    assert (record.end, record.suspects) == ("culprit", (SHAS[1],))
    assert asked[-1] == (Kind.STEP, SHAS[0], SHAS[1])


def test_a_culprit_that_no_comparison_has_traced_is_traced_once_it_is_known(tmp_path):
    """Whole runs and values that repeat exactly have no traces of their own."""
    asked = []

    def explain(base, head):
        asked.append((base, head))
        return ("fusion.7 +2 ms a token",)

    def untraced(question, ends):
        return replace(planted(SHAS[5])(question, ends), lines=())

    record = bisection(tmp_path, untraced, explain=explain).run()
    assert asked == [(SHAS[4], SHAS[5])]
    assert "what takes longer:\n    fusion.7 +2 ms a token" in text_of(record)
    bisection(tmp_path, planted(SHAS[5]), explain=explain).run()
    assert len(asked) == 1, "its pairs were traced"


def test_an_interrupt_while_a_culprit_is_traced_keeps_all_answers(tmp_path):
    """The same command traces it again."""

    def explain(*_):
        raise KeyboardInterrupt

    def untraced(question, ends):
        return replace(planted(SHAS[5])(question, ends), lines=())

    record = bisection(tmp_path, untraced, explain=explain).run()
    assert (record.end, record.interrupted, len(record.answers)) == ("", True, 5)
    whole = bisection(tmp_path, untraced, record, explain=lambda *_: ()).run()
    assert (whole.end, whole.suspects, len(whole.answers)) == ("culprit", (SHAS[5],), 5)


def test_a_metric_that_is_better_when_higher_is_told_in_its_own_terms(probe):
    """A quarter more time is a fifth less throughput."""
    one = probe(
        "request_tokens_per_s", lambda *_, **__: Measured(outcome=Outcome.FAIL, estimate=0.25, low=0.0, high=1.0)
    )
    ends = one.ask(OF_ENDS, None)
    assert (ends.change, ends.low, ends.high) == pytest.approx((-0.2, -0.5, 0.0))


def test_what_became_faster_is_searched_with_the_sides_turned_round(probe):
    """So that the slower side is head, of which a comparison is surest."""
    sides = []

    def compare(base, head, _plan, levels, traced):  # noqa: ARG001
        sides.append((base.label, head.label, levels and round(math.expm1(levels.changed), 3)))
        outcome = Outcome.IMPROVED if len(sides) == 1 else Outcome.FAIL
        values = (math.log(0.8),) * 24
        return Measured(outcome=outcome, estimate=-0.2 if len(sides) == 1 else 0.25, values=values)

    one = probe("request_s", compare)
    ends = one.ask(OF_ENDS, None)
    found = one.ask(COMMIT, ends)
    assert (ends.answer, found.answer) == ("bad", "bad")
    assert found.change == pytest.approx(-0.2)
    assert sides == [(SHAS[0][:10], SHAS[8][:10], None), (SHAS[3][:10], SHAS[0][:10], 0.25)]


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (Outcome.PASS, "good"),
        (Outcome.IMPROVED, "good"),
        (Outcome.INCONCLUSIVE, "unclear"),
        (Outcome.SKIPPED, "skip"),
    ],
)
def test_what_a_comparison_says_is_an_answer(probe, outcome, said):
    """A commit that is faster still has not become slower."""
    ends = AnswerRecord(kind="ends", base=SHAS[0], head=SHAS[8], answer="bad", change=0.08)
    assert probe("request_s", lambda *_, **__: Measured(outcome=outcome)).ask(COMMIT, ends).answer == said


def test_a_commit_that_does_not_build_is_skipped_with_the_reason(probe):
    """Nothing is compared."""
    one = probe("request_s", compare=None, broken={SHAS[3]})
    found = one.ask(COMMIT, None)
    assert found.answer == "skip"
    assert found.why == f"{SHAS[3][:10]}: its lock cannot be installed."


def test_a_value_that_repeats_exactly_is_nearer_to_one_of_the_ends(probe):
    """Each commit is measured once."""
    one = probe("temp_bytes")
    one.values |= {SHAS[0]: 10.0, SHAS[8]: 40.0, SHAS[3]: 15.0, SHAS[4]: 30.0}
    ends = one.ask(OF_ENDS, None)
    assert (ends.answer, ends.base_value, ends.head_value) == ("bad", 10.0, 40.0)
    assert one.ask(COMMIT, ends).answer == "good"
    assert one.ask(replace(COMMIT, head=SHAS[4]), ends).answer == "bad"
    one.values[SHAS[8]] = 10.0
    assert one.ask(OF_ENDS, None).answer == "good"


def test_what_never_happened_and_now_does_is_a_change_however_often_it_was_seen(probe):
    """A case that was watched for longer compiles more often."""
    one = probe("compiles_steady")
    one.values |= {SHAS[0]: 0.0, SHAS[8]: 40.0, SHAS[3]: 1.0, SHAS[4]: 0.0}
    ends = one.ask(OF_ENDS, None)
    assert [one.ask(replace(COMMIT, head=SHAS[number]), ends).answer for number in (3, 4)] == ["bad", "good"]
