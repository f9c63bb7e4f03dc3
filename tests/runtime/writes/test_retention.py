"""WITH (retention_seconds = n): rows of a table hide after that time by themselves; views keep what they have taken of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.errors import SqlError
from engine.hummock import Hummock
from engine.session import Session
from engine.testing.manual_clock import ManualClock
from tests.hummock.dated import TimedObjectStore
from tests.runtime.clock.worlds import moving
from tests.session_rows import rows

UNSAFE = "SET unsafe_enable_storage_retention_for_non_append_only_tables = true"


@pytest.fixture(autouse=True)
def dated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let stores be dated by the clock of the test: rows are as old as their files are named."""
    opened = Hummock.open

    def at_clock(url: str, *, clock: ManualClock, **_: object) -> Hummock:
        return opened(url, clock=clock, object_store=TimedObjectStore(url, clock))  # type: ignore[arg-type]

    monkeypatch.setattr("engine.session.Hummock.open", at_clock)


@pytest.fixture
def aging(tmp_path: Path) -> Iterator[tuple[Session, ManualClock]]:
    """A session without Spark, and the clock that rows age by."""
    with moving(tmp_path, None, "risingwave") as found:
        yield found


def test_rows_hide_after_their_time_though_nothing_is_written(aging: tuple[Session, ManualClock]) -> None:
    session, clock = aging
    session.sql("CREATE TABLE t (v INT) APPEND ONLY WITH (retention_seconds = 5)")
    session.sql("CREATE INDEX i ON t (v)")
    session.sql("INSERT INTO t VALUES (1), (1)")
    session.flush().raise_for_errors()
    assert rows(session, "SELECT * FROM t") == rows(session, "SELECT * FROM i") == [(1,), (1,)]
    clock.sleep(3)
    session.sql("INSERT INTO t VALUES (2)")
    clock.sleep(2.5)
    assert rows(session, "SELECT * FROM t") == rows(session, "SELECT v FROM i") == [(2,)]
    assert rows(session, "SELECT v FROM t WHERE v = 1") == rows(session, "SELECT v FROM i WHERE v = 1") == []
    began = clock()
    assert rows(session, "SELECT pg_sleep(5)") == [("",)] and clock() == began + 5
    assert rows(session, "SELECT * FROM t") == rows(session, "SELECT * FROM i") == []
    session.sql("INSERT INTO t VALUES (3)")
    session.store.compact("t")
    assert rows(session, "SELECT * FROM t") == [(3,)]


def test_a_table_whose_rows_change_has_it_only_where_that_is_asked_for(
    aging: tuple[Session, ManualClock],
) -> None:
    session, clock = aging
    for text in ("v INT", "v INT PRIMARY KEY"):
        with pytest.raises(SqlError, match="not APPEND ONLY") as caught:
            session.sql(f"CREATE TABLE u ({text}) WITH (retention_seconds = 5)")
        assert (
            caught.value.line == 1
            and "APPEND ONLY" in caught.value.hint
            and "SET unsafe" in caught.value.hint
        )
    session.sql(UNSAFE)
    session.sql("CREATE TABLE u (v INT PRIMARY KEY) WITH (retention_seconds = 5)")
    session.sql("INSERT INTO u VALUES (1)")
    assert rows(session, "SELECT * FROM u") == [(1,)]
    clock.sleep(6)
    assert rows(session, "SELECT * FROM u") == []
    session.sql("INSERT INTO u VALUES (1)")
    assert rows(session, "SELECT * FROM u") == [(1,)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("(v INT) APPEND ONLY WITH (retention_seconds = 0)", "above 0, not 0"),
        ("(v INT) APPEND ONLY WITH (retention_seconds = '-1')", "above 0, not -1"),
        ("(v INT) APPEND ONLY WITH (retention_seconds = 'a day')", "above 0, not a day"),
        ("(v INT) APPEND ONLY WITH (retention_seconds = 'nan')", "above 0, not nan"),
        ("(v INT) APPEND ONLY WITH (ttl = 5)", "no option ttl"),
        ("(v INT PRIMARY KEY) APPEND ONLY WITH (retention_seconds = 5)", "with a PRIMARY KEY"),
        ("(v INT) APPEND ONLY WITH (retention_seconds = 5, nothing = 1)", "no option nothing"),
    ],
)
def test_a_wrong_retention_is_refused_with_its_place(
    aging: tuple[Session, ManualClock], text: str, says: str
) -> None:
    with pytest.raises(SqlError, match=says) as caught:
        aging[0].sql(f"CREATE TABLE t {text}")
    assert caught.value.line == 1 and caught.value.hint


VIEWS = {
    "plain": "SELECT k, x FROM t WHERE x > 0",
    "grouped": "SELECT k, count(*) AS n, sum(x) AS total FROM t GROUP BY k",
    "median": "SELECT percentile(x, 0.5) AS m FROM t",
    "joined": "SELECT t.x, d.name FROM d LEFT JOIN t ON t.k = d.k",
    "crossed": "SELECT t.x, d.name FROM d JOIN t ON t.x > d.k",
    "first": "SELECT x FROM t ORDER BY x LIMIT 2",
    "numbered": "SELECT x, row_number() OVER (ORDER BY x) AS n FROM t",
}


@pytest.mark.long
def test_views_keep_what_came_whether_they_took_it_before_it_hid_or_not(
    tmp_path: Path, spark: SparkSession
) -> None:
    with moving(tmp_path, spark, "spark") as (session, clock):
        columns = "(k INT, x INT) APPEND ONLY"
        session.sql(f"CREATE TABLE t {columns} WITH (retention_seconds = 5)")
        session.sql(f"CREATE TABLE lasting {columns}")
        session.sql("CREATE TABLE d (k INT PRIMARY KEY, name STRING)")
        session.sql("INSERT INTO d VALUES (1, 'one'), (2, 'two')")
        for name, query in VIEWS.items():
            session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}", build=False)
        session.flush().raise_for_errors()
        for seconds, values in ((3, "(1, 1), (2, 2)"), (9, "(1, 3)"), (9, "(1, 4), (3, 9)")):
            for table in ("t", "lasting"):
                session.sql(f"INSERT INTO {table} VALUES {values}")
            clock.sleep(seconds)
            if seconds == 3:
                session.flush().raise_for_errors()
        session.sql("UPDATE d SET name = 'ONE' WHERE k = 1")
        session.flush().raise_for_errors()
        assert rows(session, "SELECT * FROM t") == [] and len(rows(session, "SELECT * FROM lasting")) == 5
        for name, query in VIEWS.items():
            wanted = rows(session, query.replace(" t ", " lasting AS t ").replace("FROM t", "FROM lasting"))
            assert rows(session, f"SELECT * FROM {name}") == wanted, name
        session.sql(f"CREATE MATERIALIZED VIEW late AS {VIEWS['plain']}")
        session.flush().raise_for_errors()
        assert rows(session, "SELECT * FROM late") == []
