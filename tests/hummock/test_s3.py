"""The same engine on an S3 server on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from engine.errors import StorageError, Unavailable
from engine.hummock import Commit, Delete, Hummock, Put
from engine.hummock.object_store.s3 import S3ObjectStore
from tests.hummock.conftest import SCHEMA, content, keys, log, rows
from tests.proxy import proxy
from tests.s3_server import s3_server

pytestmark = pytest.mark.s3


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server() as url:
        yield url


@pytest.fixture(autouse=True)
def s3(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")


def test_a_store_in_a_bucket_reads_what_it_wrote(tmp_path: Path) -> None:
    url = "s3://tideline/one"
    store = Hummock.open(url, cache_dir=tmp_path / "mine")
    table = store.create_table("t", SCHEMA, ["id"], ["id"])
    start = store.ingest_batch({table: [Put(rows({1: "a", 2: "b"}))]})
    store.ingest_batch({table: [Put(rows({2: "B"})), Delete(keys(1))]})
    other = Hummock.open(url, cache_dir=tmp_path / "cold", create=False)
    assert content(other) == {2: "B"}
    assert log(other, start) == {1: ("delete", None, "a"), 2: ("update", "B", "b")}
    other.compact("t")
    store.refresh()
    assert content(store) == {2: "B"}
    assert store.version == other.version


def test_only_one_of_two_writers_creates_an_object(tmp_path: Path) -> None:
    first, second = S3ObjectStore("tideline", "two"), S3ObjectStore("tideline", "two")
    assert first.put_if_absent("manifest/1", b"mine") is True
    assert second.put_if_absent("manifest/1", b"theirs") is False
    assert second.get("manifest/1") == b"mine"


def test_racing_handles_both_commit(tmp_path: Path) -> None:
    a = Hummock.open("s3://tideline/three", cache_dir=tmp_path / "a")
    b = Hummock.open("s3://tideline/three", cache_dir=tmp_path / "b")
    for step in range(5):
        a.commit(Commit(catalog={f"a{step}": "x"}))
        b.commit(Commit(catalog={f"b{step}": "x"}))
    assert len(a.refresh().catalog) == 10


def test_objects_are_listed_ranged_and_deleted() -> None:
    store = S3ObjectStore("tideline", "four")
    for name in ("x/1", "x/2", "y/1"):
        store.put(name, b"0123456789")
    assert [info.path for info in store.list("x/")] == ["x/1", "x/2"]
    assert [info.path for info in store.list("x/", start_after="x/1")] == ["x/2"]
    assert store.get_range("x/1", 2, 3) == b"234"
    assert store.head("x/1").size == 10  # type: ignore[union-attr]
    store.delete(["x/1", "x/2", "x/3"])
    assert (store.get("x/1"), store.head("x/1"), list(store.list("x/"))) == (None, None, [])


def test_a_missing_bucket_is_told_without_create() -> None:
    with pytest.raises(StorageError, match="no bucket"):
        Hummock.open("s3://nobody/x", create=False)


def test_garbage_is_collected_in_a_bucket(tmp_path: Path) -> None:
    store = Hummock.open("s3://tideline/five", cache_dir=tmp_path / "c")
    table = store.create_table("t", SCHEMA, ["id"])
    store.ingest_batch({table: [Put(rows({1: "a"}))]})
    store.reader.write_run(table, rows({2: "b"}).append_column("_op", pa.array([0], pa.uint8())))
    while not (deleted := store.gc(grace_seconds=0).deleted_objects):
        continue  # until the millisecond in which it was written has passed
    assert (deleted, content(store)) == (1, {1: "a"})


def test_requests_are_few(tmp_path: Path) -> None:
    store = Hummock.open("s3://tideline/requests", cache_dir=tmp_path / "mine")
    for name in "abc":
        store.create_table(name, SCHEMA, ["id"], ["id"])
    for step in range(3):
        before = store.metrics()
        store.refresh()
        store.ingest_batch({name: [Put(rows({step: name})), Delete(keys(step - 1))] for name in "abc"})
        assert store.metrics().since(before).requests == {"get": 1, "put": 1, "put_if_absent": 1}
    before = store.metrics()
    store.refresh()
    assert store.metrics().since(before).requests == {"get": 1}
    for step in range(3):
        with store.epoch(wait=False) as batch:
            for name in "abc":
                batch.put(name, rows({step: "sealed"}))
    before = store.metrics()
    store.buffer.flush(30)
    assert set(store.metrics().since(before).requests) <= {"put", "put_if_absent"}
    other = Hummock.open("s3://tideline/requests", cache_dir=tmp_path / "theirs")
    assert [content(other, name) for name in "abc"] == [{step: "sealed" for step in range(3)}] * 3


def test_a_server_that_takes_no_connections_is_one_that_does_not_answer(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with proxy(int(server.rpartition(":")[2])) as door:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{door.port}")
        store = S3ObjectStore("tideline", "nowhere")
        door.refuse()
        for ask in (lambda: store.get("a"), lambda: store.head("a"), lambda: store.put("a", b"x")):
            with pytest.raises(Unavailable, match="cannot be"):
                ask()
        door.serve()
        assert store.get("a") is None
