"""A side of a difference is asked through its own command, and what that says is passed on."""

import importlib.util
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from qwenperf.errors import MeasurementError, UsageError
from qwenperf.lab.aot_sides import compile_side, with_engine_of, with_model_of
from qwenperf.lab.own_tree import OwnTree
from qwenperf.lab.sides import Side
from qwenperf.schema.codec import dumps
from qwenperf.schema.records import Status

_SPEC = importlib.util.spec_from_file_location("aot_records", Path(__file__).parents[1] / "gate" / "aot_records.py")
made = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(made)


@pytest.fixture
def side(tmp_path):
    """Make a side whose interpreter is a script."""

    def make(body):
        script = tmp_path / "python"
        script.write_text(f"#!/bin/sh\n{body}\n")
        script.chmod(0o755)
        return Side(name="base", label="main", kind="revision", root=tmp_path, python=str(script))

    return make


def prints(record, code, tmp_path):
    (tmp_path / "record.json").write_text(dumps(record))
    return f"cat record.json; exit {code}"


def test_a_record_is_read_whatever_its_verdict(side, tmp_path):
    """A budget of its own that fails is no matter of the difference."""
    assert compile_side(side(prints(made.record(), 1, tmp_path)), ()) == made.record()


def test_what_a_side_refuses_is_a_wrong_usage(side, tmp_path):
    """Before it compiles anything, with its own words."""
    with pytest.raises(UsageError, match=r"base \(main\).*unknown target 'v5e-3'"):
        compile_side(side("echo \"qwenperf: error: unknown target 'v5e-3'.\" >&2; exit 2"), ())
    refused = replace(
        made.good_case(), program=None, status=Status.MISSING, error="no such engine", extra={"exit_code": 2}
    )
    with pytest.raises(UsageError, match=r"base \(main\): no such engine"):
        compile_side(side(prints(made.record(refused), 2, tmp_path)), ())


def test_a_side_that_breaks_was_not_compiled(side):
    """Its last words are told."""
    with pytest.raises(MeasurementError, match="it is broken"):
        compile_side(side("echo 'it is broken' >&2; exit 70"), ())


def test_a_side_that_takes_too_long_is_asked_to_end(side, tmp_path):
    """So that it can remove what it has made."""
    body = "trap 'touch ended; exit 130' INT\nwhile :; do sleep 0.02; done"
    with pytest.raises(MeasurementError, match="was not compiled within"):
        compile_side(side(body), (), limit_s=0.3)
    assert (tmp_path / "ended").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="another system tells no process of another's end")
def test_a_side_ends_with_whoever_asked_for_it(side, tmp_path):
    """Also where that was killed, and could say nothing."""
    made_side = side("trap 'touch ended; exit 130' INT\ntouch begun\nwhile :; do sleep 0.02; done")
    words = f"name='base', label='main', kind='revision', root=Path({str(tmp_path)!r}), python={made_side.python!r}"
    code = (
        "from pathlib import Path\nfrom qwenperf.lab.aot_sides import compile_side\n"
        "from qwenperf.lab.sides import Side\n"
        f"compile_side(Side({words}), ())"
    )
    with subprocess.Popen([sys.executable, "-c", code]) as asking:
        wait_for(tmp_path / "begun")
        asking.kill()
    wait_for(tmp_path / "ended")


def wait_for(file):
    """Wait until a file is there; a test that waits too long fails."""
    end = time.monotonic() + 30.0
    while not file.exists():
        assert time.monotonic() < end, f"no {file.name}"
        time.sleep(0.02)


def test_an_engine_is_another_s_behind_a_model_whose_path_has_its_name(side):
    """Else every program of one side would be missing on the other."""
    own, other = (replace(side("exit 0"), engine=name) for name in ("cached", "cached+layers=scanned"))
    name = "/data/cached/qwen/cached/b1-p16-n8-f32/decode_step@v5e-1"
    record = replace(made.record(replace(made.good_case(), id=name)), declared=(name,))
    told = with_engine_of(other, record, own)
    assert told.declared == ("/data/cached/qwen/cached+layers=scanned/b1-p16-n8-f32/decode_step@v5e-1",)
    assert [case.id for case in told.cases] == list(told.declared)


def test_a_model_in_a_folder_has_the_id_that_other_commands_give_it():
    """A side is told where the folder lies; a budget, and another record, know it as the user called it."""
    given = "/home/user/models/small"
    case = replace(made.good_case(), id=f"{given}/cached/b1-p16-n8-f32@v5e-1/prefill", spec={"case": {"model": given}})
    other = replace(made.good_case(), id=f"{given}er/cached/b1-p16-n8-f32@v5e-1/prefill")
    told = with_model_of(replace(made.record(case, other), declared=(case.id, other.id)), "models/small", given)
    assert told.declared == ("models/small/cached/b1-p16-n8-f32@v5e-1/prefill", other.id)
    assert [one.id for one in told.cases] == list(told.declared)
    assert told.cases[0].spec == {"case": {"model": "models/small"}}


def test_programs_of_another_copy_of_an_engine_are_none_of_a_revision(side, tmp_path):
    """Both sides would be the same code, and the difference none."""
    root = tmp_path / "tree"
    root.mkdir()
    tree = OwnTree(root=root, folders=(root,), packages=("theirs",), checkout=tmp_path)

    def compiled(**extra):
        record = made.record(replace(made.good_case(), extra=extra))
        (root / "record.json").write_text(dumps(record))
        asked = replace(side('echo "$@" > asked; cat record.json'), tree=tree)
        return compile_side(asked, ())

    assert compiled(engine_file=str(root / "theirs.py")).cases
    assert "--no-engine-here" in (root / "asked").read_text()
    for extra in ({"engine_file": str(tmp_path / "theirs.py")}, {}):
        with pytest.raises(MeasurementError, match="not from the revision's tree"):
            compiled(**extra)
