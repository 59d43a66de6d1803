"""Small programs for the tests of this room, written by hand, and the committed ones of real compilers."""

import gzip
import json
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

from qwenperf.program import hlo
from qwenperf.program.analysis import analyse

GOLDEN = Path(__file__).parents[1] / "golden" / "hlo"


@cache
def golden(name):
    """Return the text of a program that a compiler made."""
    return gzip.decompress((GOLDEN / f"{name}.hlo.gz").read_bytes()).decode()


@cache
def figures():
    """Return what the compilers say of those programs, by name."""
    return json.loads((GOLDEN / "figures.json").read_text())


@cache
def analysed(name):
    """Return the analysis of a program that a compiler made."""
    told = figures()[name]
    return analyse("decode_step", golden(name), sizes=told["sizes"], cost=told["cost"], donated=("state",))


def program(*lines, computations=(), aliases="", tables=""):
    """Make a module's text from the lines of its entry and whole other computations."""
    header = f"HloModule m{f', input_output_alias={{ {aliases} }}' if aliases else ''}\n\n{tables}\n"
    entry = "ENTRY %main.1 (a: f32[4]) -> f32[4] {\n" + "".join(f"  {line}\n" for line in lines) + "}\n"
    return header + "".join(f"{one.strip()}\n\n" for one in computations) + entry


def parsed(*lines, **parts):
    """Make a module from the lines of its entry and whole other computations."""
    return hlo.parse(program(*lines, **parts))


def computation(name, *lines):
    """Make the text of one computation."""
    return f"%{name} (p: f32[4]) -> f32[4] {{\n" + "".join(f"  {line}\n" for line in lines) + "}"


def loop(trips, body, *, state="(s32[], f32[4]{0})"):
    """Make the text of a ``while`` over ``%state`` with the condition ``%go``; ``trips`` is what the compiler knows."""
    known = f', backend_config={{"known_trip_count":{{"n":"{trips}"}}}}' if trips is not None else ""
    return f"%loop = {state} while(%state), condition=%go, body=%{body}{known}"


def named(module, name):
    """Return the operation of a module that has a name."""
    return next(one for one in module.operations if one.name == name)


@pytest.fixture(scope="session")
def texts():
    """How programs are made here."""
    return SimpleNamespace(
        golden=golden,
        figures=figures,
        analysed=analysed,
        program=program,
        parsed=parsed,
        computation=computation,
        loop=loop,
        named=named,
    )
