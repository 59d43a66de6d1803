"""What other tools tell of a run besides its values: of which environment it is, and which readings were told before.

Tools keep their results in files that grow: what was read from one once comes again with what is new in it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from qwenperf.gate.differences import STABLE, environment_key
from qwenperf.schema.records import CaseRecord, RunRecord

_SOURCE = "source"
"""Key under which a run says that another tool measured it."""

_WAVERS = re.compile(r"volatile|ram|hz_\w+")
"""What differs from boot to boot of one machine: asv's bytes of memory, and the clock of the moment, which
pytest-benchmark also calls the advertised one where the processor's name has none."""

_SERVER = "server"
_OF_THE_MOMENT = re.compile(
    r"internal_states|prefill|decode|status|load|kv_events|step_time\w*|memory_usage|avg_\w+|last_\w+|random_seed"
    r"|max_total_num_tokens|max_req_input_len|effective_\w+|base_gpu_id|host|\w*api_key|log_\w+|otlp_\w+"
    r"|(?:\w+_)?(?:ports?|ip|addr|endpoint|urls?|dir|folder)"
)
"""What differs from start to start of one server of SGLang: a seed that was drawn, ports, how much memory was left,
where it writes, and how fast it was last. What it was started with besides says which server it is."""

_OF_A_COMMIT = re.compile(r"\.dev.*|\+.*")
"""Of a version: nightly builds have one for each commit, which is what is measured and not where."""

_SERVING = {"vllm", "sglang"}
"""Tools whose results are told again with another time where they say none: a file of lines is as old as its last."""


def environment_of(run: RunRecord) -> str:
    """Return the key of a run's environment; of one that another tool measured all that is told of it counts.

    Other tools have words of ours for other things: ``machine`` is a name to asv, and an architecture to
    pytest-benchmark. By these alone different machines would be one.
    """
    is_ours = _SOURCE not in run.extra or not run.environment.keys() & {*STABLE}
    if not is_ours:
        return environment_key({"told": _settled(run.environment)})
    server = run.environment.get(_SERVER)
    if _SOURCE in run.extra and isinstance(server, Mapping):
        return environment_key({**run.environment, _SERVER: _started(server)})
    return environment_key(run.environment)


def _settled(told: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _settled(one) if isinstance(one, Mapping) else one
        for name, one in told.items()
        if not _WAVERS.fullmatch(name)
    }


def _started(server: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: one for name, one in server.items() if not _OF_THE_MOMENT.fullmatch(name)}
    version = kept.get("version")
    return {**kept, "version": _OF_A_COMMIT.sub("", version)} if isinstance(version, str) else kept


def reading_of(run: RunRecord, case: CaseRecord, environment: str) -> str | None:
    """Return what is the same whenever another tool's file tells of this reading; ``None`` where its run's id is.

    asv adds benchmarks to the file of a commit, and serving benchmarks lines to theirs: each time all of it is read.
    ``environment`` is the key of the run's.
    """
    source = run.extra.get(_SOURCE)
    tool = source.get("format") if isinstance(source, Mapping) else None
    sha = run.commit.get("sha") or ""
    if tool == "asv":
        return _digest(tool, sha, environment, _started_at(source, case), case.id)
    if tool in _SERVING:
        return _digest(tool, sha, case.id, {name: one.value for name, one in case.metrics.items()})
    return None


def is_told_again(there: RunRecord, new: RunRecord) -> bool:
    """Say whether both were read from the same part of a file of another tool, by which such runs have their ids.

    What lies beside the file may have changed since, such as asv's list of benchmarks: what was read first stays.
    """
    tools = [run.extra.get(_SOURCE) for run in (there, new)]
    formats = [one.get("format") if isinstance(one, Mapping) else None for one in tools]
    same = (there.id, there.created_at, there.suite, there.commit) == (new.id, new.created_at, new.suite, new.commit)
    return same and formats[0] is not None and formats[0] == formats[1]


def version_of(run: RunRecord, case: CaseRecord) -> str:
    """Return the version of the benchmark that made a case; empty where its tool knows no versions.

    A file that was imported before a benchmark changed knows no other version than its own.
    """
    source = run.extra.get(_SOURCE)
    version = case.spec.get("version") if isinstance(source, Mapping) and source.get("format") == "asv" else None
    return version if isinstance(version, str) else ""


def _started_at(source: Any, case: CaseRecord) -> Any:
    """Return when asv began with a benchmark; where it does not say, what came out tells two readings apart."""
    rows = source.get("benchmarks")
    row = rows.get(case.spec.get("benchmark")) if isinstance(rows, Mapping) else None
    began = row.get("started_at") if isinstance(row, Mapping) else None
    return began if began is not None else {name: one.value for name, one in case.metrics.items()}


def _digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]
