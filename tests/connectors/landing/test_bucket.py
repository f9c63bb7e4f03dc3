"""Landing places in buckets: each object becomes rows once, a look costs what is new, and what is wrong is told."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.connectors.formats.read_limits import ReadLimits
from engine.connectors.landing import bucket_watch, pending
from engine.connectors.landing.bucket import LandingBucket
from engine.connectors.landing.source import LandingSource
from engine.connectors.landing.tables import FILES
from engine.connectors.source_trial import try_source
from engine.connectors.sources import poll_all
from engine.errors import SourceError, StorageError, UnsupportedSql
from engine.hummock.object_store import ObjectStore, open_object_store
from engine.hummock.object_store.s3 import S3ObjectStore
from engine.meta.status.dead_letters import DEAD_LETTER
from engine.session import Session

Source = Callable[..., LandingSource]
pytestmark = pytest.mark.s3


@pytest.fixture
def bucket(s3_url: str, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    """What lies below the prefix of the landing place."""
    monkeypatch.delenv("TIDELINE_HOME", raising=False)
    return open_object_store(f"{s3_url}/in")


@pytest.fixture
def landed(lake: Session, s3_url: str, bucket: ObjectStore) -> LandingSource:
    """The source of the table `orders`."""
    lake.sql(
        f"CREATE TABLE orders (id INT PRIMARY KEY, name STRING) WITH (connector = 'landing', path = '{s3_url}/in')"
    )
    return LandingSource.of_relation(lake.store, lake.catalog.get("orders"))


def rows(lake: Session, table: str = "orders") -> list[dict[str, object]]:
    lake.store.refresh()
    return [row for batch in lake.store.iter(table) for row in batch.to_pylist()]


def ids(lake: Session) -> list[object]:
    return sorted(row["id"] for row in rows(lake))  # type: ignore[type-var]


def put(bucket: ObjectStore, name: str, *keys: int, text: str = "a") -> None:
    bucket.put(name, ("id,name\n" + "".join(f"{key},{text}\n" for key in keys)).encode())


class Requests:
    """Counts what is asked of buckets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        send = S3ObjectStore.__init__

        def made(store: S3ObjectStore, *args: object, **options: object) -> None:
            send(store, *args, **options)  # type: ignore[arg-type]
            store._client.meta.events.register("before-call.s3", self._note)

        monkeypatch.setattr(S3ObjectStore, "__init__", made)

    def _note(self, model: object, **_: object) -> None:
        self.asked.append(model.name)  # type: ignore[attr-defined]

    def since(self) -> list[str]:
        """Return the requests since this was asked last."""
        found, self.asked = self.asked, []
        return found


def test_objects_of_all_formats_become_rows_once(
    lake: Session, landed: LandingSource, bucket: ObjectStore, tmp_path: Path
) -> None:
    put(bucket, "a.csv", 1, 2)
    bucket.put("deep/er/b.jsonl", b'{"id": 3, "name": "x"}\n')
    bucket.put("deep/c.json", b'[{"id": 4}, {"id": 5}]')
    pq.write_table(pa.table({"id": [6, 7]}), tmp_path / "d.parquet")
    bucket.put("d.parquet", (tmp_path / "d.parquet").read_bytes())
    for left in (".e.csv", "_f.csv", "_tmp/g.csv", "deep/.h/i.csv", "j.txt", "csv", "k.csv.part"):
        put(bucket, left, 99)
    bucket.put("folder/", b"")
    bucket.put("empty.csv", b"")
    report = landed.poll()
    assert (report.files, report.rows, ids(lake)) == (4, 7, [1, 2, 3, 4, 5, 6, 7])
    assert landed.poll().epoch is None and not landed.list_pending()
    records = {row["path"]: row for row in rows(lake, FILES)}
    assert sorted(records) == ["a.csv", "d.parquet", "deep/c.json", "deep/er/b.jsonl"]
    info = bucket.head("a.csv")
    assert info is not None and records["a.csv"]["seen_etag"] == info.etag
    assert records["a.csv"]["size"] == info.size


def test_an_object_that_lies_beside_the_prefix_is_another_ones(
    lake: Session, landed: LandingSource, s3_url: str
) -> None:
    put(open_object_store(s3_url), "inner/a.csv", 1)
    put(open_object_store(s3_url), "in.csv", 2)
    assert landed.poll().files == 0


def test_an_object_that_changes_is_told_once_and_one_that_is_put_again_is_not(
    lake: Session, landed: LandingSource, bucket: ObjectStore
) -> None:
    put(bucket, "a.csv", 1)
    landed.poll()
    put(bucket, "a.csv", 1)
    assert landed.poll().epoch is None
    put(bucket, "a.csv", 2)  # as long as before
    (warning,) = landed.poll().warnings
    assert "changed after it was taken" in warning
    assert landed.poll().epoch is None
    assert ids(lake) == [1]


@pytest.mark.parametrize("many", [False, True], ids=["few", "many"])
def test_an_object_that_changes_while_it_is_read_is_taken_as_it_is_then(
    lake: Session, landed: LandingSource, bucket: ObjectStore, monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    if many:
        monkeypatch.setattr(bucket_watch, "SMALL", 0)
        monkeypatch.setattr(bucket_watch, "REST", 1e9)
    put(bucket, "0.csv", 1)
    landed.poll()
    put(bucket, "a.csv", 2, 3, 4)
    opened, changes = LandingBucket.open, [lambda: put(bucket, "a.csv", 5), lambda: bucket.delete(["b.csv"])]

    def changed(place: LandingBucket, *args: object, **options: object) -> object:
        file = opened(place, *args, **options)  # type: ignore[arg-type]
        if changes:
            changes.pop(0)()
        return file

    monkeypatch.setattr(LandingBucket, "open", changed)
    assert landed.poll().rows == 0
    landed.poll()
    assert ids(lake) == [1, 5]
    changes.append(lambda: bucket.delete(["b.csv"]))
    put(bucket, "b.csv", 6)
    assert landed.poll().rows == 0
    assert landed.poll().epoch is None and not landed.list_pending()
    assert rows(lake, DEAD_LETTER) == []


def test_a_look_at_many_names_lists_what_is_new(
    lake: Session, landed: LandingSource, bucket: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket_watch, "SMALL", 20)
    monkeypatch.setattr(bucket_watch, "REST", 1e9)
    monkeypatch.setattr(pending, "LOOKED_UP_AT_ONCE", 10)
    asked = Requests(monkeypatch)
    for number in range(30):
        put(bucket, f"{number:02}.csv", number)
    assert landed.poll().files == 30
    looked: list[str] = []
    watched = landed._get_watch()
    listed = LandingBucket.list_objects

    def counted(place: LandingBucket, after: str = "") -> Iterator[object]:
        for info in listed(place, after):
            looked.append(info.path)
            yield info

    monkeypatch.setattr(LandingBucket, "list_objects", counted)
    asked.since()
    assert landed.poll().files == 0
    assert (asked.since(), looked) == (["ListObjectsV2"], [])
    put(bucket, "30.csv", 30)
    asked.since()
    assert landed.poll().files == 1
    assert asked.since() == ["ListObjectsV2", "GetObject", "HeadObject"]
    assert looked == ["30.csv"]
    put(bucket, "07a.csv", 31)  # behind names that were seen
    assert landed.poll().files == 0
    watched._due = 0.0  # type: ignore[union-attr]
    assert landed.poll().files == 1
    assert ids(lake) == list(range(32))
    with Session(lake.url) as other:  # another process compares all records at once
        again = LandingSource.of_relation(other.store, other.catalog.get("orders"))
        assert again.list_files() == ()
        put(bucket, "08.csv", 100)
        bucket_watch.SMALL = 1000
        assert [file.path for file in again.list_files()] == ["08.csv"]


def test_a_sensor_asks_at_most_once_a_second(
    landed: LandingSource, bucket: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Requests(monkeypatch)
    put(bucket, "a.csv", 1)
    monkeypatch.setattr(bucket_watch, "LOOK_SECONDS", 1e9)
    first = landed.list_pending()
    asked.since()
    assert landed.list_pending() == first and [split.split for split in first] == ["a.csv"]
    put(bucket, "b.csv", 2)
    assert landed.list_pending() == first
    assert asked.since() == []
    assert landed.poll().files == 2  # a poll looks each time
    assert landed.list_pending() == ()


def test_a_large_object_is_read_in_parts_and_gone_on_with(
    lake: Session, landed: LandingSource, bucket: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = b"id,name\n" + b"".join(b"%d,%d\n" % (n, n) for n in range(300_000))
    bucket.put("a.csv", text)
    landed.limits = ReadLimits(1 << 20)
    parts: list[int] = []
    get_range = S3ObjectStore.get_range

    def counted(store: S3ObjectStore, path: str, offset: int, length: int) -> bytes:
        parts.append(length)
        return get_range(store, path, offset, length)

    monkeypatch.setattr(S3ObjectStore, "get_range", counted)
    assert landed.poll().rows == 300_000
    assert sum(parts) == len(text) and max(parts) <= 1 << 20
    (record,) = rows(lake, FILES)
    assert (record["rows"], record["position"]) == (300_000, None)
    assert len(lake.store.version.tables["orders"].log) > 1


def test_a_bucket_that_fails_while_it_is_read_leaves_the_object_for_the_next_poll(
    lake: Session, landed: LandingSource, bucket: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(bucket, "a.csv", 1)
    put(bucket, "b.csv", 2)
    get_range = S3ObjectStore.get_range

    def refused(store: S3ObjectStore, path: str, offset: int, length: int) -> bytes:
        if path == "a.csv":
            raise StorageError("a.csv cannot be read: these credentials have no right to it")
        return get_range(store, path, offset, length)

    with monkeypatch.context() as patched:
        patched.setattr(S3ObjectStore, "get_range", refused)
        report = landed.poll()
        assert (report.rows, report.dead_rows) == (1, 0)
        assert "no right" in report.warnings[0]
        assert [split.split for split in landed.list_pending()] == ["a.csv"]
    landed.poll()
    assert ids(lake) == [1, 2]


def test_a_damaged_object_is_set_aside_and_stops_no_other(
    lake: Session, landed: LandingSource, bucket: ObjectStore
) -> None:
    bucket.put("a.parquet", os.urandom(1000))
    bucket.put("b.csv", b"id,name\nx,1\n2,b\n")
    report = landed.poll()
    assert (report.rows, report.dead_rows, ids(lake)) == (1, 2, [2])
    assert sorted((row["file"], row["line"]) for row in rows(lake, DEAD_LETTER)) == [  # type: ignore[type-var]
        ("a.parquet", 0),
        ("b.csv", 2),
    ]


@contextmanager
def passing_bucket(name: str) -> Iterator[str]:
    """The address of a place in a bucket that is gone after the block."""
    client = boto3.client("s3")
    client.create_bucket(Bucket=name)
    try:
        yield f"s3://{name}/in"
    finally:
        client.delete_bucket(Bucket=name)


def test_a_bucket_that_is_gone_fails_its_table_alone(
    lake: Session, landed: LandingSource, bucket: ObjectStore
) -> None:
    with passing_bucket("no-such") as path:
        lake.sql(f"CREATE TABLE gone (id INT PRIMARY KEY) WITH (connector = 'landing', path = '{path}')")
    put(bucket, "a.csv", 1)
    reports = {report.table: report for report in poll_all(lake.catalog, lake.store)}
    assert "there is no bucket no-such" in str(reports["gone"].error)
    assert reports["orders"].rows == 1
    with pytest.raises(SourceError, match="no bucket"):
        LandingSource.of_relation(lake.store, lake.catalog.get("gone")).poll()


def made(lake: Session, path: str) -> None:
    if "probe" in lake.catalog.relations:
        lake.sql("DROP TABLE probe")
    lake.sql(f"CREATE TABLE probe (id INT PRIMARY KEY) WITH (connector = 'landing', path = '{path}')")


def tried(lake: Session) -> list[tuple[str, bool, str]]:
    return [tuple(found) for found in try_source(lake.store, lake.catalog.get("probe"), lambda: lake.spark)]  # type: ignore[misc]


def test_a_trial_says_what_is_wrong(
    lake: Session, s3_url: str, bucket: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with passing_bucket("no-such") as path:
        made(lake, path)
    (found,) = tried(lake)
    assert found[:2] == ("connect", False) and "there is no bucket no-such" in found[2]
    made(lake, f"{s3_url}/in")
    (found,) = tried(lake)
    assert found[:2] == ("connect", False) and "no object lies below" in found[2]
    put(bucket, "a.csv", 1)
    listed, read, resumed = tried(lake)
    assert [part[1] for part in (listed, read, resumed)] == [True] * 3
    assert "1 files in it can be read" in read[2]
    client = boto3.client("s3")
    name = s3_url.split("/")[2]
    policy = (
        '{"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Principal": "*", '
        f'"Action": "s3:GetObject", "Resource": "arn:aws:s3:::{name}/{s3_url.split("/")[3]}/in/*"}}]}}'
    )
    client.put_bucket_policy(Bucket=name, Policy=policy)
    try:
        listed, read = tried(lake)
        assert (listed[1], read[1]) == (True, False) and "no right" in read[2]
    finally:
        client.delete_bucket_policy(Bucket=name)


@pytest.mark.parametrize(
    "named, path, allowed",
    [
        ("", "s3://tideline/in", False),
        ("s3://tideline", "s3://tideline/in", True),
        ("s3a://tideline/in/", "s3://tideline/in/deep", True),
        ("/data:s3://other:s3://tideline/in", "s3://tideline/in", True),
        ("s3://b/in", "s3://b/inner", False),
        ("s3://b/in", "s3://b", False),
        ("s3://b/in", "s3://b/in/../secret", False),
        ("s3://b/in", "s3://B/in", False),
        ("/", "s3://b/in", False),
    ],
)
def test_a_project_reads_from_buckets_that_it_names(
    lake: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, path: str, allowed: bool
) -> None:
    monkeypatch.setenv("TIDELINE_HOME", str(tmp_path))
    monkeypatch.setenv("TIDELINE_ALLOWED_PATHS", named)
    text = f"CREATE TABLE t (id INT PRIMARY KEY) WITH (connector = 'landing', path = '{path}')"
    if allowed:
        open_object_store("s3://tideline")
        lake.sql(text)
    else:
        with pytest.raises(UnsupportedSql, match=r"TIDELINE_ALLOWED_PATHS|no address") as caught:
            lake.sql(text)
        assert caught.value.column > 1


def test_folders_beside_a_bucket_in_the_setting_are_still_allowed(
    lake: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TIDELINE_ALLOWED_PATHS", f"s3://b/in:{tmp_path / 'other'}")
    (tmp_path / "other").mkdir()
    lake.sql(
        f"CREATE TABLE t (id INT PRIMARY KEY) WITH (connector = 'landing', path = '{tmp_path / 'other'}')"
    )


@pytest.mark.parametrize(
    "path", ["s3://", "s3:///in", "s3://b//in", "s3://b/./in", "gs://b/in", "https://b/in"]
)
def test_what_is_no_place_is_refused_when_the_table_is_made(
    lake: Session, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.delenv("TIDELINE_HOME", raising=False)
    with pytest.raises(UnsupportedSql, match="path can't be used") as caught:
        lake.sql(f"CREATE TABLE t (id INT PRIMARY KEY) WITH (connector = 'landing', path = '{path}')")
    assert "s3://bucket/prefix" in str(caught.value)
