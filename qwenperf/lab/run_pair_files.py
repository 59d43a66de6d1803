"""Pairs of whole runs on disk, a file each, so that a search that was cut short goes on behind the last run.

::

    profiles/bisect-<id>/runs-<question>-<number>/pair-<stage>-<number>.json

A pair is written after its first run and again when it is over. Half a pair is evidence and no pair: the machine may be
another by the time its second run is made, and so both are made again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from qwenperf.gate.comparison import TOO_MANY_BROKEN
from qwenperf.lab.run_folder import write_text, writing
from qwenperf.lab.run_pairs import PAIR_SCHEMA, RunPair
from qwenperf.schema.documents import read_document
from qwenperf.schema.writing import encode


@dataclass(kw_only=True)
class PairFolders:
    """The folders of a search's questions, below ``folder``.

    ``begun`` tells the search from an earlier one in the same folder. ``answered`` are names of folders whose pairs
    have led to an answer: a question that is asked again is answered by fresh pairs.
    """

    folder: Path
    begun: str
    answered: set[str] = field(default_factory=set)

    def open(self, question: Sequence[Any]) -> Path:
        """Return the folder of a question, which is data: one in which pairs are left of last time, or a new one.

        Raises:
          OutputError: it cannot be made.
          RecordError: a pair in it cannot be read.
        """
        digest = hashlib.sha256(json.dumps([self.begun, *question], sort_keys=True).encode()).hexdigest()[:10]
        for number in count(1):
            place = self.folder / f"runs-{digest}-{number}"
            if not place.exists():
                break
            if place.name not in self.answered and not _is_broken(place):
                return place
        with writing(place):
            place.mkdir(parents=True)
        return place


def _is_broken(place: Path) -> bool:
    """Say whether so many pairs broke that the question was given up."""
    return sum(pair.failed is not None for pair in read_pairs(place)) >= TOO_MANY_BROKEN


def write_pair(place: Path, pair: RunPair) -> None:
    """Write a pair, or what there is of it.

    Raises:
      OutputError: it cannot be written.
    """
    text = json.dumps(encode(pair, RunPair, "", []), indent=1, allow_nan=False)
    write_text(place / f"pair-{pair.stage}-{pair.number:03}.json", f"{text}\n")


def read_pairs(place: Path) -> list[RunPair]:
    """Return the pairs in a folder that are over, in their order.

    Raises:
      RecordError: one cannot be read; names the file.
    """
    files = sorted(place.glob("pair-*.json"))
    told = "Begin anew with --restart."
    pairs = [read_document(file.read_text("utf-8"), str(file), RunPair, PAIR_SCHEMA, advice=told) for file in files]
    return [pair for pair in pairs if pair.is_over]
