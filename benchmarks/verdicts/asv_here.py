"""An environment for asv: the interpreter and packages that run here, whatever commit is measured.

So that what `asv continuous` compares differs in the commit alone, and nothing is downloaded. A commit's own part is
one file, which its ``install_command`` puts into the environment's folder. See `live_asv`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from asv import environment

_SCRIPTS = {"python": "", "pip": " -m pip"}


class Here(environment.Environment):  # type: ignore[misc]
    """Runs what it is asked with this interpreter."""

    tool_name = "here"

    def __init__(self, conf: Any, python: str, requirements: Any, tagged_env_vars: Any) -> None:  # noqa: ARG002
        # Read by names that the base class makes before it keeps them itself.
        self._python: str = python
        self._requirements: dict[str, str] = {}
        self._tagged_env_vars = tagged_env_vars
        super().__init__(conf, python, {}, tagged_env_vars)

    @classmethod
    def matches(cls, python: str) -> bool:
        """Say whether that is the version that runs here."""
        return python == f"{sys.version_info.major}.{sys.version_info.minor}"

    def _setup(self) -> None:
        scripts = Path(self._path) / "bin"
        scripts.mkdir(parents=True, exist_ok=True)
        for name, more in _SCRIPTS.items():
            script = scripts / name
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}"{more} "$@"\n', encoding="utf-8")
            script.chmod(0o755)

    def run(self, args: list[str], **kwargs: Any) -> Any:
        """Run this interpreter with ``args``."""
        return self.run_executable("python", args, **kwargs)
