"""Work in the driver process holds a bounded part of what it goes through, however much that is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pandera.pandas as pdr
import pyarrow as pa
import pytest

import engine.hummock.sorted_files.file_set
from engine.errors import EnvironmentNotReady, RowFailed
from engine.hummock import Commit, Hummock, Put, SstInfo, Table
from engine.hummock.rows.row_hash import xxhash64
from engine.meta.catalog.stored_catalog import encode_entries
from engine.runtime.epoch import row_checks
from engine.runtime.partitions import values as partition_values
from engine.runtime.writes.driver_rows import DRIVER_LIMIT, SETTING, is_surely_small
from engine.runtime.writes.spill import ANSWER, SpillTask, TaskRows, encode_answer
from engine.runtime.writes.write_tasks import WriteResult, WriteRows
from engine.sql.batch.ad_hoc import SparkQuery, TableRead
from engine.sql.catalog import Relation, RelationColumn
from engine.sql.expression import nodes
from engine.sql.incremental.partitions import Partitioning

KEYED = Relation(
    name="t",
    kind="table",
    columns=(RelationColumn("id", "bigint", False), RelationColumn("v", "bigint")),
    primary_key=("id",),
    distribution_key=("id",),
)
TABLE = Table("t", pa.schema([("id", pa.int64()), ("v", pa.int64())]), ("id",), ("id",))
Small = pdr.DataFrameSchema({"v": pdr.Column(checks=pdr.Check.lt(1_000_000))})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Hummock]:
    with Hummock.open((tmp_path / "store").as_uri(), cache_dir=tmp_path / "cache") as opened:
        yield opened


def batches(rows: int, each: int) -> Iterator[pa.RecordBatch]:
    """Yield rows in the order of the table's files, a batch at a time."""
    ids = np.arange(rows)
    ids = ids[np.argsort(xxhash64([pa.array(ids)]))]
    for start in range(0, rows, each):
        some = pa.array(ids[start : start + each])
        yield pa.record_batch([some, some, some], names=["id", "v", "_place"])


def forget_decoded(store: Hummock, tmp_path: Path) -> None:
    """Leave the process without open files and the machine without decoded ones."""
    store.reader.files.forget()
    for file in (tmp_path / "cache").rglob("*.arrow"):
        file.unlink()


def test_a_task_that_spills_holds_no_more_than_a_spill_file(
    store: Hummock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.runtime.writes.spill.SPILL_BYTES", 100 * 24)
    schema = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("p", pa.int64())])
    (answer,) = SpillTask(store.url, store.options, schema, 50 * 24)(batches(1_000, 10))
    assert answer.schema.names == [ANSWER]
    gathered = msgspec.msgpack.decode(answer.column(0)[0].as_py(), type=TaskRows)
    assert sum(file.rows for file in gathered.files) == 1_000 and not gathered.rows
    assert max(file.rows for file in gathered.files) <= 110
    (few,) = SpillTask(store.url, store.options, schema, 50 * 24)(batches(50, 10))
    assert few.equals(encode_answer(msgspec.msgpack.decode(few.column(0)[0].as_py(), type=TaskRows)))
    assert not msgspec.msgpack.decode(few.column(0)[0].as_py(), type=TaskRows).files


def written_by(store: Hummock, rule: Any, rows: Iterator[pa.RecordBatch], **given: Any) -> WriteResult:
    """Return what one writing task answers."""
    version = store.version.tables.get("t")
    body = WriteRows(store.url, store.options, KEYED, TABLE, rule, version, **given)
    (answer,) = body(rows)
    return msgspec.msgpack.decode(answer.column(0)[0].as_py(), type=WriteResult)


def test_a_task_that_writes_holds_no_more_than_a_file_and_a_key_is_never_in_two(
    store: Hummock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.runtime.writes.write_tasks.WRITE_ROWS", 100)
    store.create_table("t", TABLE.schema, ["id"], ["id"])
    done = written_by(store, "once", batches(1_000, 30))
    assert sum(file.rows for file in done.ssts) == 1_000 and max(file.rows for file in done.ssts) <= 130
    assert all(a.max_hash < b.min_hash for a, b in zip(done.ssts, done.ssts[1:], strict=False))
    again = (batch for batch in batches(1_000, 30) for _ in range(2))
    assert written_by(store, "once", again).wrong.twice
    again = (batch for batch in batches(1_000, 1) for _ in range(2))
    last = written_by(store, "overwrite", again)
    assert sum(file.rows for file in last.ssts) == 1_000


def test_the_setting_is_a_size() -> None:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(SETTING, "0.5")
        assert DRIVER_LIMIT.read() == 1 << 19
        for wrong in ("many", "-1", "inf", "nan"):
            environment.setenv(SETTING, wrong)
            with pytest.raises(EnvironmentNotReady, match=f'{SETTING} is "{wrong}"'):
                DRIVER_LIMIT.read()
        environment.delenv(SETTING)
        assert DRIVER_LIMIT.read() == 64 << 20


def test_few_rows_are_told_from_what_tables_hold(store: Hummock) -> None:
    store.create_table("t", TABLE.schema, ["id"], ["id"])
    store.ingest_batch({"t": [_put(range(1_000))]})
    version = store.refresh()
    size = sum(sst.size for sst in version.tables["t"].live_ssts)
    t = (TableRead("_q1_t", "t", None),)
    assert is_surely_small(version, SparkQuery("SELECT id FROM _q1_t", t), size)
    assert not is_surely_small(version, SparkQuery("SELECT id FROM _q1_t", t), size - 1)
    assert not is_surely_small(version, SparkQuery("SELECT a.id FROM _q1_t a, _q1_t b", t), 100 * size)
    assert is_surely_small(version, SparkQuery("SELECT a.id FROM _q1_t a, _q1_t b", t), size, only="t")
    for text in ("SELECT explode(sequence(1, id)) FROM _q1_t", "SELECT repeat('x', id) FROM _q1_t"):
        assert not is_surely_small(version, SparkQuery(text, t), 100 * size)


def _put(ids: Any) -> Any:
    values = pa.array(list(ids), pa.int64())
    return Put(pa.table({"id": values, "v": values}))


def checked(store: Hummock) -> None:
    """Make t a table whose rows are checked by a schema."""
    option = {"pandera": "tests.runtime.writes.test_driver_memory:Small"}
    relation = msgspec.structs.replace(KEYED, options=option)
    store.commit(Commit(create=(TABLE,), catalog=encode_entries({"t": relation}, {})))


def test_rows_are_checked_without_reading_a_file_as_a_whole(
    store: Hummock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked(store)
    rows = 300_000
    ids = np.arange(rows)
    table = pa.table({"id": ids, "v": ids, "_op": pa.array(np.where(ids % 10 == 0, 1, 0), pa.uint8())})
    ssts = store.reader.write_run(TABLE, table)
    forget_decoded(store, tmp_path)
    seen: list[int] = []
    validate = Small.validate
    monkeypatch.setattr(row_checks, "CHECKED_AT_ONCE", 100_000)
    monkeypatch.setattr(
        row_checks,
        "import_schema",
        lambda _: SimpleNamespace(validate=lambda f, **k: seen.append(len(f)) or validate(f, **k)),
    )

    read = engine.hummock.sorted_files.file_set.read_sst

    def whole(objects: Any, info: SstInfo, *columns: Any) -> pa.Table:
        assert info.rows < rows, "a large file was read as a whole"
        return read(objects, info, *columns)

    monkeypatch.setattr(engine.hummock.sorted_files.file_set, "read_sst", whole)
    row_checks.check_rows(store, store.version, TABLE, ssts, 1)
    assert sum(seen) == rows * 9 // 10 and max(seen) <= 100_000
    wrong = pa.table({"id": [rows], "v": [1_000_000], "_op": pa.array([0], pa.uint8())})
    with pytest.raises(RowFailed, match="column v"):
        row_checks.check_rows(store, store.version, TABLE, [*ssts, *store.reader.write_run(TABLE, wrong)], 1)


@pytest.mark.parametrize("named_at_once", [5, 100_000])
def test_the_partitions_of_rows_are_named_without_holding_the_rows(
    store: Hummock, monkeypatch: pytest.MonkeyPatch, named_at_once: int
) -> None:
    monkeypatch.setattr(partition_values, "NAMED_AT_ONCE", named_at_once, raising=False)
    how = Partitioning("t", ("day",), None, ("bigint",), {"t": (nodes.Column("day"),)})
    store.create_table("t", pa.schema([("id", pa.int64()), ("day", pa.int64())]), ["id"], ["id"])
    each, held = 50_000, list[int]()

    def changes(*_: object, **__: object) -> Iterator[pa.RecordBatch]:
        start = pa.total_allocated_bytes()
        for n in range(40):
            days = pa.array([n // 4] * (each - 1) + [None], pa.int64())
            yield pa.record_batch([pa.array(range(each)), days], names=["id", "day"])
            del days
            held.append(pa.total_allocated_bytes() - start)

    monkeypatch.setattr(store.reader, "read_changes", changes)
    monkeypatch.setattr(partition_values, "_find_partitioning", lambda *_: (how, store.version.tables["t"]))

    def no_spark() -> Any:
        raise AssertionError("no Spark is needed for whole numbers")

    found = partition_values.list_changed_partitions(store, no_spark, "t", 0)
    assert found == tuple(sorted([*map(str, range(10)), "null"]))
    assert max(held) < 4 * 2 * 8 * each  # four batches of two columns
