"""Random Parquet files of all types, read by tasks and by a poll by itself, and DuckDB as the judge of which row counts."""

from __future__ import annotations

import datetime
import decimal
import random
import threading
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.connectors.contract.connector import SourceReport, no_spark
from engine.connectors.landing import tasks
from engine.connectors.landing.source import LandingSource
from engine.runtime.writes import key_order
from engine.session import Session
from tests.long_rest import mark_rest_long

KINDS: dict[str, tuple[str, pa.DataType]] = {
    "flag": ("BOOLEAN", pa.bool_()),
    "tiny": ("TINYINT", pa.int8()),
    "small": ("SMALLINT", pa.int16()),
    "whole": ("INT", pa.int32()),
    "large": ("BIGINT", pa.int64()),
    "near": ("FLOAT", pa.float32()),
    "far": ("DOUBLE", pa.float64()),
    "amount": ("DECIMAL(38, 10)", pa.decimal128(38, 10)),
    "price": ("DECIMAL(9, 2)", pa.decimal128(9, 2)),
    "day": ("DATE", pa.date32()),
    "moment": ("TIMESTAMP", pa.timestamp("us", "UTC")),
    "local": ("TIMESTAMP_NTZ", pa.timestamp("us")),
    "data": ("BINARY", pa.binary()),
    "word": ("STRING", pa.string()),
    "list": ("ARRAY<INT>", pa.list_(pa.int32())),
    "pair": ("STRUCT<a: INT, b: STRING>", pa.struct([("a", pa.int32()), ("b", pa.string())])),
    "counts": ("MAP<STRING, INT>", pa.map_(pa.string(), pa.int32())),
}
KEYS: tuple[tuple[str, ...], ...] = (
    ("large",),
    ("word",),
    ("data", "flag"),
    ("amount",),
    ("far",),
    ("moment", "tiny"),
    ("day", "local", "price"),
)
BESIDE = "code VARCHAR(6), mark CHAR(4), note JSONB, said STRING DEFAULT 'nothing'"


def value(name: str, chance: random.Random, few: bool) -> Any:
    """Return a value of a column; of a key's there are `few`."""
    number = chance.randrange(9) if few else chance.randrange(-120, 120)
    match name:
        case "flag":
            return bool(number % 2)
        case "near" | "far":
            return chance.choice([0.0, -0.0, float("nan"), float("inf"), number / 4, 1e-30])
        case "amount":
            return decimal.Decimal(number) * decimal.Decimal("1234567890123456789012345.0000000001")
        case "price":
            return decimal.Decimal(number) / 4
        case "day":
            return datetime.date(1890, 1, 1) + datetime.timedelta(days=number * 700)
        case "moment":
            return datetime.datetime(1890, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(
                days=number * 700, microseconds=1
            )
        case "local":
            return datetime.datetime(2024, 3, 31, 2, 30) + datetime.timedelta(hours=number)
        case "data":
            return bytes([number % 256]) * (number % 4)
        case "word":
            return chance.choice(["", "a", "a ", " a", "ä" * 20, "A", "\0", "𝒳"])
        case "list":
            return [None if chance.random() < 0.2 else n for n in range(number % 4)]
        case "pair":
            return {"a": chance.choice([None, number]), "b": chance.choice([None, "b"])}
        case "counts":
            return [(f"k{n}", chance.choice([None, n])) for n in range(number % 3)]
    return number


def write_files(folder: Path, key: tuple[str, ...], chance: random.Random, first: int) -> None:
    """Write files whose keys meet; in some rows a value, or a part of the key, is missing or does not fit."""
    for number in range(first, first + 4):
        count = chance.choice([1, 60, 400])
        columns = {
            name: pa.array(
                [
                    None
                    if chance.random() < (0.03 if name in key else 0.2)
                    else value(name, chance, name in key)
                    for _ in range(count)
                ],
                kind,
            )
            for name, (_, kind) in KINDS.items()
        }
        rows = pa.table(columns)
        rows = rows.append_column(
            "code", pa.array([chance.choice([None, "abc", "ab    ", "too long"]) for _ in range(count)])
        )
        rows = rows.append_column("mark", pa.array([chance.choice([None, "x", "x  "]) for _ in range(count)]))
        notes = ['{"b": 1, "a": [1.0]}', "null", "no json", None]
        rows = rows.append_column("note", pa.array([chance.choice(notes) for _ in range(count)]))
        if chance.random() < 0.5:
            rows = rows.append_column("said", pa.array([chance.choice([None, "yes"]) for _ in range(count)]))
        if chance.random() < 0.5:
            rows = rows.append_column("_op", pa.array(chance.choices(["upsert", "delete"], [9, 1], k=count)))
        pq.write_table(rows, folder / f"{number:02}.parquet", row_group_size=chance.choice([17, 100]))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(tasks.SETTING, "0")
    monkeypatch.setattr(tasks, "SHARE_BYTES", 8_000)
    made = tmp_path / "landing"
    made.mkdir()
    return made


def poll(session: Session, name: str, *, tasks: bool) -> SourceReport:
    source = LandingSource.of_relation(session.store, session.catalog.get(name))
    report = source.poll((lambda: session.computing) if tasks else no_spark)
    assert not any("tasks could not" in warning for warning in report.warnings), report.warnings
    return report


def asked(session: Session, text: str) -> list[str]:
    found = session.sql(text)
    assert found is not None
    return sorted(repr(tuple(row.values())) for row in found.to_pylist())


def known(session: Session, name: str, columns: str = "*") -> list[list[str]]:
    of = f"WHERE source = '{name}'"
    return [
        asked(session, f"SELECT {columns} FROM {name}"),
        asked(session, f"SELECT path, size, rows, dead_rows, position FROM _landing_files {of}"),
        asked(session, f"SELECT file, line, reason, raw FROM _dead_letter {of}"),
    ]


@pytest.mark.parametrize("key", mark_rest_long([(one,) for one in KEYS]), ids=lambda key: "-".join(key))
def test_rows_of_all_types_are_those_that_a_poll_by_itself_gives(
    session: Session, folder: Path, monkeypatch: pytest.MonkeyPatch, key: tuple[str, ...]
) -> None:
    chance = random.Random(repr(key))
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in KINDS.items())
    for name in ("one", "two"):
        session.sql(
            f"CREATE TABLE {name} ({columns}, {BESIDE}, PRIMARY KEY ({', '.join(key)})) "
            f"WITH (connector = 'landing', path = '{folder}')"
        )
    for first in (0, 10):
        monkeypatch.setattr(key_order, "PACKED_FROM", 0 if first else 1 << 60)
        write_files(folder, key, chance, first)
        reports = poll(session, "one", tasks=False)
        by_tasks = poll(session, "two", tasks=True)
        assert (by_tasks.files, by_tasks.rows, by_tasks.dead_rows) == (4, reports.rows, reports.dead_rows)
        assert known(session, "two") == known(session, "one")
    assert reports.rows and reports.dead_rows


def test_which_row_counts_is_as_duckdb_says(session: Session, folder: Path) -> None:
    chance = random.Random(3)
    names = [name for name in KINDS if name not in ("near", "far", "large", "counts")]
    for number in range(5):
        rows = {
            name: pa.array(
                [None if chance.random() < 0.2 else value(name, chance, False) for _ in range(3_000)], kind
            )
            for name, (_, kind) in KINDS.items()
            if name in names
        }
        ids = pa.array([chance.randrange(5_000) for _ in range(3_000)], pa.int64())
        pq.write_table(
            pa.table({"large": ids, **rows}), folder / f"{number}.parquet", row_group_size=250 + number
        )
    columns = ", ".join(f"{name} {KINDS[name][0]}" for name in names)
    session.sql(
        f"CREATE TABLE one (large BIGINT PRIMARY KEY, {columns}) WITH (connector = 'landing', path = '{folder}')"
    )
    report = poll(session, "one", tasks=True)
    assert (report.rows, report.dead_rows) == (15_000, 0)
    shown = ", ".join(["large", *names])
    with duckdb.connect() as judge:
        judge.execute("SET TimeZone = 'UTC'")
        expected = judge.execute(
            f"SELECT {shown} FROM read_parquet('{folder}/*.parquet', filename = true, file_row_number = true) "
            "QUALIFY row_number() OVER (PARTITION BY large ORDER BY filename DESC, file_row_number DESC) = 1"
        ).to_arrow_table()
    assert 4_000 < expected.num_rows < 5_000
    held = sorted(repr(tuple(row.values())) for row in expected.to_pylist())
    assert asked(session, f"SELECT {shown} FROM one") == held


def test_a_column_that_was_dropped_is_not_taken(session: Session, folder: Path) -> None:
    for name in ("one", "two"):
        session.sql(
            f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, a STRING, b STRING) "
            f"WITH (connector = 'landing', path = '{folder}')"
        )
        session.sql(f"ALTER TABLE {name} DROP COLUMN a")
    ids = pa.array(range(2_000), pa.int64())
    given = {"a": ids, "b": [f"b{n}" for n in range(2_000)], "c": ids}
    pq.write_table(pa.table({"id": ids, **given}), folder / "a.parquet", row_group_size=100)
    for name in ("one", "two"):
        assert "a, c" in poll(session, name, tasks=name == "two").warnings[0]
    assert known(session, "two") == known(session, "one")
    assert asked(session, "SELECT * FROM two WHERE id = 7") == ["(7, 'b7')"]


def test_times_and_intervals_come_in_a_thread_that_has_no_spark_yet(session: Session, folder: Path) -> None:
    for name in ("one", "two"):
        session.sql(
            f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, at TIME, took INTERVAL DAY TO SECOND) "
            f"WITH (connector = 'landing', path = '{folder}')"
        )
    rows = {
        "id": pa.array(range(500), pa.int64()),
        "at": pa.array([n * 1_000_000 for n in range(500)], pa.time64("us")),
        "took": pa.array(range(500), pa.duration("us")),
    }
    pq.write_table(pa.table(rows), folder / "a.parquet", row_group_size=50)
    poll(session, "one", tasks=False)
    reports = list[SourceReport]()
    thread = threading.Thread(target=lambda: reports.append(poll(session, "two", tasks=True)))
    thread.start()
    thread.join()
    assert reports and reports[0].rows + reports[0].dead_rows == 500
    assert known(session, "two") == known(session, "one")


@pytest.mark.parametrize("tasks", [True, False])
def test_rows_without_a_key_are_all_kept_and_no_two_share_an_id(
    session: Session, folder: Path, tasks: bool
) -> None:
    session.sql(f"CREATE TABLE one (n BIGINT, v STRING) WITH (connector = 'landing', path = '{folder}')")
    for number in range(4):
        rows = {"n": pa.array([1, 1, 2, None] * 300, pa.int64()), "v": ["a", "a", None, None] * 300}
        pq.write_table(pa.table(rows), folder / f"{number}.parquet", row_group_size=100)
    assert poll(session, "one", tasks=tasks).rows == 4_800
    session.sql("INSERT INTO one VALUES (9, 'by hand')")
    ids = [row["_row_id"] for batch in session.store.iter("one") for row in batch.to_pylist()]
    assert len(set(ids)) == len(ids) == 4_801
    assert asked(session, "SELECT n, v, count(*) FROM one GROUP BY n, v") == sorted(
        ["(1, 'a', 2400)", "(2, None, 1200)", "(None, None, 1200)", "(9, 'by hand', 1)"]
    )
