"""A stand-in for the measuring process: it does at once, and without JAX, what real ones do on a bad day."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from qwenperf.lab.run_folder import write_text
from qwenperf.schema.codec import dumps
from qwenperf.schema.records import CaseRecord, Status, metric


def write(text):
    sys.stdout.write(text)
    sys.stdout.flush()


def main():
    spec, out, descriptor = json.loads(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])

    def say(**message):
        os.write(descriptor, json.dumps(message).encode() + b"\n")

    case = spec["case"]
    behaviour = case["options"].get("behaviour", "measure")
    say(environment={"platform": "cpu", "cores": 2, "machine": "x86_64"})
    say(phase="cold")
    if behaviour == "hang":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        write(f"compiling for ever {child.pid}\n")
        time.sleep(600)
    if behaviour == "crash":
        write("first words\nlast words before the crash\n")
        os.kill(os.getpid(), signal.SIGSEGV)
    if behaviour == "traceback":
        raise RuntimeError("the engine is broken")
    if behaviour == "flood":
        write("noise " * 200_000)
    if behaviour == "leave-a-child":
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], pass_fds=(descriptor,))
    say(phase="steady")
    if behaviour in {"hang-checking", "crash-checking"}:
        kept = CaseRecord(id="kept", spec=case, status=Status.INTERRUPTED, metrics={"ttft_s": metric("ttft_s", 0.5)})
        write_text(out, dumps(kept))
        say(phase="tokens")
        if behaviour == "crash-checking":
            os.kill(os.getpid(), signal.SIGSEGV)
        time.sleep(600)
    workload = case["workload"]
    case_id = f"{case['model']}/{case['engine']}/b{workload['batch']}-p{workload['prompt_length']}"
    case_id += f"-n{workload['new_tokens']}-{workload['dtype']}"
    record = CaseRecord(id=case_id, spec=case, metrics={"decode_tokens_per_s": metric("decode_tokens_per_s", 100.0)})
    write_text(out, dumps(record))


if __name__ == "__main__":
    main()
