"""What a killed service leaves of its viewers goes at the next start, and nothing else does."""

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from qwenperf.service.settings import ServiceSettings
from qwenperf.service.viewers import folders

HOLDS = """
import time
from qwenperf.service.viewers import folders
held = folders.make()
(held.path / "traces").mkdir()
(held.path / "traces" / "host.xplane.pb").write_bytes(b"trace")
print(held.path, flush=True)
time.sleep(600)
"""


def beside(name):
    """Load a module that lies beside the tests."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """The folder of temporary files."""
    found = tmp_path / "temporary"
    found.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(found))
    return found


def left():
    """Return a folder as a killed process leaves it: the system lets go of its lock."""
    made = folders.make()
    (made.path / "traces" / "plugins").mkdir(parents=True)
    (made.path / "traces" / "plugins" / "host.xplane.pb").write_bytes(b"trace")
    (made.path / "log").write_bytes(b"said")
    made.lock.close()
    return made.path


def test_a_folder_stays_while_its_process_lives_and_goes_when_that_was_killed(place):
    """Whatever number another process has by then."""
    environment = os.environ | {"TMPDIR": str(place)}
    with subprocess.Popen([sys.executable, "-c", HOLDS], env=environment, stdout=subprocess.PIPE, text=True) as holder:
        try:
            path = Path(holder.stdout.readline().strip())
            assert path.parent == place
            assert (folders.sweep(), (path / "traces" / "host.xplane.pb").exists()) == (0, True)
        finally:
            holder.kill()
    assert (folders.sweep(), path.exists()) == (1, False)


def test_a_service_that_starts_removes_what_one_before_has_left(tmp_path):
    """And not what another has that still runs."""
    path, held = left(), folders.make()
    with beside("running").serving(ServiceSettings(data=tmp_path / "data", judge=False, sweep_s=0)):
        assert not path.exists()
        assert held.path.exists()
    held.remove()
    held.remove()
    assert not held.path.exists()


def test_a_link_in_such_a_folder_leads_nowhere(tmp_path):
    """The link goes, and what it points to stays."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").write_bytes(b"kept")
    path = left()
    for folder in (path, path / "traces"):
        (folder / "link").symlink_to(tmp_path / "elsewhere")
        (folder / "file").symlink_to(tmp_path / "elsewhere" / "kept")
    assert (folders.sweep(), path.exists()) == (1, False)
    assert (tmp_path / "elsewhere" / "kept").read_bytes() == b"kept"


def unmarked(path):
    (path / "owner").unlink()


def of_other_words(path):
    (path / "owner").write_bytes(b"mine\n")


def marked_by_a_link(path):
    (path / "owner").rename(path.parent / "mark")
    (path / "owner").symlink_to(path.parent / "mark")


def marked_by_a_pipe(path):
    unmarked(path)
    os.mkfifo(path / "owner")


def open_to_others(path):
    path.chmod(0o755)


def of_another_name(path):
    path.rename(path.with_name("somebody-s"))


def behind_a_link(path):
    other = path.parent.parent / "elsewhere"
    path.rename(other)
    path.symlink_to(other)


def of_another_user(path):
    if os.geteuid():
        pytest.skip("only root gives a folder away")
    os.chown(path, 65534, 65534)


def no_folder(path):
    path.rename(path.parent.parent / "elsewhere")
    path.write_bytes(b"mine")


@pytest.mark.parametrize(
    "changed",
    [
        unmarked, of_other_words, marked_by_a_link, marked_by_a_pipe, open_to_others, of_another_name, behind_a_link,
        of_another_user, no_folder,
    ],
)  # fmt: skip
def test_what_is_not_provably_such_a_folder_stays_as_it_is(changed, tmp_path):
    """Others put things into the same place, and may call them alike."""
    changed(left())
    before = sorted(tmp_path.rglob("*"))
    assert folders.sweep() == 0
    assert sorted(tmp_path.rglob("*")) == before
