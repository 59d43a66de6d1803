"""Writers that are killed, or at work at once, as processes of their own: run by a test, without JAX or threads.

python killed.py every-step STORE   adds a run and dies at the first step, at the second, ... and tells how it ended
python killed.py together STORE     six writers add the same runs at once
python killed.py full STORE         a disk on which no file may be larger than a trace
"""

import importlib.util
import json
import os
import resource
import sys
from pathlib import Path

from qwenperf.errors import StoreError
from qwenperf.store.base import Window
from qwenperf.store.directory import open_store

SPEC = importlib.util.spec_from_file_location("store_runs", Path(__file__).with_name("store_runs.py"))
made = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(made)

STEPS = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.copyfile", "os.truncate", "os.link")
KILLED, WRITERS, RUNS = 9, 6, 5


def in_child(work):
    """Do ``work`` in a process of its own; what it ends with."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = work() or 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die_at(step):
    """End this process at the ``step``-th thing that it asks of the system, as a kill would: nothing is tidied up."""
    seen = 0

    def hook(event, arguments):
        nonlocal seen
        writes = event in STEPS and not (event == "open" and arguments[1] in {"r", "rb"})
        seen += writes
        if writes and seen > step:
            os._exit(KILLED)

    sys.addaudithook(hook)


def every_step(store, place):
    """Yield what is seen after each death, and after the life that adds the run in the end."""
    files = {f"plugins/profile/s/{name}": place / "plugins/profile/s/host.xplane.pb" for name in "ab"}
    source = made.source_of(made.run_of(1), files)
    for step in range(100):

        def work(step=step):
            die_at(step)
            open_store(store).add(source)

        ended = in_child(work)
        seen = open_store(store)
        runs = [run.run for run in seen.runs()]
        whole = all((Path(store) / "run-0001" / name).is_file() for name in files)
        points = len(seen.series(made.CASE, "tpot_s", Window()).points)
        yield {
            "step": step,
            "ended": ended,
            "runs": runs,
            "points": points,
            "whole": whole,
            "bad": len(seen.problems()),
        }
        if ended == 0:
            return


def together(store):
    """Let several writers add the same runs, and return how often each was added and what was seen."""
    reader, writer = os.pipe()
    children = []
    for _ in range(WRITERS):
        child = os.fork()
        if child == 0:
            done = [str(open_store(store).add(made.source_of(made.run_of(day)))) for day in range(RUNS)]
            open_store(store).runs()
            os.write(writer, (json.dumps(done) + "\n").encode())
            os._exit(0)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    os.close(writer)
    with open(reader) as told:  # noqa: PTH123
        done = [json.loads(line) for line in told]
    return {"codes": codes, "added": [[one[day] for one in done].count("added") for day in range(RUNS)]}


def full(store, place):
    """Add a run whose trace does not fit."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    source = made.source_of(made.run_of(1), {"plugins/large": place / "large"})
    try:
        open_store(store).add(source)
    except StoreError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    what, store = sys.argv[1:]
    first = Path(store) / "run-0000"
    works = {
        "every-step": lambda: list(every_step(store, first)),
        "together": lambda: together(store),
        "full": lambda: full(store, first),
    }
    sys.stdout.write(json.dumps(works[what]()))
