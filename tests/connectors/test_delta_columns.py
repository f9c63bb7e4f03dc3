"""Columns of Delta tables that are renamed between two polls, fields of odd names, and dates of years that Python has not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.errors import SourceError
from engine.session import Session
from tests.connectors.delta_tables import FEED, DeltaTable, follow, held, poll

MAPPED = "'delta.columnMapping.mode' = 'name'"
FED = f"{FEED}, {MAPPED}"
COLUMNS = ("id", "a", "b")
SWAP = (
    "ALTER TABLE {} RENAME COLUMN a TO x",
    "ALTER TABLE {} RENAME COLUMN b TO a",
    "ALTER TABLE {} RENAME COLUMN x TO b",
)


@pytest.fixture
def delta(spark: SparkSession, tmp_path: Path) -> Callable[..., DeltaTable]:
    """A function that makes a Delta table of three columns with two rows."""

    def make(properties: str) -> DeltaTable:
        there = DeltaTable(spark, tmp_path / "delta")
        there.make("id BIGINT, a STRING, b STRING", properties=properties)
        there.insert("VALUES (1, 'a1', 'b1'), (2, 'a2', 'b2')")
        return there

    return make


@pytest.mark.parametrize(
    "changes", [SWAP, ("ALTER TABLE {} DROP COLUMN a", "ALTER TABLE {} ADD COLUMN a STRING")]
)
def test_a_name_that_another_column_has_got_is_told_until_all_is_compared(
    session: Session, delta: Callable[..., DeltaTable], changes: tuple[str, ...]
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


def test_a_renamed_column_that_was_not_taken_and_one_that_has_its_name_again_are_nothing(
    session: Session, delta: Callable[..., DeltaTable]
) -> None:
    there = delta(FED)
    follow(session, there, "id BIGINT PRIMARY KEY, a STRING")
    poll(session)
    there.sql(*SWAP, *SWAP, "ALTER TABLE {} RENAME COLUMN b TO c", "DELETE FROM {} WHERE id = 1")
    assert poll(session).rows == 1
    assert held(session) == there.rows(("id", "a"))


def test_without_a_feed_columns_that_were_renamed_are_compared(
    session: Session, delta: Callable[..., DeltaTable]
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


def test_a_source_says_that_a_name_is_another_column_s(
    session: Session, delta: Callable[..., DeltaTable]
) -> None:
    there = delta(FED)
    session.sql(f"CREATE SOURCE s (PRIMARY KEY (id)) WITH (connector = 'delta', path = '{there.path}')")
    session.sql("CREATE MATERIALIZED VIEW v AS SELECT id, a, b FROM s")
    poll(session, "s")
    session.flush().raise_for_all()
    there.sql(*SWAP)
    with pytest.raises(SourceError, match=r"column b of the Delta table .* DROP SOURCE s CASCADE"):
        poll(session, "s")


@pytest.mark.parametrize("field", ["größe", "1d", "order", "123"])
def test_fields_may_have_any_name_of_letters_and_digits(
    session: Session, spark: SparkSession, tmp_path: Path, field: str
) -> None:
    there = DeltaTable(spark, tmp_path / "delta").make(f"id BIGINT, s ARRAY<STRUCT<`{field}`: INT>>")
    there.insert(f"SELECT id, array(named_struct('{field}', 7)) FROM range(3)")
    session.sql(f"CREATE TABLE t (PRIMARY KEY (id)) WITH (connector = 'delta', path = '{there.path}')")
    assert poll(session).rows == 3
    there.sql("DELETE FROM {} WHERE id = 1")
    assert poll(session).rows == 1
    assert held(session) == [(n, [{field: 7}]) for n in (0, 2)]


@pytest.mark.parametrize("day", ["0000-01-01", "-0044-03-15", "+10000-01-01"])
def test_rows_with_dates_that_python_has_not_are_set_aside_as_others(
    session: Session, spark: SparkSession, tmp_path: Path, day: str
) -> None:
    there = DeltaTable(spark, tmp_path / "delta").make("id BIGINT, day DATE")
    there.insert(f"VALUES (1, DATE'{day}'), (1, DATE'{day}'), (NULL, DATE'{day}')")
    follow(session, there, "id BIGINT PRIMARY KEY, day DATE")
    report = poll(session)
    assert (report.rows, report.dead_rows) == (1, 2)
    there.insert(f"VALUES (NULL, DATE'{day}'), (2, DATE'{day}')")
    report = poll(session)
    assert (report.rows, report.dead_rows) == (1, 1)
    raw = held(session, "_dead_letter", "raw")
    assert len(raw) == 3 and all(day.strip("+-") in row[0] for row in raw)
    assert held(session, columns="id, CAST(day AS STRING)") == [(1, day), (2, day)]
