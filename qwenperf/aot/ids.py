"""Names of what is compiled. Imports no JAX."""

from __future__ import annotations

PROGRAMS = ("prefill", "decode_step")
"""What every engine has. The first takes a compiler longer."""


def program_id(case_id: str, target: str, program: str) -> str:
    """Return the id of a program: ``<case>@<target>/<program>``."""
    return f"{case_id}@{target}/{program}"
