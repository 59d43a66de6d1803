"""``qwenperf aot diff --jax`` and ``--libtpu``: one code under two versions, each in an environment of its own."""

import json
import zipfile

import pytest
from click.testing import CliRunner

from qwenperf.cli.aot_diff import command
from qwenperf.errors import MeasurementError
from qwenperf.lab import interpreters
from qwenperf.schema.codec import aot_from_json, aot_loads
from qwenperf.schema.records import Outcome

OLD, NEW = "0.10.1", "0.10.2"
SMALL = ("--model", "tiny", "--engine", "cached", "--prompt-length", 4, "--new-tokens", 4)


def diff(*arguments):
    """Run the command in this process and return its exit code and what it says."""
    done = CliRunner().invoke(command, [*map(str, arguments)], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.return_value, done.stdout


@pytest.fixture
def index(tmp_path, monkeypatch):
    """An index that the real installer asks: it has one version of each package, and those are empty."""
    folder = tmp_path / "index"
    folder.mkdir()
    for package, version in (("jax", NEW), ("jaxlib", NEW), ("libtpu", "0.0.42.1")):
        wheel, about = folder / f"{package}-{version}-py3-none-any.whl", f"{package}-{version}.dist-info"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
            archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{about}/RECORD", "")
    for tool in ("UV", "PIP"):
        monkeypatch.setenv(f"{tool}_NO_INDEX", "1")
        monkeypatch.setenv(f"{tool}_FIND_LINKS", str(folder))
    monkeypatch.setenv("QWENPERF_CACHE", str(tmp_path / "cache"))
    ours = interpreters.interpreters()[0]
    monkeypatch.setattr(interpreters, "interpreters", lambda: (ours,))
    return tmp_path / "cache"


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        (("--jax", NEW, "9.9.9"), "jax==9.9.9"),
        (("--jax", "9.9.9", NEW), "jax==9.9.9"),
        (("--libtpu", "0.0.42.1", "0.0.9999"), "libtpu==0.0.9999"),
    ],
)
def test_a_version_that_does_not_exist_is_one_line_before_any_environment_is_made(index, arguments, missing):
    """Base's takes minutes to make, and for nothing where head's cannot be had."""
    with pytest.raises(MeasurementError) as error:
        diff(*arguments, *SMALL, "--target", "v5e-1")
    assert f"{missing} cannot be had: " in str(error.value) or f"no version of {missing}" in str(error.value)
    assert missing in str(error.value)
    assert "\n" not in str(error.value)
    assert error.value.exit_code == 5
    assert not (index / "environments").exists()


@pytest.mark.slow
def test_two_versions_of_jax_are_compared_each_in_an_environment_of_its_own(cli, jax_is_had, tmp_path):
    """Both are named, each compiles with its own JAX and compiler, and table, records and exit code say the same."""
    jax_is_had(OLD, NEW)
    command_line, _, run = cli
    kept, cache = tmp_path / "kept", tmp_path / "cache"
    asked = command_line("aot", "diff", "--jax", OLD, NEW, *SMALL, "--target", "v5e-1", "--out", kept)
    done = run(asked, tmp_path, QWENPERF_CACHE=str(cache))
    assert done.returncode in {0, 1}, done.stderr
    assert f"base jax {OLD}, head jax {NEW}" in done.stdout
    said = " ".join(done.stdout.split())
    assert f"jax {OLD} in base, {NEW} in head" in said
    assert len([*(cache / "environments").glob("*/complete")]) == 2

    base, head = (aot_loads((kept / f"{name}.aot.json").read_text(), name) for name in ("base", "head"))
    assert (base.environment["jax"], head.environment["jax"]) == (OLD, NEW)
    assert base.environment["libtpu"]
    assert head.environment["libtpu"]
    pairs = [(old.program, new.program) for old, new in zip(base.cases, head.cases, strict=True)]
    assert [new.name for _, new in pairs] == ["prefill", "decode_step"]
    same = sum(old.fingerprint == new.fingerprint for old, new in pairs)
    assert done.stdout.count("the same program") == same
    assert done.stdout.count("another program") == 2 - same
    assert ("FAIL" in said) is (done.returncode == 1)

    code, text = diff(kept / "base.aot.json", kept / "head.aot.json", "--json")
    judged = aot_from_json(json.loads(text))
    assert code == done.returncode
    assert judged.extra["base"]["environment"]["jax"] == OLD
    outcomes = {verdict.outcome for case in judged.cases for verdict in case.verdicts}
    assert (Outcome.FAIL in outcomes) is (code == 1)
