"""Folders named column=value give all rows below them that value, or are told."""

from __future__ import annotations

import datetime
import decimal
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.connectors.formats.file_format import MalformedFile
from engine.connectors.landing.partition_folders import parse_folder_values
from engine.connectors.landing.source import LandingSource
from engine.meta.status.dead_letters import DEAD_LETTER
from engine.session import Session

Source = Callable[..., LandingSource]
FORMATS = ("csv", "jsonl", "parquet")


def rows(lake: Session, table: str = "orders") -> list[dict[str, Any]]:
    lake.store.refresh()
    found = [row for batch in lake.store.iter(table) for row in batch.to_pylist()]
    return sorted(found, key=lambda row: (str(row.get("id")), str(row.get("file"))))


def reasons(lake: Session) -> list[tuple[str, int, str]]:
    return [(row["file"], row["line"], row["reason"]) for row in rows(lake, DEAD_LETTER)]


def write(path: Path, columns: dict[str, list[Any]]) -> None:
    """Write a file in the format of its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    match path.suffix:
        case ".csv":
            texts = [",".join("" if one is None else str(one) for one in line.values()) for line in lines]
            path.write_text("\n".join([",".join(columns), *texts]) + "\n")
        case ".jsonl":
            quoted = [", ".join(f'"{k}": {_json(v)}' for k, v in line.items()) for line in lines]
            path.write_text("".join(f"{{{line}}}\n" for line in quoted))
        case _:
            pq.write_table(pa.table(columns), path)


def _json(value: object) -> str:
    return "null" if value is None else f'"{value}"' if isinstance(value, str) else str(value)


@pytest.mark.parametrize(
    ("kind", "folder_name", "value"),
    [
        ("STRING", "2024-01-02", "2024-01-02"),
        ("STRING", "a%2Fb%20c%3Dd", "a/b c=d"),
        ("STRING", "%C3%BCber", "über"),
        ("STRING", "a=b", "a=b"),
        ("STRING", "a+b", "a+b"),
        ("STRING", "__HIVE_DEFAULT_PARTITION__", None),
        ("VARCHAR(3)", "abc", "abc"),
        ("DATE", "2024-01-02", datetime.date(2024, 1, 2)),
        ("DATE", "__HIVE_DEFAULT_PARTITION__", None),
        ("TIMESTAMP_NTZ", "2024-01-02 03%3A04%3A05", datetime.datetime(2024, 1, 2, 3, 4, 5)),
        ("INT", "01", 1),
        ("BIGINT", "-5", -5),
        ("DOUBLE", "1.5", 1.5),
        ("BOOLEAN", "true", True),
        ("DECIMAL(10,2)", "1.50", decimal.Decimal("1.50")),
        ("JSONB", "%7B%22a%22%3A 1%7D", '{"a": 1}'),
    ],
)
def test_a_value_is_of_the_column_s_type(
    lake: Session, folder: Path, orders: Source, kind: str, folder_name: str, value: object
) -> None:
    source = orders(f"id INT PRIMARY KEY, x {kind}")
    for at, form in enumerate(FORMATS):
        write(folder / f"x={folder_name}" / f"a.{form}", {"id": [at]})
    report = source.poll()
    assert (report.dead_rows, report.warnings) == (0, ())
    assert rows(lake) == [{"id": at, "x": value} for at in range(3)]


def test_several_folders_are_several_columns_as_duckdb_reads_them(
    lake: Session, folder: Path, orders: Source
) -> None:
    source = orders("id INT PRIMARY KEY, year INT, Region STRING")
    for at, (year, region) in enumerate([("2024", "eu"), ("2025", "us%20east")]):
        write(folder / f"year={year}" / "plain" / f"region={region}" / "a.parquet", {"id": [at]})
    assert source.poll().dead_rows == 0
    with duckdb.connect() as judge:
        found = judge.sql(
            f"SELECT id, year, region FROM read_parquet('{folder}/*/*/*/*.parquet', hive_partitioning = true) ORDER BY id"
        ).fetchall()
    assert [tuple(row.values()) for row in rows(lake)] == found == [(0, 2024, "eu"), (1, 2025, "us east")]


def test_a_folder_may_give_a_column_of_the_key_and_one_that_begins_with_an_underscore(
    lake: Session, folder: Path, orders: Source
) -> None:
    source = orders("id INT, day DATE, PRIMARY KEY (day, id)")
    for day in ("2024-01-02", "2024-01-03"):
        write(folder / f"day={day}" / "_part=1" / "a.csv", {"id": [1]})
    write(folder / "day=2024-01-04" / "_temporary" / "a.csv", {"id": [1]})
    write(folder / "day=__HIVE_DEFAULT_PARTITION__" / "a.csv", {"id": [1]})
    report = source.poll()
    assert sorted(row["day"].day for row in rows(lake)) == [2, 3]
    assert [(line, reason) for _, line, reason in reasons(lake)] == [(2, "column day: the key has no value")]
    assert report.warnings == tuple(
        f"day=2024-01-0{at}/_part=1/a.csv: columns that the table lacks were left out: _part (of a folder)"
        for at in (2, 3)
    )


@pytest.mark.parametrize("form", FORMATS)
def test_a_column_that_is_in_the_file_too_is_the_same_or_told_row_by_row(
    lake: Session, folder: Path, orders: Source, form: str
) -> None:
    source = orders("id INT PRIMARY KEY, n INT, name STRING")
    write(folder / "N=7" / f"a.{form}", {"id": [1, 2, 3], "n": [7, 8, None], "name": ["a", "b", "c"]})
    source.poll()
    assert rows(lake) == [{"id": 1, "n": 7, "name": "a"}]
    assert [reason for *_, reason in reasons(lake)] == [
        'column n: "8", but the folder says N=7',
        'column n: "None", but the folder says N=7',
    ]


@pytest.mark.parametrize(
    ("kind", "folder_name", "same", "other"),
    [
        ("DOUBLE", "NaN", '"NaN"', "1.5"),
        ("DOUBLE", "0.0", "-0.0", '"NaN"'),
        ("CHAR(3)", "a", '"a  "', '"b"'),
        ("VARCHAR(2)", "ab", '"ab "', '"a"'),
        ("JSONB", "%7B%22a%22%3A 1%7D", '{"a":1}', '{"a":2}'),
        ("ARRAY<DOUBLE>", "[NaN, 1]", '["NaN", 1.0]', "[1.0]"),
    ],
)
def test_a_value_is_the_folder_s_as_the_table_keeps_it(
    lake: Session, folder: Path, orders: Source, kind: str, folder_name: str, same: str, other: str
) -> None:
    source = orders(f"id INT PRIMARY KEY, x {kind}")
    place = folder / f"x={folder_name}"
    place.mkdir()
    (place / "a.jsonl").write_text(f'{{"id": 1, "x": {same}}}\n{{"id": 2}}\n{{"id": 3, "x": {other}}}\n')
    source.poll()
    assert [row["id"] for row in rows(lake)] == [1, 2]
    assert [line for _, line, _ in reasons(lake)] == [3]


def test_what_a_json_row_lacks_the_folder_gives(lake: Session, folder: Path, orders: Source) -> None:
    source = orders("id INT PRIMARY KEY, n INT DEFAULT 5")
    (folder / "n=7").mkdir()
    (folder / "n=7" / "a.jsonl").write_text('{"id": 1, "n": 7}\n{"id": 2}\n{"id": 3, "n": null}\n')
    source.poll()
    assert rows(lake) == [{"id": 1, "n": 7}, {"id": 2, "n": 7}]
    assert len(reasons(lake)) == 1


def test_a_folder_with_a_null_is_told_where_a_file_has_a_value(
    lake: Session, folder: Path, orders: Source
) -> None:
    source = orders("id INT PRIMARY KEY, n INT")
    write(folder / "n=__HIVE_DEFAULT_PARTITION__" / "a.csv", {"id": [1, 2], "n": [7, None]})
    source.poll()
    assert rows(lake) == [{"id": 2, "n": None}]
    assert len(reasons(lake)) == 1


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("n=x", "the folder n=x names no value that column n can have"),
        ("n=", "the folder n= names no value that column n can have"),
        ("n=1/n=2", "its folders name two values of n"),
        ("n=1/N=2", "its folders name two values of N"),
        ("n=%FF", "the name of the folder n=%FF is not UTF-8"),
        ("_op=delete", "a folder's name gives _op: an operation belongs to the rows of a file"),
    ],
)
def test_a_folder_that_cannot_be_meant_sets_its_files_aside_and_no_other(
    lake: Session, folder: Path, orders: Source, path: str, reason: str
) -> None:
    source = orders("id INT PRIMARY KEY, n INT")
    write(folder / path / "a.csv", {"id": [1, 2]})
    write(folder / "n=3" / "a.csv", {"id": [9]})
    source.poll()
    assert [(line, text) for _, line, text in reasons(lake)] == [(0, reason)]
    assert rows(lake) == [{"id": 9, "n": 3}]


def test_the_same_value_twice_is_one_and_the_file_s_own_name_is_no_folder() -> None:
    assert parse_folder_values("n=1/n=1/m=2.csv") == {"n": "1"}
    assert parse_folder_values("n=3.csv") == parse_folder_values("=3/n/a.csv") == {}
    with pytest.raises(MalformedFile):
        parse_folder_values("n=\udcff/a.csv")


def test_a_file_whose_columns_are_all_in_its_folders_has_as_many_rows_as_it_says(
    lake: Session, folder: Path, orders: Source
) -> None:
    source = orders("n INT, m STRING")
    write(folder / "n=1" / "m=a" / "a.parquet", {"other": [1, 2]})
    write(folder / "n=1" / "a.parquet", {"other": [1, 2]})
    source.poll()
    assert [(row["n"], row["m"]) for row in rows(lake)] == [(1, "a"), (1, "a")]
    assert [text for *_, text in reasons(lake)] == [
        "the file has no column of orders, which has n, m; it has other"
    ]


@pytest.mark.s3
def test_an_object_below_such_a_prefix_has_the_value(
    lake: Session, s3_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.hummock.object_store import open_object_store

    monkeypatch.delenv("TIDELINE_HOME", raising=False)
    bucket, sink = open_object_store(f"{s3_url}/in"), io.BytesIO()
    pq.write_table(pa.table({"id": [1]}), sink)
    bucket.put("day=2024-01-02/_h=1/a.parquet", sink.getvalue())
    bucket.put("day=2024-01-03/a b.csv", b"id\n2\n")
    bucket.put("day=__HIVE_DEFAULT_PARTITION__/a.csv", b"id\n3\n")
    path = f"connector = 'landing', path = '{s3_url}/in'"
    lake.sql(f"CREATE TABLE orders (id INT PRIMARY KEY, day DATE) WITH ({path})")
    LandingSource.of_relation(lake.store, lake.catalog.get("orders")).poll()
    assert [row["day"] for row in rows(lake)] == [datetime.date(2024, 1, 2), datetime.date(2024, 1, 3), None]
