"""The command line: an edge. It reads files, the environment and flags, and hands data to the rooms below."""

from qwenperf.cli.group import main

__all__ = ["main"]
