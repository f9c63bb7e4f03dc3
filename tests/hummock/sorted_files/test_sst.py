"""Sorted files by themselves: plain Parquet that any engine reads, packed tightly."""

from __future__ import annotations

import datetime
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from engine.hummock import Hummock, Put, Table
from engine.hummock.sorted_files.sst import encode_sst
from tests.hummock.conftest import rows


def test_a_file_of_the_store_is_plain_parquet(store: Hummock, tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("day", pa.date32()),
            ("at", pa.timestamp("us", "UTC")),
            ("name", pa.string()),
            ("raw", pa.large_binary()),
            ("tags", pa.list_(pa.string())),
            ("ok", pa.bool_()),
            ("small", pa.int16()),
        ]
    )
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    given = [
        (
            i,
            moment.date() + datetime.timedelta(i),
            moment,
            f"n{i}",
            bytes([i % 256]) * 3,
            [str(i)],
            i % 2 == 0,
            i,
        )
        for i in range(3000)
    ]
    table = store.create_table("wide", schema, ["id"], ["id"])
    store.ingest_batch(
        {
            table: [
                Put(
                    pa.Table.from_pylist(
                        [dict(zip(schema.names, row, strict=True)) for row in given], schema=schema
                    )
                )
            ]
        }
    )
    found = duckdb.sql(
        f"SELECT id, day, name, raw, tags, ok, small FROM read_parquet('{tmp_path}/store/sst/*.parquet') ORDER BY id"
    ).fetchall()
    assert found == [(i, day, name, raw, tags, ok, small) for i, day, _, name, raw, tags, ok, small in given]


def test_random_values_cost_little_more_than_their_bytes(store: Hummock, table: Table) -> None:
    chance = np.random.default_rng(1)
    values = pa.array([chance.bytes(100) for _ in range(20_000)], pa.binary())
    keys = pa.array(np.sort(chance.integers(0, 1 << 62, 20_000)))
    data = encode_sst(
        pa.table({"_hash": keys, "id": keys, "_op": pa.array([0] * 20_000, pa.uint8()), "v": values})
    )
    assert len(data) < 20_000 * (100 + 7 + 7 + 1)


def test_no_rows_make_no_file(store: Hummock, table: Table) -> None:
    store.ingest_batch({table: [Put(rows({}))]})
    assert store.version.tables["t"].file_count == 0


def test_a_name_with_a_dot_is_none_of_a_field(store: Hummock) -> None:
    nested = pa.struct([("b", pa.int64())])
    table = Table("t", pa.schema([("id", pa.int64()), ("a", nested), ("a.b", pa.string())]), ("id",), ("id",))
    store.create_table(table.name, table.schema, ["id"], ["id"])
    texts = [f"text {number}" for number in range(3_000)]
    given = pa.table(
        {"id": range(3_000), "a": pa.array([{"b": 1}] * 3_000, nested), "a.b": texts}, table.schema
    )
    store.ingest_batch({table: [Put(given)]})
    found = pa.Table.from_batches(store.iter("t"))
    assert sorted(found.column("a.b").to_pylist()) == sorted(texts)
    assert found.column("a").to_pylist() == [{"b": 1}] * 3_000
