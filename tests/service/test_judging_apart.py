"""Series are looked at in a process of its own, which is replaced when it is lost and ends with whoever began it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from qwenperf.service.db import series
from qwenperf.service.judging_apart import JudgeProcess
from qwenperf.service.judging_series import look_at
from qwenperf.service.problems import ServiceUnavailableError

pytest.importorskip("asv")

BEGIN = """
import sys, time
from qwenperf.service.judging_apart import JudgeProcess
class Long:
    def __reduce__(self):
        return time.sleep, (60,)  # whoever reads it is busy for a minute
if __name__ == "__main__":
    judge = JudgeProcess(sys.argv[1])
    assert judge.look([]) == []
    judge._running[1].send(Long())
    time.sleep(0.2)
    print(judge._running[0].pid, flush=True)
    time.sleep(60)
"""


def sent(client, documents):
    """Send runs of which the last needs two compiles more."""
    for number in range(8):
        said = documents.run(number, compiles_steady=2 if number == 7 else 0)
        client.post("/api/v1/projects/demo/runs", json=said).raise_for_status()


def is_gone(pid):
    """Say whether a process has ended; one that nobody has asked for yet has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def within(seconds, holds):
    """Wait until something holds, and say whether it did."""
    ends = time.monotonic() + seconds
    while not holds() and time.monotonic() < ends:
        time.sleep(0.02)
    return holds()


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_it_says_what_this_process_would_and_is_replaced_when_lost(server, client, documents):
    """The round in which it is lost is an error that says so; the next one begins it anew."""
    sent(client, documents)
    database = server.service.database
    with database.read() as connection:
        rows = series.unjudged(connection, 0, 10)
    judge = JudgeProcess(database.url)
    found = judge.look(rows)
    assert [len(one.found) for one in found] == [1]
    assert found == look_at(database, rows)
    process = judge._running[0]
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    with pytest.raises(ServiceUnavailableError, match="was lost"):
        judge.look(rows)
    assert judge.look(rows) == found
    last = judge._running[0].pid
    judge.close()
    assert is_gone(last)
    with pytest.raises(ServiceUnavailableError, match="ending"):
        judge.look(rows)


@pytest.mark.slow
def test_it_ends_with_whoever_began_it(migrated):
    """Killed without a last word, with a long look under way: nothing is left behind."""
    command = [sys.executable, "-c", BEGIN, f"sqlite:///{migrated}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        assert not is_gone(pid)
        parent.kill()
    assert within(10, lambda: is_gone(pid))
