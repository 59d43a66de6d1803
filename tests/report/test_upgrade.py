"""The report of an upgrade: what its table says of a version is what the command ends with."""

from qwenperf.report.terminal import render
from qwenperf.report.upgrade import upgrade_report
from qwenperf.schema.records import Outcome, Verdict
from qwenperf.schema.upgrade import UpgradeRecord, VersionCase, VersionRecord


def test_a_version_that_was_not_compared_has_not_passed_and_an_excused_one_says_so():
    """Equal tokens are no pass of a case without times, and an accepted cost is no failure."""
    same = Verdict(gate="tokens", outcome=Outcome.PASS, summary="same tokens")
    lost = Verdict(gate="speed", outcome=Outcome.SKIPPED, summary="all pairs broke")
    slower = Verdict(gate="speed", outcome=Outcome.FAIL, summary="slower", data={"excused": "accepted: exact"})
    cases = {"one": VersionCase(), "two": VersionCase(verdicts=(same, lost)), "three": VersionCase(verdicts=(slower,))}
    versions = tuple(VersionRecord(label=label, cases={"a/b/c": case}) for label, case in cases.items())
    record = UpgradeRecord(id="u", created_at="", base="one", versions=versions)
    (row,) = [line for line in render(upgrade_report(record, "file")).splitlines() if line.startswith("verdict")]
    assert [cell.strip() for cell in row.split("  ") if cell] == ["verdict", "base", "not compared", "FAIL, excused"]
