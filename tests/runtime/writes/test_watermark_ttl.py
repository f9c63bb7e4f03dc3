"""WATERMARK FOR … WITH TTL: rows below the watermark have left the table, and nothing that is written below it changes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.errors import DuplicateKey, InvalidRow, SqlError
from engine.session import Session

KEYED = "CREATE TABLE t (k INT PRIMARY KEY, ts INT, v TEXT, WATERMARK FOR ts AS ts - 10 WITH TTL)"


@pytest.fixture(params=["postgres", "risingwave"])
def session(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Session]:
    """A session without Spark."""
    with Session((tmp_path / "store").as_uri(), None, request.param) as opened:
        yield opened


@pytest.fixture
def keyed(tmp_path: Path) -> Iterator[Session]:
    """A session without Spark over a table with a key whose newest row wins: its watermark stands at 10, of two rows one is left."""
    with Session((tmp_path / "store").as_uri(), None, "risingwave") as opened:
        opened.sql(KEYED)
        opened.sql("INSERT INTO t VALUES (1, 5, 'a')")
        opened.sql("INSERT INTO t VALUES (2, 20, 'b')")
        yield opened


def rows(session: Session, query: str = "SELECT k, ts, v FROM t") -> list[tuple[Any, ...]]:
    found = session.sql(query)
    assert found is not None
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)


def changes(session: Session, after: int) -> list[tuple[str, Any, Any]]:
    """Return what the log of the table says: the kind of change, the key and the time."""
    found = session.store.iter_log("t", after)
    shown = [row for batch in found for row in batch.to_pylist()]
    return [(row["_op"], row["_old_k"] if row["_op"] == "delete" else row["k"], row["ts"]) for row in shown]


def test_rows_below_the_watermark_are_not_read_as_it_rises_and_nothing_is_logged(keyed: Session) -> None:
    assert rows(keyed) == [(2, 20, "b")]
    assert rows(keyed, "SELECT k FROM t WHERE k = 1") == []
    before = keyed.store.version.epoch
    keyed.sql("INSERT INTO t VALUES (4, 40, 'd')")
    assert rows(keyed) == [(4, 40, "d")]
    assert changes(keyed, before)[-1] == ("insert", 4, 40)
    assert rows(keyed, "SHOW WATERMARKS") == [("t", "ts", "30", 0, "counted")]


def test_a_row_below_the_watermark_is_late(keyed: Session) -> None:
    before = keyed.store.version.epoch
    keyed.sql("INSERT INTO t VALUES (4, 5, 'd')")
    keyed.sql("INSERT INTO t VALUES (1, 5, 'aa')")
    assert rows(keyed) == [(2, 20, "b")] and changes(keyed, before) == []
    assert rows(keyed, "SHOW WATERMARKS") == [("t", "ts", "10", 2, "counted")]


def test_a_row_that_comes_again_changes_or_takes_another_place(keyed: Session) -> None:
    keyed.sql("INSERT INTO t VALUES (3, 15, 'c')")
    before = keyed.store.version.epoch
    keyed.sql("INSERT INTO t VALUES (3, 15, 'cc')")
    assert changes(keyed, before) == [("update", 3, 15)]
    before = keyed.store.version.epoch
    keyed.sql("INSERT INTO t VALUES (3, 16, 'cc')")
    assert changes(keyed, before) == [("delete", 3, 15), ("insert", 3, 16)]
    assert rows(keyed) == [(2, 20, "b"), (3, 16, "cc")]


def test_a_row_that_is_moved_below_the_watermark_goes(keyed: Session) -> None:
    keyed.sql("INSERT INTO t VALUES (2, 4, 'late')")
    assert rows(keyed) == []
    keyed.sql("INSERT INTO t VALUES (3, 15, 'c'), (5, 15, 'e')")
    keyed.sql("UPDATE t SET ts = 3 WHERE k = 3")
    assert rows(keyed) == [(5, 15, "e")]
    assert rows(keyed, "SHOW WATERMARKS") == [("t", "ts", "10", 2, "counted")]


def test_a_key_whose_row_has_left_comes_as_a_new_row(keyed: Session) -> None:
    before = keyed.store.version.epoch
    keyed.sql("INSERT INTO t VALUES (1, 18, 'aa')")
    assert rows(keyed) == [(1, 18, "aa"), (2, 20, "b")]
    assert changes(keyed, before) == [("insert", 1, 18)]


def test_update_and_delete_do_not_see_what_has_left(keyed: Session) -> None:
    before = keyed.store.version.epoch
    keyed.sql("DELETE FROM t WHERE k = 1")
    keyed.sql("UPDATE t SET v = 'z' WHERE k = 1")
    keyed.write("t", pa.table({"k": pa.array([1], pa.int32())}), mode="delete")
    assert changes(keyed, before) == []
    keyed.write("t", pa.table({"k": pa.array([2], pa.int32())}), mode="delete")
    assert rows(keyed) == [] and changes(keyed, before) == [("delete", 2, 20)]


def test_an_update_of_the_time_moves_the_watermark(keyed: Session) -> None:
    keyed.sql("INSERT INTO t VALUES (3, 15, 'c')")
    keyed.sql("UPDATE t SET ts = 30 WHERE k = 2")
    assert rows(keyed) == [(2, 30, "b")]
    assert rows(keyed, "SHOW WATERMARKS") == [("t", "ts", "20", 0, "counted")]


def test_an_upsert_of_arrow_rows_takes_the_place_of_the_row(keyed: Session) -> None:
    given = pa.table(
        {"k": pa.array([2, 6], pa.int32()), "ts": pa.array([25, 1], pa.int32()), "v": ["x", "y"]}
    )
    keyed.write("t", given, mode="upsert")
    assert rows(keyed) == [(2, 25, "x")]
    assert rows(keyed, "SHOW WATERMARKS") == [("t", "ts", "15", 1, "counted")]


def test_an_upsert_of_arrow_rows_is_held_against_the_watermark_where_the_time_is_of_the_key(
    session: Session,
) -> None:
    session.sql(
        "CREATE TABLE t (k INT, ts INT, v TEXT, PRIMARY KEY (k, ts), WATERMARK FOR ts AS ts - 10 WITH TTL)"
    )
    for k, ts in ((1, 5), (2, 20), (3, 6), (2, 20)):
        given = {"k": pa.array([k], pa.int32()), "ts": pa.array([ts], pa.int32()), "v": ["x"]}
        session.write("t", pa.table(given), mode="upsert")
    assert rows(session) == [(2, 20, "x")]
    assert rows(session, "SHOW WATERMARKS") == [("t", "ts", "10", 1, "counted")]


def test_a_deletion_of_what_has_left_is_none_where_the_time_is_of_the_key(session: Session) -> None:
    session.sql(
        "CREATE TABLE t (k INT, ts INT, v TEXT, PRIMARY KEY (k, ts), WATERMARK FOR ts AS ts - 10 WITH TTL)"
    )
    session.sql(
        "CREATE TABLE src (k INT, ts INT, v TEXT, PRIMARY KEY (k, ts)); CREATE SINK into_t INTO t FROM src"
    )
    session.sql("INSERT INTO src VALUES (1, 5, 'a'), (2, 6, 'b'), (3, 20, 'c'); FLUSH")
    seen = session.store.version.epoch
    session.sql("INSERT INTO t VALUES (4, 40, 'd')")
    keys = pa.table({"k": pa.array([1, 3], pa.int32()), "ts": pa.array([5, 20], pa.int32())})
    session.write("t", keys, mode="delete")
    session.sql("DELETE FROM src; FLUSH")
    assert rows(session) == [(4, 40, "d")]
    assert changes(session, seen) == [("insert", 4, 40)]


def test_a_key_is_unique_among_the_rows_that_are_there(session: Session) -> None:
    session.sql(KEYED.replace(" TTL)", " TTL) ON CONFLICT IGNORE"))
    session.sql("INSERT INTO t VALUES (1, 20, 'a'), (2, 21, 'b')")
    session.sql("INSERT INTO t VALUES (1, 22, 'again'), (3, 12, 'c')")
    assert rows(session) == [(1, 20, "a"), (2, 21, "b"), (3, 12, "c")]
    with pytest.raises(DuplicateKey, match="keys that other rows have"):
        session.sql("UPDATE t SET k = 1 WHERE k = 2")


def test_a_known_key_is_an_error_where_the_table_says_no_more(tmp_path: Path) -> None:
    with Session((tmp_path / "store").as_uri(), None, "postgres") as session:
        session.sql(KEYED)
        session.sql("INSERT INTO t VALUES (1, 20, 'a')")
        with pytest.raises(DuplicateKey, match="1 rows have keys that exist"):
            session.sql("INSERT INTO t VALUES (1, 25, 'b')")
        session.sql("INSERT INTO t VALUES (2, 40, 'c')")
        session.sql("INSERT INTO t VALUES (1, 35, 'd')")
        assert rows(session) == [(1, 35, "d"), (2, 40, "c")]
        with pytest.raises(InvalidRow, match=r"k .*primary key"):
            session.sql("INSERT INTO t VALUES (NULL, 50, 'n')")


def test_rows_without_a_time_stay(session: Session) -> None:
    session.sql(KEYED)
    session.sql("INSERT INTO t VALUES (1, NULL, 'a'), (2, 20, 'b')")
    session.sql("INSERT INTO t VALUES (3, 50, 'c')")
    assert rows(session) == [(1, None, "a"), (3, 50, "c")]
    session.sql("UPDATE t SET ts = 55 WHERE k = 1")
    assert rows(session) == [(1, 55, "a"), (3, 50, "c")]


def test_a_bag_of_rows_has_it_too(session: Session) -> None:
    session.sql("CREATE TABLE t (k INT, ts INT, v TEXT, WATERMARK FOR ts AS ts - 10 WITH TTL)")
    session.sql("INSERT INTO t VALUES (1, 15, 'a'), (1, 15, 'a'), (2, 20, 'b')")
    before = session.store.version.epoch
    session.sql("UPDATE t SET ts = 16 WHERE v = 'b'")
    assert sorted(changes(session, before)) == [("delete", 2, 20), ("insert", 2, 16)]
    session.sql("UPDATE t SET ts = 5 WHERE v = 'b'")
    session.sql("DELETE FROM t WHERE k = 3")
    assert rows(session) == [(1, 15, "a"), (1, 15, "a")]
    session.sql("INSERT INTO t VALUES (3, 26, 'c')")
    assert rows(session) == [(3, 26, "c")]


def test_an_append_only_table_has_it_too(session: Session) -> None:
    session.sql("CREATE TABLE t (k INT, ts INT, v TEXT, WATERMARK FOR ts AS ts - 10 WITH TTL) APPEND ONLY")
    session.sql("INSERT INTO t VALUES (1, 5, 'a'), (2, 20, 'b')")
    session.sql("INSERT INTO t VALUES (1, 9, 'late')")
    assert rows(session) == [(2, 20, "b")]
    with pytest.raises(InvalidRow, match="APPEND ONLY"):
        session.sql("DELETE FROM t")


def test_compaction_takes_out_what_has_left_and_an_older_epoch_reads_as_it_was(keyed: Session) -> None:
    keyed.sql("INSERT INTO t VALUES (3, 15, 'c')")
    before = keyed.store.version.epoch
    keyed.sql("INSERT INTO t VALUES (4, 40, 'd')")
    then = [row["k"] for batch in keyed.store.iter("t", epoch=before) for row in batch.to_pylist()]
    assert sorted(then) == [2, 3]
    keyed.store.compact("t")
    assert sum(sst.rows for sst in keyed.store.refresh().tables["t"].live_ssts) == 1
    assert rows(keyed) == [(4, 40, "d")]


def test_the_statement_and_the_key_are_shown_as_they_were_written(session: Session) -> None:
    session.sql(KEYED)
    (shown,) = rows(session, "SHOW CREATE TABLE t")
    assert "WATERMARK FOR ts AS ts - 10 WITH TTL" in shown[1]
    session.sql("ALTER TABLE t ADD COLUMN w INT")
    (shown,) = rows(session, "SHOW CREATE TABLE t")
    assert "PRIMARY KEY (`k`), WATERMARK FOR `ts` AS `ts` - 10 WITH TTL" in shown[1]
    described = session.sql("DESCRIBE t")
    assert described is not None
    assert [(row["column"], row["key"]) for row in described.to_pylist()][:2] == [("k", True), ("ts", False)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("CREATE TABLE u (k INT PRIMARY KEY, ts INT, WATERMARK FOR ts AS WITH TTL)", "needs an expression"),
        ("CREATE TABLE u (k INT PRIMARY KEY, ts INT, WATERMARK FOR ts AS ts - 1)", "only be inserted"),
        (
            "CREATE TABLE u (ts INT, WATERMARK FOR ts AS ts WITH TTL) APPEND ONLY WITH (retention_seconds = 5)",
            "in one way",
        ),
        (
            "CREATE TABLE u (k INT PRIMARY KEY, ts INT, WATERMARK FOR ts AS ts WITH TTL) "
            "WITH (connector = 'landing', path = '/nowhere')",
            "comes once",
        ),
    ],
)
def test_what_it_cannot_stand_beside_is_refused_with_its_place(
    session: Session, text: str, says: str
) -> None:
    with pytest.raises(SqlError, match=says) as caught:
        session.sql(text)
    assert caught.value.line == 1 and caught.value.hint


RULES = (
    "",
    "ON CONFLICT DO NOTHING",
    "ON CONFLICT DO UPDATE IF NOT NULL",
    "ON CONFLICT DO UPDATE FULL WITH VERSION COLUMN (n)",
    "ON CONFLICT DO UPDATE IF NOT NULL WITH VERSION COLUMN (n)",
)
STATEMENTS: tuple[list[tuple[int, int, str | None, int]], ...] = (
    [(4, 5, "late", 9), (4, 20, None, 1)],
    [(4, 20, "in time", 1), (4, 5, "late", 9)],
    [(4, 20, "in time", 9), (4, 5, "late", 1), (4, 21, None, 9)],
    [(2, 5, "late", 9), (2, 21, None, 8), (2, 20, None, 9)],
    [(2, 20, None, 9), (2, 5, "late", 9), (4, 5, "late", 1), (4, 6, "late", 1)],
)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("given", STATEMENTS, ids=str)
def test_late_rows_of_a_statement_take_nobodys_place(
    tmp_path: Path, rule: str, given: list[tuple[int, int, str | None, int]]
) -> None:
    schema = pa.schema([("k", pa.int32()), ("ts", pa.int32()), ("v", pa.string()), ("n", pa.int32())])
    found = []
    with Session((tmp_path / "store").as_uri(), None, "risingwave") as opened:
        for table, parts in (("t", [given]), ("u", [[row] for row in given])):
            columns = "k INT PRIMARY KEY, ts INT, v TEXT, n INT, WATERMARK FOR ts AS ts - 10 WITH TTL"
            opened.sql(f"CREATE TABLE {table} ({columns}) {rule}; INSERT INTO {table} VALUES (2, 20, 'b', 2)")
            for part in parts:
                arrived = [dict(zip(schema.names, row, strict=True)) for row in part]
                opened.write(table, pa.Table.from_pylist(arrived, schema), mode="insert")
            found.append(rows(opened, f"SELECT k, ts, v, n FROM {table}"))
    assert found[0] == found[1]


def test_a_row_in_time_is_stored_behind_a_late_one_of_its_key(tmp_path: Path) -> None:
    with Session((tmp_path / "store").as_uri(), None, "risingwave") as opened:
        columns = "k INT PRIMARY KEY, ts INT, v TEXT, WATERMARK FOR ts AS ts - 10"
        opened.sql(f"CREATE TABLE t ({columns}) APPEND ONLY ON CONFLICT DO NOTHING")
        opened.sql("INSERT INTO t VALUES (1, 20, 'a')")
        opened.sql("INSERT INTO t VALUES (2, 5, 'late'), (2, 20, 'b'), (2, 21, 'c')")
        assert rows(opened) == [(1, 20, "a"), (2, 20, "b")]
        assert rows(opened, "SHOW WATERMARKS") == [("t", "ts", "10", 1, "counted")]
