"""Columns of Delta tables that are renamed between two polls, fields of odd names, and dates of years that Python has not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.errors import SourceError
from engine.session import Session
from tests.connectors.delta_tables import FEED, DeltaTable, SparkDeltaTable, follow, held, poll

MAPPED = "'delta.columnMapping.mode' = 'name'"
FED = f"{FEED}, {MAPPED}"
COLUMNS = ("id", "a", "b")
SWAP = (
    "ALTER TABLE {} RENAME COLUMN a TO x",
    "ALTER TABLE {} RENAME COLUMN b TO a",
    "ALTER TABLE {} RENAME COLUMN x TO b",
)
AWAY_AND_BACK = (
    *SWAP[:2],
    "ALTER TABLE {} RENAME COLUMN a TO b",
    "ALTER TABLE {} RENAME COLUMN x TO a",
)


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A function that returns a Delta table of three columns with two rows, which tests copy."""

    @cache
    def make(properties: str) -> Path:
        there = SparkDeltaTable(spark, tmp_path_factory.mktemp("made") / "delta")
        there.make("id BIGINT, a STRING, b STRING", properties=properties)
        there.insert("VALUES (1, 'a1', 'b1'), (2, 'a2', 'b2')")
        return Path(there.path)

    return make


@pytest.fixture
def delta(
    spark: SparkSession, made: Callable[[str], Path], tmp_path: Path
) -> Callable[[str], SparkDeltaTable]:
    """A function that gives a test such a Delta table of its own."""
    return lambda said: SparkDeltaTable(spark, shutil.copytree(made(said), tmp_path / "delta"))


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(SWAP, marks=pytest.mark.long),
        pytest.param(
            ("ALTER TABLE {} DROP COLUMN a", "ALTER TABLE {} ADD COLUMN a STRING"), marks=pytest.mark.long
        ),
    ],
)
def test_a_name_that_another_column_has_got_is_told_until_all_is_compared(
    session: Session, delta: Callable[[str], SparkDeltaTable], changes: tuple[str, ...]
) -> None:
    there = delta(FED)
    follow(session, there, "id BIGINT PRIMARY KEY, a STRING, b STRING")
    poll(session)
    there.sql("INSERT INTO {} VALUES (3, 'a3', 'b3')", *changes, "UPDATE {} SET b = 'z' WHERE id = 2")
    with pytest.raises(SourceError, match=r"column [ab] of the Delta table .* ALTER TABLE t RESYNC"):
        poll(session)
    assert [row[0] for row in held(session)] == [1, 2, 3]  # what came before is taken
    session.sql("ALTER TABLE t RESYNC")
    assert held(session, columns="id, a, b") == there.rows(COLUMNS)
    there.sql("DELETE FROM {} WHERE id = 1")
    assert poll(session).rows == 1


@pytest.mark.long
def test_a_renamed_column_that_was_not_taken_and_one_that_has_its_name_again_are_nothing(
    session: Session, delta: Callable[[str], SparkDeltaTable]
) -> None:
    there = delta(FED)
    follow(session, there, "id BIGINT PRIMARY KEY, a STRING")
    poll(session)
    there.sql(*AWAY_AND_BACK, "ALTER TABLE {} RENAME COLUMN b TO c", "DELETE FROM {} WHERE id = 1")
    assert poll(session).rows == 1
    assert held(session) == there.rows(("id", "a"))


@pytest.mark.long
def test_without_a_feed_columns_that_were_renamed_are_compared(
    session: Session, delta: Callable[[str], SparkDeltaTable]
) -> None:
    there = delta(MAPPED)
    follow(session, there, "id BIGINT PRIMARY KEY, a STRING, b STRING")
    session.sql(f"CREATE SOURCE s (PRIMARY KEY (id)) WITH (connector = 'delta', path = '{there.path}')")
    session.sql("CREATE MATERIALIZED VIEW v AS SELECT id, a, b FROM s")
    for name in ("t", "s"):
        poll(session, name)
    session.flush().raise_for_all()
    there.sql(*SWAP)
    assert [poll(session, name).rows for name in ("t", "s")] == [2, 2]
    session.flush().raise_for_all()
    assert held(session, "v") == held(session, "t") == there.rows(COLUMNS)


@pytest.mark.long
def test_a_source_says_that_a_name_is_another_column_s(
    session: Session, delta: Callable[[str], SparkDeltaTable]
) -> None:
    there = delta(FED)
    session.sql(f"CREATE SOURCE s (PRIMARY KEY (id)) WITH (connector = 'delta', path = '{there.path}')")
    session.sql("CREATE MATERIALIZED VIEW v AS SELECT id, a, b FROM s")
    poll(session, "s")
    session.flush().raise_for_all()
    there.sql(*SWAP)
    with pytest.raises(SourceError, match=r"column b of the Delta table .* DROP SOURCE s CASCADE"):
        poll(session, "s")


@pytest.mark.long
def test_fields_that_are_added_are_left_out_and_wider_values_are_taken_where_they_fit(
    session: Session, spark: SparkSession, tmp_path: Path
) -> None:
    there = SparkDeltaTable(spark, tmp_path / "delta")
    there.make(
        "id BIGINT, n INT, f FLOAT, s STRUCT<a: INT>",
        properties=f"{FEED}, 'delta.enableTypeWidening' = 'true'",
    )
    there.insert("VALUES (1, 1, 1.5, named_struct('a', 1)), (2, 2, 2.5, NULL)")
    listed = "(PRIMARY KEY (id)) WITH (connector = 'delta'"
    session.sql(f"CREATE TABLE t {listed}, path = '{there.path}')")
    session.sql(f"CREATE SOURCE s {listed}, path = '{there.path}')")
    session.sql("CREATE MATERIALIZED VIEW v AS SELECT id, n, f, s FROM s")
    for name in ("t", "s"):
        poll(session, name)
    there.sql(
        "ALTER TABLE {} ALTER COLUMN n TYPE BIGINT",
        "ALTER TABLE {} ADD COLUMN s.b STRING FIRST",
        "INSERT INTO {} VALUES (3, 3, 3.5, named_struct('b', 'b', 'a', 3))",
    )
    warned = poll(session, "s").warnings
    session.flush().raise_for_all()
    assert held(session, "v") == [
        (1, 1, 1.5, {"a": 1}),
        (2, 2, 2.5, None),
        (3, 3, 3.5, {"a": 3}),
    ]
    there.sql(
        "UPDATE {} SET n = 3000000000 WHERE id = 1",
        "ALTER TABLE {} ALTER COLUMN f TYPE DOUBLE",
        "INSERT INTO {} VALUES (4, 4, 1e300, NULL), (5, 5, 5.5, named_struct('b', 'b', 'a', NULL))",
    )
    report = poll(session)
    assert (report.rows, report.dead_rows) == (3, 2)
    for warning in (*warned, *report.warnings):
        assert (
            "new field s.b, which" in warning
            or "is bigint by now" in warning
            or "is double by now" in warning
            or "_dead" in warning
        )
    assert (len(warned), len(report.warnings)) == (2, 5)
    assert held(session) == [(2, 2, 2.5, None), (3, 3, 3.5, {"a": 3}), (5, 5, 5.5, {"a": None})]
    assert held(session, "_dead_letter", "file, reason") == [
        ("version 5", "column n of the Delta table is 3000000000, which int does not hold"),
        ("version 7", "column f of the Delta table is 1.0E300, which float does not hold"),
    ]
    with pytest.raises(SourceError, match=r"n of the Delta table is 3000000000.*DROP SOURCE s CASCADE"):
        poll(session, "s")
    there.sql("UPDATE {} SET n = 7 WHERE id = 1", "DELETE FROM {} WHERE id = 4")
    assert poll(session).rows == 2
    session.sql("ALTER TABLE t RESYNC")
    assert held(session, columns="id, n, f, s.a") == there.rows(("id", "n", "f", "s.a"))


@pytest.mark.long
def test_fields_may_have_any_name_of_letters_and_digits(
    session: Session, spark: SparkSession, tmp_path: Path
) -> None:
    fields = ("größe", "1d", "order", "123")
    kinds = ", ".join(f"`{field}`: INT" for field in fields)
    values = ", ".join(f"'{field}', 7" for field in fields)
    there = DeltaTable(spark, tmp_path / "delta").make(f"id BIGINT, s ARRAY<STRUCT<{kinds}>>")
    there.insert(f"SELECT id, array(named_struct({values})) FROM range(3)")
    session.sql(f"CREATE TABLE t (PRIMARY KEY (id)) WITH (connector = 'delta', path = '{there.path}')")
    assert poll(session).rows == 3
    there.sql("DELETE FROM {} WHERE id = 1")
    assert poll(session).rows == 1
    assert held(session) == [(n, [dict.fromkeys(fields, 7)]) for n in (0, 2)]


@pytest.mark.long
def test_rows_with_dates_that_python_has_not_are_set_aside_as_others(
    session: Session, spark: SparkSession, tmp_path: Path
) -> None:
    days = ("0000-01-01", "-0044-03-15", "+10000-01-01")

    def rows(*keys: int | None) -> str:
        given = [("NULL" if key is None else 10 * n + key, day) for n, day in enumerate(days) for key in keys]
        return ", ".join(f"({key}, DATE'{day}')" for key, day in given)

    there = DeltaTable(spark, tmp_path / "delta").make("id BIGINT, day DATE")
    there.insert(f"VALUES {rows(1, 1, None)}")
    follow(session, there, "id BIGINT PRIMARY KEY, day DATE")
    report = poll(session)
    assert (report.rows, report.dead_rows) == (3, 6)
    there.insert(f"VALUES {rows(None, 2)}")
    report = poll(session)
    assert (report.rows, report.dead_rows) == (3, 3)
    raw = [json.loads(row[0])["day"] for row in held(session, "_dead_letter", "raw")]
    assert sorted(day.strip("+-") for day in raw) == sorted(day.strip("+-") for day in days * 3)
    taken = [(10 * n + key, day) for n, day in enumerate(days) for key in (1, 2)]
    assert held(session, columns="id, CAST(day AS STRING)") == sorted(taken, key=repr)
