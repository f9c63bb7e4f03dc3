"""Tables without a PRIMARY KEY are bags in every dialect: duplicates stay, and every statement and view counts them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.connectors.landing.source import LandingSource
from engine.errors import DuplicateKey, InvalidRow, SqlError
from engine.runtime.writes.driver_rows import SETTING
from engine.session import Session
from tests.runtime.writes.test_dml import rows

VIEWS = {
    "whole": "SELECT * FROM t",
    "some": "SELECT v + 1 AS w FROM t WHERE k > 1",
    "sums": "SELECT k, count(*) AS n, sum(v) AS s, min(v) AS low FROM t GROUP BY k",
    "total": "SELECT count(*) AS n, max(v) AS high FROM t",
    "pairs": "SELECT t.v, names.name FROM t LEFT JOIN names ON t.k = names.k",
    "twins": "SELECT a.v AS x, b.v AS y FROM t a JOIN t b ON a.k = b.k",
    "once": "SELECT DISTINCT k, v FROM t",
    "both": "SELECT v FROM t UNION ALL SELECT k FROM t",
}
CHANGES = (
    "INSERT INTO t VALUES (1, 10), (1, 10), (2, 20), (NULL, NULL)",
    "INSERT INTO t SELECT k, v FROM t WHERE k = 2",
    "UPDATE t SET v = v + 1 WHERE k = 1",
    "UPDATE t SET k = 3, v = 5 WHERE v = 20",
    "INSERT INTO t (v) VALUES (7), (7)",
    "DELETE FROM t WHERE v = 5",
    "UPDATE t SET k = 2 WHERE k IS NULL",
    "TRUNCATE TABLE t",
    "INSERT INTO t VALUES (2, 1)",
)


def bag(session: Session, text: str) -> Counter[tuple[object, ...]]:
    """Return what a query gives, each row with its number."""
    found = session.sql(text)
    assert found is not None
    return Counter(tuple(row.values()) for row in found.to_pylist())


@pytest.fixture
def keyless(session: Session) -> Session:
    session.sql("CREATE TABLE t (k BIGINT, v BIGINT)")
    session.sql("INSERT INTO t VALUES (1, 10), (1, 10), (2, 20)")
    return session


@pytest.mark.parametrize("dialect", ["spark", "postgres", "risingwave"])
def test_rows_of_a_bag_are_inserted_changed_and_deleted(
    tmp_path: Path, spark: SparkSession, dialect: str
) -> None:
    with Session((tmp_path / "s").as_uri(), spark, dialect) as s:  # type: ignore[arg-type]
        s.sql("CREATE TABLE t (k BIGINT, v BIGINT)")
        s.sql("INSERT INTO t VALUES (1, 10), (1, 10), (2, 20)")
        s.sql("INSERT INTO t SELECT * FROM t WHERE k = 2")
        assert bag(s, "SELECT * FROM t") == Counter({(1, 10): 2, (2, 20): 2})
        changed = s.sql("UPDATE t SET v = 11 WHERE k = 1 RETURNING *")
        assert changed is not None and changed.to_pylist() == [{"k": 1, "v": 11}] * 2
        gone = s.sql("DELETE FROM t WHERE k = 2 RETURNING v")
        assert gone is not None and gone.to_pylist() == [{"v": 20}] * 2
        new = s.sql("INSERT INTO t VALUES (5, 5) RETURNING *")
        assert new is not None and new.to_pylist() == [{"k": 5, "v": 5}]
        assert bag(s, "SELECT * FROM t") == Counter({(1, 11): 2, (5, 5): 1})
        s.sql("TRUNCATE t")
        assert bag(s, "SELECT * FROM t") == Counter()


@pytest.mark.long
def test_views_over_a_bag_follow_every_statement(session: Session) -> None:
    session.sql("CREATE TABLE t (k BIGINT, v BIGINT)")
    session.sql("CREATE TABLE names (k BIGINT, name STRING)")
    session.sql("INSERT INTO names VALUES (1, 'a'), (1, 'a'), (2, 'b')")
    for name, query in VIEWS.items():
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    for number, change in enumerate(CHANGES):
        session.sql(change)
        session.flush().raise_for_errors()
        for name, query in VIEWS.items() if number % 3 == 2 else ():
            assert bag(session, f"SELECT * FROM {name}") == bag(session, query), (change, name)


def test_the_hidden_id_is_never_shown(keyless: Session, tmp_path: Path) -> None:
    keyless.sql("CREATE MATERIALIZED VIEW whole AS SELECT * FROM t")
    keyless.sql("CREATE VIEW plain AS SELECT * FROM t")
    options = (
        f"connector='file', path='{tmp_path}/out', format='jsonl', type='append-only', force_append_only=true"
    )
    keyless.sql(f"CREATE SINK out FROM whole WITH ({options})")
    for name in ("t", "whole", "plain"):
        shown = keyless.sql(f"SELECT * FROM {name}")
        assert shown is not None and shown.column_names == ["k", "v"]
        described = keyless.sql(f"DESCRIBE {name}")
        assert described is not None and described.column("column").to_pylist() == ["k", "v"]
    lines = [line for file in (tmp_path / "out").rglob("*.jsonl") for line in file.read_text().splitlines()]
    assert sorted(lines) == [json.dumps({"k": k, "v": v}) for k, v in ((1, 10), (1, 10), (2, 20))]


def test_a_subquery_of_the_table_itself_does_not_see_the_hidden_id(session: Session) -> None:
    session.sql("CREATE TABLE t (v BIGINT)")
    session.sql("INSERT INTO t VALUES (1), (2), (2)")
    session.sql("DELETE FROM t WHERE v IN (SELECT * FROM t WHERE v > 1)")
    assert bag(session, "SELECT * FROM t") == Counter({(1,): 1})


def test_written_rows_are_always_new_ones(keyless: Session) -> None:
    rows = pa.table({"k": [1], "v": [10]})
    keyless.write("t", rows)
    keyless.write("t", rows, mode="insert")
    assert bag(keyless, "SELECT * FROM t") == Counter({(1, 10): 4, (2, 20): 1})
    with pytest.raises(InvalidRow, match="no PRIMARY KEY to delete rows by"):
        keyless.write("t", rows, mode="delete")


def test_landing_files_add_rows_to_a_bag(keyless: Session, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("k,v\n1,10\n1,10\n")
    LandingSource(keyless.store, "t", tmp_path).poll()
    assert bag(keyless, "SELECT * FROM t WHERE k = 1") == Counter({(1, 10): 4})


def test_a_sink_adds_rows_to_a_bag_and_an_upsert_sink_is_refused(keyless: Session) -> None:
    keyless.sql("CREATE TABLE copy (k BIGINT, v BIGINT)")
    with pytest.raises(SqlError, match="no PRIMARY KEY, and the sink updates rows"):
        keyless.sql("CREATE MATERIALIZED VIEW sums AS SELECT k, sum(v) AS v FROM t GROUP BY k")
        keyless.sql("CREATE SINK s INTO copy FROM sums")
    keyless.sql("CREATE SINK s INTO copy FROM t WITH (type = 'append-only', force_append_only = true)")
    keyless.flush()
    assert bag(keyless, "SELECT * FROM copy") == Counter({(1, 10): 2, (2, 20): 1})


def test_nothing_can_conflict_in_a_bag(keyless: Session) -> None:
    keyless.sql("INSERT INTO t VALUES (1, 10) ON CONFLICT DO NOTHING")
    assert bag(keyless, "SELECT * FROM t WHERE k = 1") == Counter({(1, 10): 3})
    with pytest.raises(SqlError, match="no PRIMARY KEY, so that nothing can conflict"):
        keyless.sql("INSERT INTO t VALUES (1, 10) ON CONFLICT (k) DO UPDATE SET v = 1")


@pytest.mark.parametrize("statement", ["UPDATE t SET v = 1", "DELETE FROM t", "TRUNCATE t"])
def test_append_only_stays_a_promise(session: Session, statement: str) -> None:
    session.sql("CREATE TABLE t (v BIGINT) APPEND ONLY")
    with pytest.raises(InvalidRow, match=f"{statement.split()[0]} on t: the table is APPEND ONLY"):
        session.sql(statement)


def test_large_statements_keep_duplicates(keyless: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTING, "0")
    keyless.sql("INSERT INTO t SELECT * FROM t")
    keyless.sql("UPDATE t SET v = v + 1 WHERE k = 1")
    assert bag(keyless, "SELECT * FROM t") == Counter({(1, 11): 4, (2, 20): 2})
    keyless.sql("TRUNCATE t")
    assert bag(keyless, "SELECT * FROM t") == Counter()


def test_a_bag_grows_by_columns(keyless: Session) -> None:
    keyless.sql("ALTER TABLE t ADD COLUMN w INT DEFAULT 3")
    keyless.sql("ALTER TABLE t RENAME COLUMN v TO value")
    keyless.sql("UPDATE t SET w = 4 WHERE k = 2")
    assert bag(keyless, "SELECT k, value, w FROM t") == Counter({(1, 10, 3): 2, (2, 20, 4): 1})
    made = keyless.sql("SHOW CREATE TABLE t")
    assert made is not None and "PRIMARY KEY" not in made.column("create_statement")[0].as_py()


def test_truncate_of_a_keyed_table_empties_its_views(session: Session) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT)")
    session.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
    session.sql("CREATE MATERIALIZED VIEW s AS SELECT count(*) AS n FROM t")
    session.sql("TRUNCATE TABLE t")
    session.flush().raise_for_errors()
    assert bag(session, "SELECT * FROM s") == Counter({(0,): 1})
    with pytest.raises(SqlError, match="cannot truncate s"):
        session.sql("TRUNCATE TABLE s")
    session.sql("INSERT INTO t VALUES (3, 3)")
    with pytest.raises(SqlError, match="there is no table u"):
        session.sql("TRUNCATE TABLE t, u")
    assert bag(session, "SELECT id FROM t") == Counter({(3,): 1})


@pytest.fixture
def keyed(session: Session) -> Session:
    session.sql("CREATE TABLE t (a BIGINT, b STRING, v BIGINT, PRIMARY KEY (a, b))")
    session.sql("INSERT INTO t VALUES (1, 'x', 10), (2, 'x', 20), (2, 'y', 30)")
    return session


def test_an_update_of_the_key_moves_rows(keyed: Session) -> None:
    keyed.sql("CREATE MATERIALIZED VIEW s AS SELECT a, sum(v) AS s FROM t GROUP BY a")
    changed = keyed.sql("UPDATE t SET a = a + 1, v = v + 1 WHERE b = 'x' RETURNING a, v")
    assert changed is not None and sorted(map(tuple, (r.values() for r in changed.to_pylist()))) == [
        (2, 11),
        (3, 21),
    ]
    assert bag(keyed, "SELECT * FROM t") == Counter([(2, "x", 11), (3, "x", 21), (2, "y", 30)])
    keyed.flush().raise_for_errors()
    assert bag(keyed, "SELECT * FROM s") == Counter([(2, 41), (3, 21)])


def test_an_update_to_a_key_that_another_row_keeps_is_told(keyed: Session) -> None:
    with pytest.raises(DuplicateKey, match=r"keys that other rows have.*'a': 2, 'b': 'x'"):
        keyed.sql("UPDATE t SET a = 2 WHERE a = 1")
    with pytest.raises(DuplicateKey, match="two rows would have the key"):
        keyed.sql("UPDATE t SET a = 9, b = 'z'")
    with pytest.raises(DuplicateKey, match="more than one new row"):
        keyed.sql("UPDATE t SET a = o.v FROM t o WHERE t.a = 1")
    with pytest.raises(InvalidRow, match="part of the primary key"):
        keyed.sql("UPDATE t SET a = NULL WHERE a = 1")
    assert bag(keyed, "SELECT * FROM t") == Counter([(1, "x", 10), (2, "x", 20), (2, "y", 30)])


def test_an_update_that_keeps_the_key_is_no_conflict(keyed: Session) -> None:
    keyed.sql("UPDATE t SET b = b, a = a")
    assert bag(keyed, "SELECT * FROM t") == Counter([(1, "x", 10), (2, "x", 20), (2, "y", 30)])


def test_an_update_of_more_keys_than_a_process_holds_is_refused(
    keyed: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SETTING, "0")
    with pytest.raises(InvalidRow, match="changes the keys of 3 rows"):
        keyed.sql("UPDATE t SET a = a + 1")
    assert bag(keyed, "SELECT * FROM t") == Counter([(1, "x", 10), (2, "x", 20), (2, "y", 30)])


def test_the_id_of_a_row_is_read_where_it_is_named(session: Session) -> None:
    session.sql("SET dialect = risingwave")
    session.sql("CREATE TABLE twice (a INT, b INT)")
    session.sql("INSERT INTO twice VALUES (1, 1), (1, 1), (2, NULL)")
    session.sql(
        "CREATE MATERIALIZED VIEW ids AS SELECT a, count(DISTINCT _row_id) AS n FROM twice GROUP BY a"
    )
    session.sql(
        "CREATE MATERIALIZED VIEW pairs AS SELECT x.a, y._row_id AS id FROM twice x JOIN twice y ON x._row_id = y._row_id"
    )
    session.sql("INSERT INTO twice VALUES (2, 2)")
    session.sql("DELETE FROM twice WHERE b IS NULL")
    session.sql("FLUSH")
    assert rows(session, "SELECT * FROM ids ORDER BY a") == [(1, 2), (2, 1)]
    assert rows(session, "SELECT count(DISTINCT id) AS n FROM pairs") == [(3,)]
    assert rows(session, "SELECT count(DISTINCT _row_id) AS n, count(*) AS m FROM twice") == [(3, 3)]
    assert [len(row) for row in rows(session, "SELECT *, _row_id FROM twice WHERE b = 1")] == [3, 3]
    assert [len(row) for row in rows(session, "SELECT * FROM twice WHERE _row_id IS NOT NULL")] == [2, 2, 2]
    with pytest.raises(SqlError, match="several tables beside a row id"):
        session.sql("SELECT * FROM twice x, twice y WHERE x._row_id < y._row_id")


def test_the_id_of_a_row_is_that_of_the_nearest_table_and_no_column_that_tables_have_in_common(
    session: Session,
) -> None:
    session.sql("SET dialect = risingwave")
    session.sql("CREATE TABLE one (a INT, b INT)")
    session.sql("CREATE TABLE other (a INT, c INT)")
    session.sql("INSERT INTO one VALUES (1, 1)")
    session.sql("INSERT INTO other VALUES (0, 0), (1, 5)")
    inner = "EXISTS (SELECT 1 FROM other WHERE _row_id IS NOT NULL AND other.a = one.a)"
    assert rows(session, f"SELECT * FROM one JOIN (VALUES (1)) AS v(x) ON x = a WHERE {inner}") == [(1, 1, 1)]
    assert rows(session, "SELECT c FROM one NATURAL JOIN other WHERE one._row_id IS NOT NULL") == [(5,)]
    with pytest.raises(SqlError, match="NATURAL JOIN beside the row ids of several tables"):
        session.sql("SELECT c FROM one NATURAL JOIN other WHERE one._row_id <> other._row_id")
    session.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT c, one._row_id AS i, other._row_id AS j FROM one NATURAL JOIN other"
    )
    session.sql("FLUSH")
    assert rows(session, "SELECT c FROM v") == [(5,)]
