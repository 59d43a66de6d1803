"""`qwenperf explain`: which verdicts it tells."""

import pytest

from qwenperf.cli import main
from qwenperf.cli.explain import _told
from qwenperf.errors import UnknownNameError
from qwenperf.schema.codec import dumps
from qwenperf.schema.comparison import ComparedCase, ComparisonRecord, SideRecord
from qwenperf.schema.records import Outcome, Verdict

SIDE = SideRecord(label="x", kind="same")
VERDICTS = {
    "tokens": Outcome.PASS,
    "sizes:temp_bytes": Outcome.FAIL,
    "sizes:weight_bytes": Outcome.IMPROVED,
    "speed": Outcome.PASS,
}


def gates(asked):
    """Return the gates that are told of when ``asked`` is asked for."""
    verdicts = tuple(Verdict(gate=gate, outcome=outcome, summary="seen") for gate, outcome in VERDICTS.items())
    case = ComparedCase(id="case", verdicts=verdicts)
    record = ComparisonRecord(id="c", created_at="", base=SIDE, head=SIDE, cases=(case,))
    return [line.split("gate ")[1].split(": ")[0] for line in _told(record, case, asked) if "case, gate " in line]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (None, ["sizes:temp_bytes", "speed"]),
        ("tokens", ["tokens"]),
        ("sizes:weight_bytes", ["sizes:weight_bytes"]),
        ("sizes", ["sizes:temp_bytes", "sizes:weight_bytes"]),
    ],
)
def test_a_gate_is_asked_for_by_its_name(asked, told):
    """One with a verdict for each metric also as a whole; by default what failed, then speed."""
    assert gates(asked) == told


def test_a_gate_that_is_none_is_refused():
    """A part of a name is none."""
    with pytest.raises(UnknownNameError, match="unknown gate 'size'"):
        gates("size")


def test_what_a_stranger_s_comparison_says_steers_no_terminal(tmp_path, capsys):
    """It is shown, and does nothing; nor does half a character end the command."""
    evil = "\x1b]0;x\x07\ud800\r"
    verdict = Verdict(gate="tokens", outcome=Outcome.FAIL, summary=evil, detail=(evil,), advice=evil)
    case = ComparedCase(id=f"a{evil}", verdicts=(verdict,))
    file = tmp_path / "comparison.json"
    file.write_text(dumps(ComparisonRecord(id="c", created_at="", base=SIDE, head=SIDE, cases=(case,))))
    with pytest.raises(SystemExit) as ended:
        main(["explain", str(file)])
    lines = capsys.readouterr().out.split("\n")
    assert ended.value.code == 0
    assert [line for line in lines if not line.isprintable()] == []
    assert lines[0] == "a?]0;x???, gate tokens: fail."
