"""The file store on a bucket of S3 and of Google Cloud Storage, each by its protocol with a server on this machine."""

import hashlib
import importlib.util
import os
from pathlib import Path

import httpx
import pytest

from qwenperf.service.files import BLOCK, Files
from qwenperf.service.jobs import sweep
from qwenperf.service.problems import ServiceUnavailableError
from qwenperf.service.settings import ServiceSettings

# The client of Google Cloud Storage hands whole blocks over, which its HTTP library warns of.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")]

DATA = bytes(range(256)) * 4096 * 6
"""Six blocks: more than S3 takes as the one part of an object that is sent in parts."""

SHA256 = hashlib.sha256(DATA).hexdigest()


def _beside(name):
    spec = importlib.util.spec_from_file_location(f"{name}_on_a_bucket", Path(__file__).with_name(f"{name}.py"))
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


running, gcs = _beside("running"), _beside("gcs")


class S3Bucket:
    """An empty bucket of S3: its server, and how to reach it."""

    protocol = "s3"

    def __init__(self):
        from moto.server import ThreadedMotoServer
        from s3fs import S3FileSystem

        self.server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self.server.start()
        host, port = self.server.get_host_and_port()
        place = {"endpoint_url": f"http://{host}:{port}", "region_name": "eu-west-1"}
        self.options = {"key": "test", "secret": "test", "client_kwargs": place}
        # What it holds outlives it in this process.
        httpx.post(f"{place['endpoint_url']}/moto-api/reset", verify=False)
        S3FileSystem(**self.options, skip_instance_cache=True).mkdir("bucket")

    def keys(self, folder):
        """Return what lies in the bucket, as another client sees it."""
        from s3fs import S3FileSystem

        found = S3FileSystem(**self.options, skip_instance_cache=True, use_listings_cache=False)
        return sorted(found.find(f"bucket/{folder}"))

    def refuse(self):
        """Be away, and have clients hear of it soon."""
        self.options |= {"config_kwargs": {"retries": {"max_attempts": 1}, "connect_timeout": 1}}
        self.server.stop()


class GcsBucket:
    """An empty bucket of Google Cloud Storage: its server, and how to reach it."""

    protocol = "gs"

    def __init__(self):
        # Else it asks Google's control service first what kind of bucket this is, wherever the bucket lies.
        os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"
        self.server = gcs.GcsServer("bucket")
        self.options = {"token": "anon", "endpoint_url": self.server.url}

    def keys(self, folder):
        """Return what lies in the bucket."""
        return sorted(f"bucket/{name}" for name in self.server.objects if name.startswith(f"{folder}/"))

    def refuse(self):
        """Refuse whoever asks: a server that is away is tried for half a minute."""
        self.server.refuses = True


def files_of(bucket, folder="folder", **more):
    """Return the file store in a folder of a bucket."""
    return Files(f"{bucket.protocol}://bucket/{folder}", {**bucket.options, **more})


@pytest.fixture(params=[S3Bucket, GcsBucket], ids=lambda kind: kind.protocol)
def bucket(request):
    """An empty bucket."""
    found = request.param()
    yield found
    found.server.stop()


def write(files, upload, name, data):
    with files.new_part(upload, name) as file:
        for start in range(0, len(data), BLOCK):
            file.write(data[start : start + BLOCK])


@pytest.mark.parametrize("cuts", [(), (3_000_000,), (1, 2_000_000, 6_000_000)])
def test_a_file_of_any_number_of_parts_is_put_together(bucket, cuts):
    """And read again, whole and by ranges; its parts go."""
    files = files_of(bucket)
    files.check()
    bounds = (0, *cuts, len(DATA))
    names = [f"part-{number}" for number in range(len(bounds) - 1)]
    for name, start, end in zip(names, bounds, bounds[1:], strict=False):
        write(files, "u1", name, DATA[start:end])
    assert files.uploads() == ["u1"]
    assert files.assemble(7, "u1", names, "0" * 64) is None
    name = files.assemble(7, "u1", names, SHA256)
    assert b"".join(files.read(7, name)) == DATA
    assert b"".join(files.read(7, name, 5, 2_000_000)) == DATA[5:2_000_000]
    assert files.assemble(7, "u1", names, SHA256) == name
    files.drop_parts("u1")
    assert files.uploads() == []
    assert bucket.keys("folder") == [f"bucket/folder/files/7/{name[:2]}/{name}"]
    files.drop(7, name)
    files.drop(7, name)
    assert bucket.keys("folder") == []
    with pytest.raises(FileNotFoundError):
        next(files.read(7, name))


def test_a_part_that_broke_off_is_not_there(bucket):
    """Also when much of it had been sent."""
    files = files_of(bucket)
    broken = (block for block in (DATA, None))
    with pytest.raises(TypeError), files.new_part("u1", "p") as file:
        file.writelines(broken)
    assert bucket.keys("folder") == []
    assert files.uploads() == []


def test_another_worker_sees_what_this_one_did(bucket):
    """Nothing is remembered: parts come to one worker, and are put together and dropped by the other."""
    one, other = files_of(bucket, skip_instance_cache=True), files_of(bucket, skip_instance_cache=True)
    assert other.uploads() == []
    write(one, "u1", "a", DATA[:100])
    assert other.uploads() == ["u1"]
    write(one, "u1", "b", DATA[100:])
    name = other.assemble(7, "u1", ["a", "b"], SHA256)
    assert b"".join(one.read(7, name)) == DATA
    other.drop_upload(7, "u1", SHA256)
    assert one.uploads() == []
    assert bucket.keys("folder") == []
    with pytest.raises(FileNotFoundError):
        one.assemble(7, "u1", ["a", "b"], SHA256)


def test_a_bucket_that_refuses_is_told(bucket):
    """As 503, to be tried again."""
    bucket.refuse()
    files = files_of(bucket, skip_instance_cache=True)
    for ask in (files.check, files.uploads, lambda: next(files.read(1, "name")), lambda: write(files, "u", "p", b"x")):
        with pytest.raises(ServiceUnavailableError):
            ask()


def test_a_service_keeps_its_files_in_a_bucket(bucket, tmp_path, documents):
    """Sent in two requests, read again, and gone when the run is: through its interface."""
    settings = ServiceSettings(
        data=tmp_path, files=f"{bucket.protocol}://bucket/all", files_options=bucket.options, sweep_s=0, judge=False
    )
    with running.serving(settings) as found:
        service = "/api/v1/projects/demo"
        found.ask("POST", "/api/v1/projects", found.admin, json={"project": "demo"})
        found.ask("POST", f"{service}/runs", found.admin, json=documents.run(1))
        assert found.ask("GET", "/readyz").status_code == 200
        told, place = {"path": "a.pb", "size": len(DATA), "sha256": SHA256}, f"{service}/runs/run-000001/files"
        upload = f"{service}/uploads/{found.ask('POST', place, found.admin, json=told).json()['upload']}"
        for start, end in ((0, 999), (999, len(DATA))):
            headers = {"Upload-Offset": str(start)}
            answer = found.ask("PATCH", upload, found.admin, content=DATA[start:end], headers=headers)
            assert answer.json()["offset"] == end, answer.text
        assert found.ask("GET", f"{place}/a.pb", found.admin).content == DATA
        part = found.ask("GET", f"{place}/a.pb", found.admin, headers={"Range": "bytes=990-1009"})
        assert part.content == DATA[990:1010]
        assert len(bucket.keys("all")) == 1
        assert found.ask("DELETE", f"{service}/runs/run-000001", found.admin).status_code == 204
        sweep(found.service)
        assert bucket.keys("all") == []
