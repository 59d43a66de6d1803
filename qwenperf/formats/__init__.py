"""Formats: other tools' files, in and out. Text in, records out, and back; ``convert`` is the way in.

Knows no file system, no network and no JAX: whoever reads files hands over their text. What a tool's number means is
kept as that tool says it: foreign metrics keep their own names and units, because TPOT, ITL and throughput are
defined differently everywhere.
"""
