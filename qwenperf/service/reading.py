"""What was sent, as what is kept: records of ours, files of other tools, and the project's own budgets on them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from qwenperf.errors import RecordError, UsageError
from qwenperf.formats.convert import OWN, read
from qwenperf.formats.foreign import Told
from qwenperf.formats.place import Document
from qwenperf.gate.budget import parse as parse_budgets
from qwenperf.gate.evaluate import judge_run
from qwenperf.schema.codec import from_json, to_json
from qwenperf.schema.hints import show
from qwenperf.service.arrivals import ArrivedComparison, ArrivedRun, arrived_run, judged, pack, read_record, unpack
from qwenperf.service.db.main_line import UNKNOWN
from qwenperf.service.times import not_ahead

VALUES_LIMIT = 2_000_000
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_HEADS, _PULL = "refs/heads/", re.compile(r"refs/pull/([1-9][0-9]{0,8})/")
EVENTS_OF_BRANCHES = frozenset({"push", "pull_request", "merge_group", "schedule", "workflow_dispatch"})
"""Events whose jobs measure the commit that they are of. Others have rights, and work on what strangers sent."""

_TIMES = {"created_at": "created_at", "measured_at": "created_at", "committed_at": "commit.committed_at"}
Arrived = ArrivedRun | ArrivedComparison


def read_sent(data: bytes, kind: str, told: Told, budgets: str) -> Sequence[Arrived]:
    """Read a record, or the file of another tool where ``kind`` names its format, and judge runs by ``budgets``.

    Raises:
      RecordError: it cannot be read; names the key path and what was seen.
      UnknownNameError: no such format.
    """
    _check_number(data)
    if kind in {"", OWN}:
        return [_judged(read_record(data), budgets)]
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RecordError(f"the file is not UTF-8: {error}.") from error
    runs = read([Document(name="the file", text=text)], told, kind)
    if not runs:
        raise RecordError("the file holds no run.", advice="Was the benchmark run?")
    return [_judged(arrived_run(run, pack(to_json(run))), budgets) for run in runs]


def timely(arrived: Arrived, now: int) -> Arrived:
    """Return what was sent, measured before ``now`` by the clocks that people have.

    Raises:
      RecordError: it comes from the future.
    """
    found = arrived.comparison if isinstance(arrived, ArrivedComparison) else arrived.run
    for key, name in _TIMES.items():
        if found.get(key) is not None:
            not_ahead(found[key], now, name)
    return arrived


def forked(arrived: Arrived, fork_point: str, at: int | None) -> Arrived:
    """Return what was sent with the commit at which its branch left the default one, and when that was made.

    Raises:
      UsageError: that is no commit, or only its time is told.
    """
    if not fork_point and at is None:
        return arrived
    if _COMMIT.fullmatch(fork_point) is None:
        raise UsageError(f"fork_point is {show(fork_point)}.", advice="Give the commit's 7 to 64 hexadecimal digits.")
    if isinstance(arrived, ArrivedComparison):
        return arrived
    return replace(arrived, run=arrived.run | {"fork_point": fork_point, "forked_at": at})


def placed(arrived: Arrived, pull: int | None, job: Mapping[str, str], main: str) -> Arrived:
    """Return a run on the branch that it was measured for, where its own word is none or the default one.

    Git calls a checkout of a pull request HEAD, or what its author's branch is called, which may be ``main``: such a
    run is no baseline of anybody and no alert. Neither is one of a job that works on what strangers sent, though GitHub
    calls the default branch its ref. ``pull`` is its sender's word, ``job`` that of its identity's issuer.
    """
    if isinstance(arrived, ArrivedComparison) or arrived.run["branch"] not in {main, *UNKNOWN}:
        return arrived
    ref, event = job.get("ref", ""), job.get("event_name", "")
    if pull is None and (found := _PULL.match(ref)):
        pull = int(found[1])
    branch = arrived.run["branch"]
    if pull is not None:
        branch = f"pull/{pull}"
    elif job and event not in EVENTS_OF_BRANCHES:
        branch = f"event/{event or 'unknown'}"
    elif branch in UNKNOWN and ref.startswith(_HEADS) and not _leaves(arrived, main, ref):
        branch = ref.removeprefix(_HEADS)
    return replace(arrived, run=arrived.run | {"branch": branch})


def _leaves(arrived: ArrivedRun, main: str, ref: str) -> bool:
    """Say whether a run names where it left the default branch, and its job is of that one: it is of neither."""
    return bool(arrived.run.get("fork_point")) and ref == _HEADS + main


def _check_number(data: bytes) -> None:
    """Refuse what is small to send and large to hold: each value takes many times its text."""
    found = data.count(b",") + data.count(b"{") + data.count(b"[")
    if found > VALUES_LIMIT:
        advice = "Send fewer samples, or several runs."
        raise RecordError(f"the record holds about {found} values; {VALUES_LIMIT} are taken.", advice=advice)


def _judged(arrived: Arrived, budgets: str) -> Arrived:
    if not budgets or isinstance(arrived, ArrivedComparison):
        return arrived
    run = from_json(unpack(arrived.content.body))
    return replace(arrived, **judged(judge_run(run, parse_budgets(json.loads(budgets), "the project's budgets"))))
