"""Renaming and swapping what others read: their texts say the new names, their rows stay, and later changes reach them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.errors import SqlError
from engine.session import Session


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Iterator[Session]:
    with Session((tmp_path / "store").as_uri(), spark, dialect="risingwave") as session:
        session.sql("SET rw_implicit_flush = true")
        session.sql("CREATE TABLE t (id INT PRIMARY KEY, x INT)")
        session.sql("INSERT INTO t VALUES (1, 10), (2, 20)")
        yield session


def rows(session: Session, query: str) -> list[tuple[object, ...]]:
    found = session.sql(query)
    assert found is not None
    return sorted(tuple(row.values()) for row in found.to_pylist())


def test_readers_of_a_renamed_table_follow(shop: Session) -> None:
    shop.sql("CREATE VIEW p AS SELECT t.id, t.x + 1 AS y FROM t")
    shop.sql("CREATE MATERIALIZED VIEW a AS SELECT sum(t.x) AS s FROM t")
    shop.sql(
        "CREATE MATERIALIZED VIEW b AS WITH u AS (SELECT * FROM t) SELECT p.y, u.id FROM p JOIN u ON p.id = u.id"
    )
    shop.sql("CREATE MATERIALIZED VIEW c AS SELECT s * 2 AS d FROM a")
    shop.sql("CREATE INDEX i ON t(x)")
    shop.sql('ALTER TABLE t RENAME TO "New t"')
    shop.sql('INSERT INTO "New t" VALUES (3, 30)')
    assert rows(shop, "SELECT * FROM a") == [(60,)]
    assert rows(shop, "SELECT * FROM b") == [(11, 1), (21, 2), (31, 3)]
    assert rows(shop, "SELECT * FROM c") == [(120,)]
    assert rows(shop, "SELECT * FROM p") == [(1, 11), (2, 21), (3, 31)]
    assert rows(shop, "SELECT x FROM i WHERE x = 30") == [(30,)]
    shop.sql("ALTER MATERIALIZED VIEW a RENAME TO z")
    shop.sql("ALTER VIEW p RENAME TO q")
    shop.sql('DELETE FROM "New t" WHERE id = 1')
    assert rows(shop, "SELECT * FROM z") == [(50,)]
    assert rows(shop, "SELECT * FROM c") == [(100,)]
    assert rows(shop, "SELECT * FROM b") == [(21, 2), (31, 3)]


def test_extremes_of_a_renamed_view_follow_its_state(shop: Session) -> None:
    shop.sql("CREATE MATERIALIZED VIEW a AS SELECT max(x) AS most, count(DISTINCT x) AS n FROM t")
    shop.sql("ALTER MATERIALIZED VIEW a RENAME TO z")
    shop.sql("DELETE FROM t WHERE id = 2")  # the next largest value is sought in the state
    assert rows(shop, "SELECT * FROM z") == [(10, 1)]


def test_the_text_of_a_reader_makes_it_again(shop: Session) -> None:
    shop.sql("CREATE MATERIALIZED VIEW a AS SELECT t.x FROM t JOIN t AS u ON t.id = u.id /* t */")
    shop.sql("CREATE SCHEMA s")
    shop.sql("ALTER TABLE t SET SCHEMA s")
    text = shop.catalog.get("a").sql
    assert text == "CREATE MATERIALIZED VIEW a AS SELECT t.x FROM s.t JOIN s.t AS u ON t.id = u.id /* t */"
    shop.sql("DROP MATERIALIZED VIEW a")
    shop.sql(text)
    assert rows(shop, "SELECT * FROM a") == [(10,), (20,)]


def test_views_exchange_their_names_and_readers_keep_what_they_read(shop: Session) -> None:
    shop.sql("CREATE MATERIALIZED VIEW a AS SELECT sum(x) AS n FROM t")
    shop.sql("CREATE MATERIALIZED VIEW b AS SELECT count(*) AS n FROM t")
    shop.sql("CREATE MATERIALIZED VIEW above AS SELECT a.n, b.n AS m FROM a CROSS JOIN b")
    shop.sql("ALTER MATERIALIZED VIEW a SWAP WITH b")
    assert (rows(shop, "SELECT * FROM a"), rows(shop, "SELECT * FROM b")) == ([(2,)], [(30,)])
    shop.sql("INSERT INTO t VALUES (3, 5)")
    assert (rows(shop, "SELECT * FROM a"), rows(shop, "SELECT * FROM b")) == ([(3,)], [(35,)])
    assert rows(shop, "SELECT * FROM above") == [(35, 3)]
    shop.sql("DROP MATERIALIZED VIEW above")
    shop.sql("DROP MATERIALIZED VIEW b")
    assert rows(shop, "SELECT * FROM a") == [(3,)]


def test_tables_exchange_their_names(shop: Session) -> None:
    shop.sql("CREATE TABLE u (id INT PRIMARY KEY, x INT, more VARCHAR)")
    shop.sql("INSERT INTO u VALUES (7, 70, 'seven')")
    shop.sql("CREATE MATERIALIZED VIEW a AS SELECT sum(x) AS n FROM t")
    shop.sql("ALTER TABLE t SWAP WITH u")
    shop.sql("INSERT INTO u VALUES (3, 5)")
    assert rows(shop, "SELECT * FROM t") == [(7, 70, "seven")]
    assert rows(shop, "SELECT * FROM a") == [(35,)]


def test_a_sink_goes_on_between_renamed_tables(shop: Session) -> None:
    shop.sql("CREATE TABLE target (id INT PRIMARY KEY, x INT)")
    shop.sql("CREATE SINK k INTO target FROM t")
    shop.sql("ALTER TABLE t RENAME TO origin")
    shop.sql("ALTER TABLE target RENAME TO aim")
    shop.sql("INSERT INTO origin VALUES (3, 30)")
    shop.sql("DELETE FROM origin WHERE id = 1")
    assert rows(shop, "SELECT * FROM aim") == [(2, 20), (3, 30)]


def test_a_sink_of_a_query_reads_by_the_new_name(shop: Session, tmp_path: Path) -> None:
    target = f"WITH (connector = 'file', path = '{tmp_path}/out', format = 'jsonl')"
    shop.sql(f"CREATE SINK k AS SELECT id FROM t {target}")
    shop.sql("CREATE TABLE u (id INT PRIMARY KEY)")
    shop.sql(f"CREATE SINK other AS SELECT id FROM u {target.replace('/out', '/other')}")
    before = shop.catalog.get("other")
    shop.sql("ALTER TABLE t RENAME TO origin")
    assert shop.catalog.get("k").sql == f"CREATE SINK k AS SELECT id FROM origin AS t {target}"
    assert shop.catalog.get("other") == before


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("ALTER TABLE t SWAP WITH t", "t has its own name"),
        ("ALTER TABLE t SWAP WITH nothing", "there is no table nothing"),
        ("ALTER TABLE t SWAP WITH v", "v is a materialized view, not a table"),
        ("ALTER TABLE t SWAP", "SWAP is not offered"),
        ("ALTER TABLE t RENAME TO v", "v exists already"),
    ],
)
def test_wrong_names_are_told(shop: Session, statement: str, message: str) -> None:
    shop.sql("CREATE MATERIALIZED VIEW v AS SELECT sum(x) AS n FROM t")
    with pytest.raises(SqlError, match=message):
        shop.sql(statement)


def test_a_new_name_that_a_with_item_of_a_reader_has_is_refused(shop: Session) -> None:
    shop.sql(
        "CREATE VIEW p AS WITH u AS (SELECT id FROM t WHERE id = 1) SELECT u.id, t.x FROM u CROSS JOIN t"
    )
    with pytest.raises(SqlError, match="t is read by p in a way that needs its name"):
        shop.sql("ALTER TABLE t RENAME TO u")
    assert rows(shop, "SELECT * FROM p") == [(1, 10), (1, 20)]


def test_columns_that_are_said_with_a_schema_follow_their_table(shop: Session) -> None:
    shop.sql("CREATE SCHEMA s")
    shop.sql("ALTER TABLE t SET SCHEMA s")
    shop.sql("CREATE VIEW p AS SELECT s.t.id FROM s.t WHERE s . t.x > 10")
    shop.sql("ALTER TABLE s.t RENAME TO u")
    assert rows(shop, "SELECT * FROM p") == [(2,)]
    shop.sql("ALTER TABLE s.u SET SCHEMA public")
    assert rows(shop, "SELECT * FROM p") == [(2,)]


def test_a_new_name_without_schema_is_in_that_of_the_old_one(shop: Session) -> None:
    shop.sql("CREATE SCHEMA s")
    shop.sql("ALTER TABLE t SET SCHEMA s")
    shop.sql("ALTER TABLE s.t RENAME TO u")
    assert rows(shop, "SELECT id FROM s.u") == [(1,), (2,)]
    shop.sql("SET search_path = s, public")
    shop.sql("ALTER TABLE u RENAME TO t")
    assert rows(shop, "SELECT id FROM s.t") == [(1,), (2,)]
