import itertools

import numpy as np

from qwenperf.lab.beside import Asked, measure_in_turn
from qwenperf.lab.request import make_request

TRIALS, NEW = 3, 4


def test_engines_take_turns_and_each_record_has_the_readings_of_all_its_turns():
    """A machine that becomes slower meanwhile slows both, and their quotient stays what it was."""
    calls = []

    def one(tokens, new_tokens):
        calls.append("one")
        return np.zeros((len(tokens), new_tokens), np.int32)

    def other(tokens, new_tokens):
        calls.append("other")
        return np.zeros((len(tokens), new_tokens), np.int32)

    asked = [
        Asked(request=make_request(call, [1, 2], NEW), case_id=call.__name__, spec={"engine": call.__name__})
        for call in (one, other)
    ]
    records = measure_in_turn(asked, trials=TRIALS)
    assert [name for name, _ in itertools.groupby(calls)] == ["one", "other"] * TRIALS
    assert [record.id for record in records] == ["one", "other"]
    for record in records:
        assert len(record.metrics["request_s"].samples) == len(record.metrics["ttft_s"].samples) == TRIALS
        assert record.metrics["request_s"].coverage == 0.75


def test_an_engine_that_remembers_its_answers_works_in_every_turn():
    """Beside another, each turn has a prompt that was not asked for before, and both engines have the same ones."""
    worked, plain = [], []

    def remembering(tokens, new_tokens, known={}):  # noqa: B006  (what it remembers)
        key = (tokens.tobytes(), new_tokens)
        if key not in known:
            worked.append(tuple(tokens[0].tolist()))
            known[key] = np.zeros((len(tokens), new_tokens), np.int32)
        return known[key]

    def forgetting(tokens, new_tokens):
        plain.append(tuple(tokens[0].tolist()))
        return np.zeros((len(tokens), new_tokens), np.int32)

    prompt = [1, 2, 3, 4, 5]
    asked = [
        Asked(request=make_request(call, prompt, NEW), case_id=call.__name__, spec={})
        for call in (remembering, forgetting)
    ]
    measure_in_turn(asked, trials=TRIALS)
    # A request and a first token are timed in each turn; the compared prompt is worked at once for each length.
    assert len(worked) == 2 + 2 * TRIALS
    assert set(worked) == set(plain)
    assert worked.count(tuple(prompt)) == 2
