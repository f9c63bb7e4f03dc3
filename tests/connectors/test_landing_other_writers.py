"""Files as other tools write them: types that Arrow knows by name, times beyond nanoseconds, names in capitals, empty columns."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.connectors.landing.source import LandingSource
from engine.session import Session

Source = Callable[..., LandingSource]


def rows(lake: Session) -> dict[object, dict[str, object]]:
    lake.store.refresh()
    return {row["id"]: row for batch in lake.store.iter("orders") for row in batch.to_pylist()}


@pytest.mark.parametrize("kind", ["TIMESTAMP_NTZ", "STRING"])
def test_times_of_12_bytes_are_those_of_all_calendars(
    lake: Session, folder: Path, orders: Source, kind: str
) -> None:
    source = orders(f"id INT PRIMARY KEY, at {kind}")
    times = [
        datetime.datetime(1, 1, 1),
        datetime.datetime(2024, 5, 6, 7, 8, 9, 123456),
        datetime.datetime(9999, 12, 31, 23, 59, 59),
    ]
    given = pa.table({"id": [0, 1, 2], "at": pa.array(times, pa.timestamp("us"))})
    pq.write_table(given, folder / "a.parquet", use_deprecated_int96_timestamps=True)
    assert source.poll().dead_rows == 0
    found = [rows(lake)[at]["at"] for at in range(3)]
    assert found == (times if kind == "TIMESTAMP_NTZ" else [time.isoformat(" ") for time in times])


def test_what_duckdb_calls_a_uuid_or_json_is_read_as_what_it_stands_for(
    lake: Session, folder: Path, orders: Source
) -> None:
    source = orders("id INT PRIMARY KEY, word STRING, data BINARY, pair STRUCT<a: INT>, note JSONB")
    one = uuid.UUID("a118e097-4203-42ec-96f4-a197c432242e")
    with duckdb.connect() as writer:
        writer.execute(
            f"COPY (SELECT 1 AS id, '{one}'::UUID AS word, '{one}'::UUID AS data, j AS pair, j AS note"
            f" FROM (SELECT '{{\"a\": 1}}'::JSON AS j) UNION ALL SELECT 2, NULL, NULL, NULL, NULL)"
            f" TO '{folder}/a.parquet' (FORMAT parquet)"
        )
    assert source.poll().dead_rows == 0
    assert rows(lake) == {
        1: {"id": 1, "word": str(one), "data": one.bytes, "pair": {"a": 1}, "note": '{"a": 1}'},
        2: {"id": 2, "word": None, "data": None, "pair": None, "note": None},
    }


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("b.csv", "ID,NAME,_OP\n1,,DELETE\n3,c,\n"),
        ("b.jsonl", '{"ID": 1, "_OP": "D"}\n{"ID": 3, "NAME": "c"}\n'),
    ],
)
def test_an_operation_in_capitals_is_one(
    lake: Session, folder: Path, orders: Source, name: str, content: str
) -> None:
    source = orders("id INT PRIMARY KEY, name STRING")
    (folder / "a.csv").write_text("ID,NAME\n1,a\n2,b\n")
    (folder / name).write_text(content)
    report = source.poll()
    assert (report.dead_rows, report.warnings) == (0, ())
    assert {key: row["name"] for key, row in rows(lake).items()} == {2: "b", 3: "c"}


def test_columns_without_a_name_are_left_out(lake: Session, folder: Path, orders: Source) -> None:
    source = orders("id INT PRIMARY KEY, name STRING")
    (folder / "a.csv").write_text("id,,name,,\n1,x,a,,\n2,,b,,y\n")
    report = source.poll()
    assert (report.dead_rows, report.warnings) == (0, ())
    assert {key: row["name"] for key, row in rows(lake).items()} == {1: "a", 2: "b"}
