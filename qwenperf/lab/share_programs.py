"""Compiled programs of several processes, put together for later ones. Knows files, not what is in them."""

from __future__ import annotations

import shutil
from pathlib import Path

from qwenperf.lab.run_folder import writing


def share_programs(*folders: Path | None, into: Path) -> None:
    """Put what is in ``folders`` together; of a program that several of them have, the first one's copy is kept.

    Raises:
      OutputError: ``into`` cannot be written.
    """
    with writing(into):
        into.mkdir(parents=True, exist_ok=True)
        for folder in filter(None, folders):
            for file in sorted(path for path in folder.rglob("*") if path.is_file()):
                place = into / file.relative_to(folder)
                place.parent.mkdir(parents=True, exist_ok=True)
                if not place.exists():
                    shutil.copyfile(file, place)
