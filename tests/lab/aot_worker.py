"""A stand-in for the compiling process: it does at once, and without JAX, what real ones do on a bad day.

What it does with an item is the item's engine: the first time that it claims it.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

from qwenperf.lab.aot_items import ITEMS, claim
from qwenperf.lab.run_folder import write_text
from qwenperf.schema.analysis import AotCase, ProgramAnalysis, TargetRecord
from qwenperf.schema.codec import dumps


def main():
    folder, descriptor = Path(sys.argv[1]), int(sys.argv[2])

    def say(**message):
        os.write(descriptor, json.dumps(message).encode() + b"\n")

    spec = json.loads((folder / ITEMS).read_text())
    items = spec["items"]
    behaviours = {item["case"]["options"].get("behaviour", "compile") for item in items}
    if "no-start" in behaviours:
        raise RuntimeError("JAX is broken")
    if "unfit" in behaviours:
        say(unfit="JAX does not start: it is broken.")
        return
    say(environment={"platform": "cpu", "jax": "0.0.1"})
    for number, item in enumerate(items):
        if not claim(folder, number):
            continue
        say(item=number)
        behaviour = item["case"]["options"].get("behaviour", "compile")
        if behaviour == "crash":
            sys.stdout.write("last words before the crash\n")
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGABRT)
        if behaviour == "hang":
            time.sleep(600)
        if behaviour == "slow":
            time.sleep(1.5)
        record = AotCase(
            id=item["id"], target=TargetRecord(name=item["target"], platform="cpu"),
            program=ProgramAnalysis(name=item["program"]), compile_s=0.1, extra={"again": spec["again"]},
        )  # fmt: skip
        write_text(Path(item["record"]), "half" if behaviour == "half" else dumps(record))
        say(done=number)


if __name__ == "__main__":
    main()
