"""``python -m qwenperf.asv_plugin``: tell ASV of this machine by what does not change, and print its name."""

from __future__ import annotations

import sys

from qwenperf.asv_plugin.machine import register

if __name__ == "__main__":
    sys.stdout.write(f"{register()}\n")
