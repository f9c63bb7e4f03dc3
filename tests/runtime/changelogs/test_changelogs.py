"""WITH x AS CHANGELOG FROM t: each change of a table is a row that stays, commit by commit, in whatever steps it is taken in."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from engine.errors import SqlError
from engine.session import Session
from tests.long_rest import mark_rest_long
from tests.session_rows import rows

LOG = "WITH c AS CHANGELOG FROM t SELECT id, x, changelog_op AS op, _changelog_row_id AS n FROM c"


def in_order(session: Session, view: str = "log") -> list[tuple[Any, ...]]:
    found = session.sql(f"SELECT * FROM {view} ORDER BY n")
    assert found is not None
    return [tuple(row.values()) for row in found.to_pylist()]


def test_each_change_is_a_row_in_the_order_of_commits(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, x INT)")
    session.sql("INSERT INTO t VALUES (1, 1)")
    session.sql(f"CREATE MATERIALIZED VIEW log AS {LOG}")
    session.flush().raise_for_errors()
    session.sql("INSERT INTO t VALUES (2, 2)")
    session.sql("UPDATE t SET x = 10 WHERE id = 1")
    session.sql("UPDATE t SET x = 1 WHERE id = 1")
    session.sql("DELETE FROM t WHERE id = 2")
    session.sql("INSERT INTO t VALUES (2, 3)")
    session.flush().raise_for_errors()
    assert in_order(session) == [
        (1, 1, 1, 1),
        (2, 2, 1, 2),
        (1, 1, 4, 3),
        (1, 10, 3, 4),
        (1, 10, 4, 5),
        (1, 1, 3, 6),
        (2, 2, 2, 7),
        (2, 3, 1, 8),
    ]
    assert session.sql("SELECT count(*) AS n FROM t").to_pylist() == [{"n": 2}]  # type: ignore[union-attr]


@pytest.mark.parametrize("key", mark_rest_long([" PRIMARY KEY", ""]), ids=["key", "bag"])
def test_commits_that_are_taken_in_together_or_one_by_one_give_the_same_rows(
    tmp_path: Path, spark: SparkSession, key: str
) -> None:
    chance, known = random.Random(5), 0
    urls = [(tmp_path / name).as_uri() for name in ("by_one", "together")]
    with Session(urls[0], spark) as by_one, Session(urls[1], spark) as together:
        for session in (by_one, together):
            session.sql(f"CREATE TABLE t (id INT{key}, x INT)")
            session.sql("INSERT INTO t VALUES (0, 0), (-1, 5)")
            session.sql(f"CREATE MATERIALIZED VIEW log AS {LOG}", build=False)
            text = "WITH c AS CHANGELOG FROM t SELECT changelog_op AS op, count(*) AS n, sum(x) AS x FROM c GROUP BY changelog_op"
            session.sql(f"CREATE MATERIALIZED VIEW counts AS {text}", build=False)
            session.flush().raise_for_errors()
        for _ in range(10):
            known += 1
            text = chance.choice(
                (
                    f"INSERT INTO t VALUES ({known}, {known}), ({known + 100}, 7)",
                    f"UPDATE t SET x = {chance.randrange(3)} WHERE id % 3 = {known % 3}",
                    f"DELETE FROM t WHERE id = {chance.randrange(known)}",
                )
            )
            for session in (by_one, together):
                session.sql(text)
            by_one.flush().raise_for_errors()
        together.flush().raise_for_errors()
        found = [(in_order(session), rows(session, "SELECT * FROM counts")) for session in (by_one, together)]
        assert found[0] == found[1] and len(found[0][0]) > 8
        state: dict[Any, int] = {}
        for identifier, x, op, _ in found[0][0]:
            state[identifier, x] = state.get((identifier, x), 0) + (1 if op in (1, 3) else -1)
        left = sorted(row for row, n in state.items() for _ in range(n))
        assert left == sorted(rows(by_one, "SELECT id, x FROM t"))


def test_the_changes_of_a_view_are_those_of_its_commits(session: Session) -> None:
    session.sql("SET dialect = risingwave")
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, k INT)")
    session.sql("CREATE MATERIALIZED VIEW sizes AS SELECT k, count(*) AS n FROM t GROUP BY k")
    session.sql(
        "CREATE MATERIALIZED VIEW log AS WITH c AS CHANGELOG FROM sizes, d AS (SELECT 1 AS one) "
        "SELECT c.*, _changelog_row_id AS at FROM c"
    )
    session.sql("INSERT INTO t VALUES (1, 1), (2, 1)")
    session.flush().raise_for_errors()
    session.sql("INSERT INTO t VALUES (3, 1), (4, 2)")
    session.sql("DELETE FROM t WHERE id < 3")
    session.flush().raise_for_errors()
    found = session.sql("SELECT k, n, changelog_op FROM log ORDER BY at")
    assert found is not None and found.column_names == ["k", "n", "changelog_op"]
    assert {tuple(row.values()) for row in found.to_pylist()} == {(1, 2, 1), (1, 2, 4), (1, 1, 3), (2, 1, 1)}


WRONG = (
    ("WITH c AS CHANGELOG FROM nothing SELECT * FROM c", "no table or view nothing"),
    ("WITH c AS CHANGELOG FROM plain SELECT * FROM c", "FROM a plain view"),
    ("WITH c AS CHANGELOG FROM taken SELECT * FROM c", "a column changelog_op"),
    ("WITH c AS CHANGELOG FROM t SELECT nope FROM c", "no column nope"),
    ("WITH c AS CHANGELOG FROM SELECT * FROM c", "cannot be parsed"),
)


@pytest.mark.parametrize("dialect", ["spark", "risingwave"])
@pytest.mark.parametrize(("query", "says"), WRONG)
def test_a_wrong_changelog_is_refused_with_its_place(
    session: Session, dialect: str, query: str, says: str
) -> None:
    session.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    session.sql("CREATE TABLE taken (id INT PRIMARY KEY, changelog_op INT)")
    session.sql("CREATE VIEW plain AS SELECT id FROM t")
    session.sql(f"SET dialect = {dialect}")
    with pytest.raises(SqlError, match=says) as caught:
        session.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert caught.value.line == 1 and caught.value.hint


def test_a_query_that_is_answered_once_has_no_changes_to_show(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, x INT)")
    with pytest.raises(SqlError, match="answered once") as caught:
        session.sql(LOG)
    assert "materialized view" in caught.value.hint and caught.value.line == 1
