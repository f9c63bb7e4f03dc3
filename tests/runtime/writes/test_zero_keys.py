"""Zeros of both signs are one key and NaN is one, to each rule for keys that come twice or are known."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from engine.connectors.sources import open_source
from engine.errors import DuplicateKey
from engine.session import Session
from tests.runtime.writes.test_large_statements import all_by_tasks, several_tasks

__all__ = ["all_by_tasks", "several_tasks"]
NAN = float("nan")
PAIRS = ([7.0, 7.0], [0.0, -0.0], [-0.0, 0.0], [NAN, NAN])
UPDATES = "ON CONFLICT DO UPDATE IF NOT NULL"


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Session]:
    """A session that starts no Spark."""

    def no_spark() -> None:
        raise AssertionError("Spark was started")

    with Session(tmp_path.as_uri(), no_spark, dialect="risingwave") as session:
        yield session


def _given(keys: list[float], **columns: list[int | None]) -> pa.Table:
    values = {name: pa.array(column, pa.int32()) for name, column in columns.items()}
    return pa.table({"d": pa.array(keys, pa.float64()), **values})


def _read(session: Session) -> list[tuple]:
    found = session.sql("SELECT * FROM t")
    assert found is not None
    return [tuple(row.values())[1:] for row in found.to_pylist()]


@pytest.mark.parametrize("keys", PAIRS, ids=str)
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize(
    ("clause", "left"),
    [
        ("", [(9, 2)]),
        ("ON CONFLICT DO NOTHING", [(1, None)]),
        (UPDATES, [(1, 2)]),
        ("ON CONFLICT DO UPDATE FULL WITH VERSION COLUMN (v)", [(1, None)]),
        (f"{UPDATES} WITH VERSION COLUMN (v)", [(1, None)]),
    ],
)
def test_one_row_is_left_of_a_key(
    alone: Session, keys: list[float], apart: bool, clause: str, left: list[tuple]
) -> None:
    alone.sql(f"CREATE TABLE t (d DOUBLE PRIMARY KEY, v INT, w INT) {clause}")
    second = None if clause == UPDATES else 0 if "VERSION" in clause else 9
    rows = _given(keys, v=[1, second], w=[None, 2])
    for part in (rows.slice(0, 1), rows.slice(1)) if apart else (rows,):
        alone.write("t", part, mode="insert")
    assert _read(alone) == left


@pytest.mark.parametrize("keys", PAIRS, ids=str)
def test_a_key_that_comes_twice_is_told_where_it_is_an_error(alone: Session, keys: list[float]) -> None:
    alone.dialect = "postgres"
    alone.sql("CREATE TABLE t (d DOUBLE PRECISION PRIMARY KEY, v INT)")
    with pytest.raises(DuplicateKey, match="occurs twice"):
        alone.write("t", _given(keys, v=[1, 2]), mode="insert")
    alone.write("t", _given(keys[:1], v=[1]), mode="insert")
    with pytest.raises(DuplicateKey, match="exist"):
        alone.write("t", _given(keys[1:], v=[2]), mode="insert")
    alone.write("t", _given(keys[1:], v=[2]), mode="upsert")
    assert _read(alone) == [(2,)]
    alone.write("t", _given(keys[1:]), mode="delete")
    assert _read(alone) == []


@pytest.mark.parametrize("keys", PAIRS, ids=str)
@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_a_key_stands_once_in_a_table_with_ttl(alone: Session, keys: list[float], mode: str) -> None:
    ttl = "WATERMARK FOR ts AS ts - INTERVAL '1' HOUR WITH TTL"
    alone.sql(f"CREATE TABLE t (d DOUBLE PRIMARY KEY, v INT, ts TIMESTAMP, {ttl})")
    times = [datetime.datetime(2024, 1, 1, 0, minute) for minute in (1, 2)]
    rows = _given(keys, v=[1, 2]).append_column("ts", pa.array(times, pa.timestamp("us")))
    alone.write("t", rows, mode=mode)
    assert [v for v, _ in _read(alone)] == [2]


def test_a_key_that_is_asked_for_twice_is_found_once(alone: Session) -> None:
    alone.sql("CREATE TABLE t (d DOUBLE PRIMARY KEY, v INT)")
    alone.write("t", _given([0.0, 1.0], v=[1, 2]), mode="insert")
    found = alone.sql("SELECT v FROM t WHERE d IN (?, ?)", [-0.0, 0.0])
    assert found is not None and found.to_pylist() == [{"v": 1}]


@pytest.mark.long
def test_tasks_tell_keys_apart_as_one_process_does(
    tmp_path: Path, spark: SparkSession, all_by_tasks: None
) -> None:
    keys = "VALUES (0.0D, 1, 1), (-0.0D, NULL, 0), (double('NaN'), 1, 1), (double('NaN'), NULL, 0)"
    rules = {"DO NOTHING": None, "DO UPDATE FULL": None, "DO UPDATE IF NOT NULL": [1, 1]}
    rules["DO UPDATE FULL WITH VERSION COLUMN (ver)"] = [1, 1]  # of the others the order of the rows decides
    with Session(tmp_path.as_uri(), spark) as session:
        session.sql("CREATE TABLE given (d DOUBLE, v INT, ver INT)")
        session.sql(f"INSERT INTO given {keys}")
        session.sql("CREATE TABLE plain (d DOUBLE PRIMARY KEY, v INT, ver INT)")
        with pytest.raises(DuplicateKey, match="occurs twice"):
            session.sql("INSERT INTO plain SELECT * FROM given")
        for number, (rule, values) in enumerate(rules.items()):
            columns = "(d DOUBLE PRIMARY KEY, v INT, ver INT)"
            session.sql(f"CREATE TABLE t{number} {columns} ON CONFLICT {rule}")
            session.sql(f"INSERT INTO t{number} SELECT * FROM given")
            found = session.sql(f"SELECT v FROM t{number}")
            assert found is not None and found.num_rows == 2, rule
            assert values is None or found.column("v").to_pylist() == values, rule


def test_of_a_key_the_last_row_of_a_file_counts_where_tasks_read_it(
    tmp_path: Path, spark: SparkSession, several_tasks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELINE_LANDING_TASKS_MB", "0")
    (tmp_path / "in").mkdir()
    pq.write_table(_given([0.0, NAN, -0.0, -NAN, 0.0], v=[1, 2, 3, 4, 5]), tmp_path / "in" / "a.parquet")
    with Session((tmp_path / "store").as_uri(), spark) as session:
        options = f"WITH (connector = 'landing', path = '{tmp_path}/in')"
        session.sql(f"CREATE TABLE t (d DOUBLE PRIMARY KEY, v INT) {options}")
        open_source(session.store, session.catalog.get("t")).poll(lambda: session.computing)
        assert sorted(_read(session)) == [(4,), (5,)]
