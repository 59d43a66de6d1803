"""The search for a culprit, against planted ones in histories of all shapes, with skipped commits and noise."""

from hypothesis import given, settings
from hypothesis import strategies as st

from qwenperf.lab.bisect_search import Answer, End, Found, Kind, Question, Search

LINE = {f"c{number}": (f"c{number - 1}" if number > 1 else "good",) for number in range(1, 17)}


@st.composite
def histories(draw):
    """Parents of commits, in an order in which parents come first; the last one is bad and follows all others."""
    count = draw(st.integers(1, 24))
    names = ["good"]
    parents = {}
    for number in range(1, count + 1):
        recent = names[-3:]
        parents[f"c{number}"] = tuple(draw(st.lists(st.sampled_from(recent), min_size=1, max_size=2, unique=True)))
        names.append(f"c{number}")
    kept = ancestors(parents, names[-1])
    return {name: each for name, each in parents.items() if name in kept}


def ancestors(parents, name):
    """Return a commit and all that came before it."""
    found, todo = set(), [name]
    while todo:
        one = todo.pop()
        if one not in found:
            found.add(one)
            todo += parents.get(one, ())
    return found


def search_of(parents, **more):
    return Search(good="good", bad=list(parents)[-1], parents=parents, **more)


def run(search, answer, most=400):
    """Ask until the search ends; return its end and what was said."""
    said = []
    while isinstance(step := search.next_step(said), Question):
        said.append((step, answer(step, said)))
        assert len(said) < most, "the search does not end"
    return step, said


def planted(parents, culprit, skipped=frozenset()):
    """Return what a comparison without noise says where ``culprit`` made the change."""

    def answer(question, _said):
        if question.kind is Kind.COMMIT and question.head in skipped:
            return Answer.SKIP
        old, new = (culprit in ancestors(parents, name) for name in (question.base, question.head))
        return Answer.BAD if new and not old else Answer.GOOD

    return answer


@settings(max_examples=40, deadline=None)
@given(histories(), st.data())
def test_a_planted_culprit_is_found(parents, data):
    """In any history, with no commit asked about twice."""
    culprit = data.draw(st.sampled_from(list(parents)))
    if culprit not in ancestors(parents, list(parents)[-1]):
        return
    found, said = run(search_of(parents), planted(parents, culprit))
    assert (found.end, found.suspects) == (End.CULPRIT, (culprit,))
    assert found.base in {*parents[culprit], "good"}
    asked = [question.head for question, _ in said if question.kind is Kind.COMMIT]
    assert len(asked) == len(set(asked))


def test_sixteen_commits_take_four_questions_between_the_ends():
    """And one each for the ends and for the culprit against its parent."""
    for culprit in LINE:
        search = search_of(LINE)
        found, said = run(search, planted(LINE, culprit))
        assert found.suspects == (culprit,)
        assert sum(question.kind is Kind.COMMIT for question, _ in said) == 4
        assert len(said) <= search.most_left([]) == 6
        for done in range(len(said) + 1):
            assert len(said) - done <= search.most_left(said[:done])


@settings(max_examples=40, deadline=None)
@given(histories(), st.data())
def test_skipped_commits_leave_a_range_that_holds_the_culprit(parents, data):
    """And nothing beside it that an answer of another commit would have ruled out."""
    names = list(parents)
    culprit = data.draw(st.sampled_from(names))
    skipped = data.draw(st.frozensets(st.sampled_from(names)))
    found, said = run(search_of(parents), planted(parents, culprit, skipped))
    assert culprit in found.suspects
    if found.end is End.CULPRIT:
        assert found.suspects == (culprit,)
    else:
        assert found.end is End.RANGE
        told = {question.head for question, answer in said if answer is Answer.SKIP}
        last = next(name for name in reversed(found.suspects))
        assert set(found.suspects) - {last} <= told
    asked = [question.head for question, _ in said if question.kind is Kind.COMMIT]
    assert len(asked) == len(set(asked))


def test_a_skipped_commit_has_its_neighbour_asked():
    """As near to the middle as there is one that can be measured."""
    first = search_of(LINE).next_step([(Question(kind=Kind.ENDS, base="good", head="c16"), Answer.BAD)])
    _, said = run(search_of(LINE), planted(LINE, "c3", {first.head}))
    assert said[1][0].head == first.head
    assert abs(int(said[2][0].head[1:]) - int(first.head[1:])) == 1


@settings(max_examples=40, deadline=None)
@given(histories(), st.data())
def test_noise_that_hides_an_answer_never_makes_a_wrong_one(parents, data):
    """An unclear commit is asked about again; what stays unclear is no evidence."""
    culprit = data.draw(st.sampled_from(list(parents)))
    right = planted(parents, culprit)

    def answer(question, said):
        return Answer.UNCLEAR if data.draw(st.booleans()) else right(question, said)

    found, said = run(search_of(parents, most_attempts=2, most_reopened=2), answer)
    if found.end is End.CULPRIT:
        assert found.suspects == (culprit,)
    elif found.end is End.RANGE:
        assert culprit in found.suspects
    else:
        assert found.end is End.UNCLEAR
        assert [answer for _, answer in said] == [Answer.UNCLEAR] * 2


@settings(max_examples=40, deadline=None)
@given(histories(), st.data())
def test_whatever_is_answered_the_search_ends(parents, data):
    """Also where answers contradict each other."""
    choices = st.sampled_from(list(Answer))
    found, _ = run(search_of(parents), lambda _question, _said: data.draw(choices))
    assert found.end is not End.RANGE or found.suspects


@settings(max_examples=40, deadline=None)
@given(histories(), st.data())
def test_a_wrong_answer_is_found_out_by_the_culprit_s_parent(parents, data):
    """One comparison in a search is wrong: the commit that is named is the right one, or a range is."""
    names = list(parents)
    culprit = data.draw(st.sampled_from(names))
    right = planted(parents, culprit)
    wrong = data.draw(st.integers(0, 5))
    asked = []

    def answer(question, said):
        if question.kind is not Kind.COMMIT:
            return right(question, said)
        asked.append(question)
        true = right(question, said)
        lie = {Answer.GOOD: Answer.BAD, Answer.BAD: Answer.GOOD}
        return lie[true] if len(asked) == wrong + 1 else true

    found, _ = run(search_of(parents), answer)
    assert (found.end, found.suspects) == (End.CULPRIT, (culprit,))


def test_a_step_that_is_never_there_ends_with_all_that_was_searched():
    """The culprit and its parent are asked about again, then every commit; then no answer is believed."""
    ends = (Question(kind=Kind.ENDS, base="good", head="c4"), Answer.BAD)
    line = {name: LINE[name] for name in ("c1", "c2", "c3", "c4")}
    lies = {"c2": Answer.GOOD, "c3": Answer.BAD}
    said = [ends]
    search = search_of(line)
    while isinstance(step := search.next_step(said), Question):
        said.append((step, Answer.GOOD if step.kind is Kind.STEP else lies[step.head]))
    assert [question.head for question, _ in said if question.kind is Kind.STEP] == ["c3"] * 3
    assert [question.head for question, _ in said].count("c2") == 3
    assert (step.end, step.suspects) == (End.RANGE, tuple(line))


def test_ends_that_do_not_differ_end_the_search_at_once():
    """So do ends of which one cannot be measured."""
    for answer, end in ((Answer.GOOD, End.SAME), (Answer.SKIP, End.BROKEN)):
        assert run(search_of(LINE), lambda *_, answer=answer: answer)[0] == Found(end=end)


def test_a_metric_without_noise_needs_no_confirmation():
    """Its values are what they are."""
    _, said = run(search_of(LINE, confirm=False), planted(LINE, "c7"))
    assert {question.kind for question, _ in said} == {Kind.ENDS, Kind.COMMIT}


def test_the_log_is_the_whole_state():
    """A search that is read from its log at any point asks what it would have asked."""
    _, said = run(search_of(LINE), planted(LINE, "c11", {"c8", "c12"}))
    for done in range(len(said)):
        assert search_of(LINE).next_step(said[:done]) == said[done][0]
