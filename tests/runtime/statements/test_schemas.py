"""Schemas: names with one and without, search_path and USE, what is dropped with a schema, and errors with their places."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import SqlError
from engine.session import Session

DIALECTS = ("spark", "postgres", "risingwave")


@pytest.fixture(params=DIALECTS)
def alone(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Session]:
    """A session of each dialect that starts no Spark, with a table t in the schema s and one in the store's own."""

    def no_spark() -> None:
        raise AssertionError("Spark was started")

    with Session(tmp_path.as_uri(), no_spark, dialect=request.param) as session:
        session.sql(
            "CREATE SCHEMA s; CREATE TABLE s.t (id INT PRIMARY KEY, a INT); CREATE TABLE t (id INT PRIMARY KEY)"
        )
        session.sql("INSERT INTO s.t VALUES (1, 10), (2, 20); INSERT INTO t VALUES (7)")
        yield session


def _rows(session: Session, text: str) -> list[tuple]:
    found = session.sql(text)
    assert found is not None
    return sorted(tuple(row.values()) for row in found.to_pylist())


def test_a_name_with_a_schema_is_another_relation_than_one_without(alone: Session) -> None:
    assert _rows(alone, "SELECT * FROM s.t") == [(1, 10), (2, 20)]
    assert _rows(alone, "SELECT * FROM t") == [(7,)]
    assert _rows(alone, "SELECT t.a FROM s.t WHERE t.id = 1") == [(10,)]
    assert _rows(alone, "SELECT s.t.a FROM s.t WHERE s.t.id = 2") == [(20,)]
    assert _rows(alone, "SELECT x.a FROM s.t AS x WHERE x.id = 2") == [(20,)]


def test_rows_in_a_schema_are_changed_and_deleted(alone: Session) -> None:
    alone.sql("UPDATE s.t SET a = 11 WHERE t.id = 1; DELETE FROM s.t WHERE id = 2")
    assert _rows(alone, "SELECT * FROM s.t") == [(1, 11)]
    alone.sql("TRUNCATE TABLE s.t")
    assert _rows(alone, "SELECT * FROM s.t") == []
    assert _rows(alone, "SELECT * FROM t") == [(7,)]


def test_statements_about_a_relation_take_its_schema(alone: Session) -> None:
    alone.sql(
        "ALTER TABLE s.t ADD COLUMN b INT; COMMENT ON COLUMN s.t.b IS 'later'; COMMENT ON TABLE s.t IS 'many'"
    )
    assert [row[0] for row in _rows(alone, "DESCRIBE s.t")] == ["a", "b", "id"]
    assert alone.catalog.get("s.t").comment == "many"
    assert _rows(alone, "SHOW CREATE TABLE s.t")[0][0] == "s.t"
    alone.sql("CREATE INDEX i ON s.t (a)", build=False)
    assert "s.i" in alone.catalog.relations
    alone.sql("DROP INDEX s.i; DROP TABLE s.t")
    assert "s.t" not in alone.catalog.relations


def test_names_are_looked_for_along_the_search_path(alone: Session) -> None:
    alone.sql("SET search_path TO s, public")
    assert _rows(alone, "SELECT * FROM t") == [(1, 10), (2, 20)]
    alone.sql("CREATE TABLE u (id INT PRIMARY KEY); INSERT INTO u VALUES (3)")
    assert "s.u" in alone.catalog.relations
    alone.sql("CREATE VIEW v AS SELECT a FROM t WHERE id = 1; RESET search_path")
    assert alone.catalog.get("s.v").depends_on == ("s.t",)
    assert alone.catalog.get("s.v").sql.endswith("SELECT a FROM s.t WHERE id = 1")
    assert _rows(alone, "SELECT * FROM t") == [(7,)]


def test_use_is_a_search_path_of_one_schema(alone: Session) -> None:
    alone.sql("USE s")
    assert _rows(alone, "SELECT a FROM t WHERE id = 1") == [(10,)]
    alone.sql("USE default" if alone.dialect == "spark" else "USE public")
    assert _rows(alone, "SELECT * FROM t") == [(7,)]
    with pytest.raises(SqlError, match="there is no schema nowhere") as caught:
        alone.sql("USE nowhere")
    assert (caught.value.line, caught.value.column) == (1, 5)


def test_a_schema_that_holds_something_is_dropped_with_cascade_only(alone: Session) -> None:
    alone.sql("CREATE VIEW above AS SELECT a FROM s.t")
    with pytest.raises(SqlError, match="schema s holds "):
        alone.sql("DROP SCHEMA s")
    alone.sql("DROP SCHEMA s CASCADE")
    assert set(alone.catalog.relations) == {"t"}
    alone.sql("DROP SCHEMA IF EXISTS s; CREATE SCHEMA IF NOT EXISTS s; CREATE SCHEMA IF NOT EXISTS s")
    assert "s" in [row[0] for row in _rows(alone, "SHOW SCHEMAS")]


def test_what_is_in_a_schema_is_shown(alone: Session) -> None:
    assert _rows(alone, "SHOW TABLES FROM s") == [("s.t", "table")]
    own = "default" if alone.dialect == "spark" else "public"
    assert _rows(alone, f"SHOW TABLES IN {own}") == [("t", "table")]
    assert _rows(alone, "SHOW TABLES") == [("s.t", "table"), ("t", "table")]


@pytest.mark.parametrize(
    ("text", "says", "place"),
    [
        ("CREATE TABLE x.t (id INT)", "there is no schema x", (1, 14)),
        ("SELECT *\nFROM x.t", "there is no table or view x.t", (2, 6)),
        ("INSERT INTO x.t VALUES (1)", "there is no table or view x.t", (1, 13)),
        ("CREATE SCHEMA s", "there is a schema s already", (1, 15)),
        ("DROP SCHEMA x", "there is no schema x", (1, 13)),
        ("CREATE SCHEMA _s", "names that start with _", (1, 15)),
        ("CREATE TABLE information_schema.t (id INT)", "is the system's own", (1, 14)),
        ("CREATE TABLE a.b.c (id INT)", "is in another database", (1, 14)),
        ("SHOW TABLES FROM x", "there is no schema x", (1, 18)),
    ],
)
def test_a_wrong_schema_is_told_with_its_place(
    alone: Session, text: str, says: str, place: tuple[int, int]
) -> None:
    with pytest.raises(SqlError, match=says) as caught:
        alone.sql(text)
    assert (caught.value.line, caught.value.column) == place


def test_a_quoted_name_with_a_dot_is_no_schema(tmp_path: Path) -> None:
    with Session(tmp_path.as_uri(), dialect="postgres") as session:
        session.sql("CREATE SCHEMA s")
        with pytest.raises(SqlError, match="has a dot in its name"):
            session.sql('CREATE TABLE "s.t" (id INT)')
        session.sql('CREATE TABLE "s"."T" (id INT)')
        assert "s.T" in session.catalog.relations


@pytest.mark.long
def test_views_and_queries_of_spark_read_across_schemas(session: Session) -> None:
    session.dialect = "postgres"
    session.sql(
        "CREATE SCHEMA s; CREATE TABLE s.t (id INT PRIMARY KEY, a INT); CREATE TABLE t (id INT PRIMARY KEY)"
    )
    session.sql("INSERT INTO s.t VALUES (1, 10), (2, 20); INSERT INTO t VALUES (1)")
    session.sql(
        "CREATE MATERIALIZED VIEW s.v AS SELECT s.t.a, count(*) AS n FROM s.t JOIN public.t AS o ON o.id = s.t.id GROUP BY s.t.a"
    )
    assert _rows(session, "SELECT * FROM s.v") == [(10, 1)]
    session.sql("INSERT INTO t VALUES (2); FLUSH")
    assert _rows(session, "SELECT max(v.n) AS n, sum(a) AS a FROM s.v") == [(1, 30)]
    session.sql(
        "SET search_path TO s; CREATE MATERIALIZED VIEW w AS SELECT max(a) AS m FROM v; UPDATE t SET a = a + 1; FLUSH"
    )
    assert _rows(session, "SELECT (SELECT m FROM w) AS m, max(a) AS a FROM t") == [(21, 21)]
    session.sql("CREATE TABLE k (m INT PRIMARY KEY); CREATE SINK x INTO k AS SELECT max(a) AS m FROM t")
    assert _rows(session, "SELECT m FROM s.k") == [(21,)]
    session.sql("RESET search_path; DROP SCHEMA s CASCADE")
    assert set(session.catalog.relations) == {"t"}
