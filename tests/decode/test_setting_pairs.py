import os
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_pairs_of_settings_decode_right_or_are_refused_in_words(repository):
    """A seeded sample; `python tools/setting_pairs.py --all` tries every pair."""
    command = [sys.executable, "tools/setting_pairs.py", "--count", "16", "--seed", "7"]
    # Each pair's programs are run a few times: better made quickly than well.
    environ = os.environ | {"XLA_FLAGS": "--xla_backend_optimization_level=0"}
    done = subprocess.run(
        command, cwd=repository, capture_output=True, text=True, timeout=300, check=False, env=environ
    )
    assert done.returncode == 0, done.stdout + done.stderr
    *_, summary = done.stdout.splitlines()
    right, refused, wrong = (int(part.split()[0]) for part in summary.split(", "))
    assert (right > 12, refused > 300, wrong) == (True, True, 0), summary
