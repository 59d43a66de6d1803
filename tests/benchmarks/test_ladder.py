"""Our own ASV suite: what it tracks, and what asv makes of it on commits of this repository."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from qwenperf.asv_plugin import measure
from qwenperf.errors import MeasurementError
from qwenperf.lab import interpreters
from qwenperf.workloads.case import ENGINES
from qwenperf.workloads.suites import ladder

NEWEST = "0.12.0"
IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@b")


@pytest.fixture(scope="module")
def suite(repository):
    sys.path.insert(0, str(repository))
    from benchmarks.suite import ladder

    return ladder


def test_each_rung_is_tracked_in_every_quantity(suite):
    """The suite follows the list of rungs; deterministic quantities come from the same measurement as timed ones."""
    assert suite.Ladder.params == (list(ENGINES),)
    assert {f"track_{name}" for name in ("ms_per_token", "shown_tokens_per_s", "cache_bytes")} <= set(dir(suite.Ladder))
    assert suite.Ladder.setup_cache.timeout >= suite.CASE_LIMIT_S * len(ENGINES)


@pytest.mark.slow
def test_a_case_that_fails_fails_the_suite(suite):
    """A history with silent gaps is worse than a run that ends."""
    (case,) = ladder("tiny", suite.WORKLOAD, engines=("cached",), time_limit_s=0.2)
    with pytest.raises(MeasurementError, match="tiny/cached"):
        measure({"cached": case})


@pytest.mark.parametrize(
    ("name", "python", "jaxes"),
    [
        ("asv.conf.json", "3.11", {None}),
        ("asv.here.json", "3.11", {None}),
        ("asv.matrix.json", "3.12", {"0.10.2", NEWEST}),
    ],
)
def test_asv_reads_each_configuration_as_environments_of_one_suite(repository, name, python, jaxes):
    """The matrix has one for each version of JAX; all keep their results in one place, and rates from being judged."""
    from asv.config import Config
    from asv.environment import iter_matrix

    conf = Config.load(str(repository / name))
    assert (conf.benchmark_dir, conf.results_dir) == ("benchmarks/suite", ".asv/results")
    assert conf.plugins == [".qwenperf.asv_plugin.publishing"]
    found = list(iter_matrix(conf.environment_type, conf.pythons, conf))
    assert {one.get(("req", "jax")) for one in found} == jaxes
    assert {one["python", None] for one in found} == {python}
    assert {one["env_nobuild", "JAX_PLATFORMS"] for one in found} == {"cpu"}


@pytest.fixture(scope="module")
def clone(repository, tmp_path_factory):
    """This repository's last commits, in a checkout of their own, which is asv's home too."""
    folder = tmp_path_factory.mktemp("clone") / "r"
    subprocess.run(("git", "clone", "--quiet", "--shared", str(repository), str(folder)), check=True)
    return folder


def commit(folder, message):
    subprocess.run(("git", *IDENTITY, "commit", "--quiet", "--all", "--message", message), cwd=folder, check=True)


def at_home(folder):
    """Return a home where asv keeps its list of machines; pip's settings stay where they are."""
    home = Path.home()
    elsewhere = {"XDG_CONFIG_HOME": str(home / ".config"), "XDG_CACHE_HOME": str(home / ".cache")}
    return {"HOME": str(folder.parent)} | {name: os.environ.get(name) or place for name, place in elsewhere.items()}


def asv(folder, *words, **more):
    """Run asv on one rung only; ``asv.here.json`` takes this environment's packages."""
    told = at_home(folder) | {"QWENPERF_ASV_ONLY": "cached", "ASV_PACKAGES_OF": sys.prefix} | SOON | more
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ASV_", "QWENPERF_"))}
    return subprocess.run(
        (sys.executable, "-m", "asv", *words), cwd=folder, check=False, capture_output=True, text=True, env=kept | told
    )


SOON = {"PIP_NO_COMPILE": "no", "PYTHONDONTWRITEBYTECODE": ""}
"""Byte code is made of what is imported, and not of all that is installed; pip's switch is on by a word for off."""

FACTS = r"track_(cache_bytes|steady_compiles|tokens_unequal)\('cached'\)"
"""Benchmarks that are the same whenever they are run: anything asv says of them is about the code."""


def machine_of(folder):
    """Register this machine with asv and return its name."""
    done = subprocess.run(
        (sys.executable, "-m", "qwenperf.asv_plugin"), cwd=folder.parent, check=True, capture_output=True, text=True,
        env=os.environ | at_home(folder),
    )  # fmt: skip
    return done.stdout.strip()


@pytest.fixture
def newer_python():
    """The folder of a Python that the matrix names; a skip where there is none, or no package index."""
    found = [one for one in interpreters.interpreters() if one.number == (3, 12)]
    trouble = interpreters._trouble(found[0], [f"jax=={NEWEST}"]) if found else "no Python 3.12"
    if trouble:
        pytest.skip(f"asv.matrix.json cannot be built here: {trouble}")
    return Path(found[0].path).parent


@pytest.mark.slow
def test_asv_builds_a_version_of_jax_for_a_commit_and_measures_that_commit_in_it(clone, newer_python):
    """One environment of the matrix, from nothing: results are saved under its name, and a stale package is refused."""
    both = (clone / "asv.matrix.json").read_text()
    one = both.replace('"0.10.2", ', "")
    assert one != both
    (clone / "asv.one.json").write_text(one)
    machine = machine_of(clone)
    path = os.pathsep.join((str(newer_python), os.environ["PATH"]))
    words = ("--config", "asv.one.json", "--machine", machine, "--bench", FACTS, "--quick", "--show-stderr")
    done = asv(clone, "run", *words, "HEAD^!", PATH=path)
    assert done.returncode == 0, done.stdout + done.stderr

    head = subprocess.run(("git", "rev-parse", "HEAD"), cwd=clone, check=True, capture_output=True, text=True)
    sha = head.stdout.strip()
    (file,) = (clone / ".asv" / "results" / machine).glob(f"{sha[:8]}-*.json")
    saved = json.loads(file.read_text())
    assert (saved["commit_hash"], saved["python"], saved["requirements"]["jax"]) == (sha, "3.12", NEWEST)
    rows = {
        name.split(".")[-1]: dict(zip(saved["result_columns"], row, strict=False))
        for name, row in saved["results"].items()
    }
    values = {name: dict(zip(row["params"][0], row["result"], strict=True))["'cached'"] for name, row in rows.items()}
    assert values.pop("track_cache_bytes") > 0
    assert values == {"track_steady_compiles": 0, "track_tokens_unequal": 0}

    (python,) = (clone / ".asv" / "env").glob("*/bin/python")
    asked = (
        f"import jax, qwenperf; from qwenperf.asv_plugin import check_commit; print(jax.__version__, qwenperf.__file__,"
        f" check_commit('qwenperf', {str(clone)!r}))"
    )
    told = subprocess.run((python, "-P", "-c", asked), check=True, capture_output=True, text=True).stdout.split()
    assert told[::2] == [NEWEST, sha]
    assert python.parent.parent in Path(told[1]).parents
    with Path(told[1]).with_name("units.py").open("a") as units:
        units.write("# Another commit's.\n")
    stale = subprocess.run((python, "-P", "-c", asked), check=False, capture_output=True, text=True)
    assert stale.returncode == 1
    assert f"is not commit {sha[:10]}'s: units.py differs" in stale.stderr


@pytest.mark.slow
@pytest.mark.skipif(sysconfig.get_python_version() != "3.11", reason="asv.here.json names Python 3.11")
def test_asv_continuous_compares_commits_of_this_repository(clone):
    """A change of a document changes nothing; a cache of twice the size is a regression, by name."""
    machine = machine_of(clone)
    options = ("--config", "asv.here.json", "--machine", machine, "--bench", FACTS, "--show-stderr")
    with (clone / "README.md").open("a") as readme:
        readme.write("\nOne more line.\n")
    commit(clone, "Say more")
    same = asv(clone, "continuous", *options, "HEAD~1", "HEAD")
    assert same.returncode == 0, same.stdout + same.stderr
    assert "BENCHMARKS NOT SIGNIFICANTLY CHANGED" in same.stdout
    build = clone / "qwenperf" / "decode" / "build.py"
    before, after = "check_capacity(capacity,", "check_capacity(capacity and capacity + 64,"
    text = build.read_text()
    assert before in text
    build.write_text(text.replace(before, after))
    commit(clone, "Make room")
    worse = asv(clone, "continuous", *options, "HEAD~1", "HEAD")
    assert worse.returncode == 1, worse.stdout + worse.stderr
    assert "track_cache_bytes('cached')" in worse.stdout
    assert "track_tokens_unequal" not in worse.stdout.split("Change")[-1]
