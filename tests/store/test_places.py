"""Which driver answers for a URL, and what is said where none does."""

import importlib.util

import fsspec
import pytest
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from qwenperf.errors import StoreError
from qwenperf.store.aliases import Aliases
from qwenperf.store.base import Added
from qwenperf.store.directory import DirectoryStore, open_store
from qwenperf.store.object_place import ObjectPlace
from qwenperf.store.places import open_place

MISSING = [
    (url, package)
    for url, package in (("s3://bucket/runs", "s3fs"), ("abfs://c@a/runs", "adlfs"), ("hdfs://host/runs", "pyarrow"))
    if importlib.util.find_spec(package) is None
]


@pytest.mark.parametrize(("url", "package"), MISSING)
def test_a_driver_that_is_not_installed_is_named(url, package):
    """The package to install, and the URL that wants it."""
    with pytest.raises(StoreError, match=rf"{url}: the driver of .* is not here: .*{package}"):
        open_place(url)


def test_some_driver_is_missing_here():
    """The test above tests something."""
    assert MISSING


def test_a_kind_of_url_that_nobody_knows_offers_the_nearest():
    """Typed wrongly."""
    with pytest.raises(StoreError, match=r"no driver knows URLs of the kind memry://.*Did you mean 'memory'"):
        open_place("memry://x")


@pytest.mark.parametrize(("url", "message"), [("", "the name of the store is empty"), ("memory://", "names no place")])
def test_no_place_is_no_store(url, message):
    """Neither nothing nor the whole of everything."""
    with pytest.raises(StoreError, match=message):
        open_place(url)


def test_one_folder_is_one_store_however_it_is_written(made, tmp_path, monkeypatch):
    """A path, a relative one, a URL and a link share one index."""
    made.write_run(tmp_path / "runs", made.run_of(0))
    (tmp_path / "link").symlink_to(tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    names = ("runs", "./runs/", str(tmp_path / "runs"), f"file://{tmp_path}/runs", "link")
    assert len({open_place(name).key for name in names}) == 1
    assert [len(open_store(name).runs()) for name in names] == [1] * len(names)


class Broken(AbstractFileSystem):
    """A driver whose server is not there."""

    protocol = "broken"
    seen: BaseException = FileNotFoundError()

    def _refuse(self, *_, **__):
        raise self.seen

    ls = info = _open = makedirs = _refuse


@pytest.mark.parametrize(
    "error", [RuntimeError("no credentials\nwere found."), PermissionError(13, "Forbidden"), OSError()]
)
def test_whatever_a_driver_raises_is_one_clear_error(made, monkeypatch, error):
    """Drivers have no error in common; the store is named, and what they said."""
    fsspec.register_implementation("broken", Broken, clobber=True)
    store = open_store("broken://host/runs")
    monkeypatch.setattr(Broken, "seen", error)
    for ask in (store.runs, lambda: store.add(made.source_of(made.run_of(0)))):
        with pytest.raises(
            StoreError, match=r"cannot .* broken://host/runs: (no credentials were found|Forbidden|OSError)\."
        ):
            ask()


def test_places_that_show_files_half_written_get_the_record_by_renaming(made, tmp_path):
    """On another machine's disk a record has its name when it is whole."""
    renamed = []

    class Watched(LocalFileSystem):
        def mv(self, path1, path2, **options):
            renamed.append((path1.rpartition("/")[2], path2.rpartition("/")[2]))
            return super().mv(path1, path2, **options)

    trace = tmp_path / "t"
    trace.write_bytes(b"t")
    store = DirectoryStore(ObjectPlace(Watched(), str(tmp_path / "far"), "sftp://host/far", "sftp"), Aliases())
    source = made.source_of(made.run_of(0), {"plugins/a/t": trace})
    assert (store.add(source), store.add(source)) == (Added.ADDED, Added.ALREADY)
    ((name, final),) = renamed
    assert final == "run.json"
    assert name.startswith("run.json.")
    assert (tmp_path / "far/run-0000/plugins/a/t").read_bytes() == b"t"
    assert len(store.series(made.CASE, "tpot_s").points) == 1


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sftp://me:secret@host/far", "sftp://host/far"),
        ("sftp://me@host/far", "sftp://me@host/far"),
        ("abfs://container@account.dfs/far", "abfs://container@account.dfs/far"),
        ("s3://bucket/a:b@c", "s3://bucket/a:b@c"),
    ],
)
def test_no_password_of_a_place_is_shown(tmp_path, url, shown):
    """In no error, table or page; two places are two still."""
    place = ObjectPlace(LocalFileSystem(), str(tmp_path), url, "sftp")
    assert (place.url, place.key) == (shown, url)


def test_a_run_at_a_url_that_fails_to_load_is_tried_again(made, monkeypatch):
    """A network that was down for a moment must not cost a run for good."""
    store = open_store("memory://flaky")
    store.add(made.source_of(made.run_of(0)))
    read = store.place._files.cat_ranges
    monkeypatch.setattr(store.place._files, "cat_ranges", lambda *_, **__: [OSError("gone")])
    assert (store.runs(), [one.message for one in store.problems()]) == ([], ["cannot be read: gone"])
    monkeypatch.setattr(store.place._files, "cat_ranges", read)
    store.refresh()
    assert (len(store.runs()), store.problems()) == (1, [])


def test_the_later_of_two_writers_at_a_url_does_not_win(made, monkeypatch):
    """Both saw no run of this id; the record is written only where there is none."""
    store = open_store("memory://race")
    store.add(made.source_of(made.run_of(0)))
    real, asked = store.place._files.exists, []

    def too_early(path, **_):
        asked.append(path)
        return len(asked) > 1 and real(path)

    monkeypatch.setattr(store.place._files, "exists", too_early)
    assert store.add(made.source_of(made.run_of(0))) is Added.ALREADY
    asked.clear()
    with pytest.raises(StoreError, match="another run with the id"):
        store.add(made.source_of(made.run_of(0, value=5.0)))
    assert store.get("run-0000") == made.run_of(0)
