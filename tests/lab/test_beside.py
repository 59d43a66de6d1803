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
