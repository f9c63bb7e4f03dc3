"""information_schema and pg_catalog: what they tell of a catalog, and queries over them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import SqlError
from engine.runtime.reads.system_read import build_system_rows, resolve_system_tables
from engine.session import Session
from engine.sql.batch.system_tables import TABLES
from engine.sql.statements import reader as st

MADE = """
CREATE SCHEMA s;
CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(10) NOT NULL, at TIMESTAMPTZ, m NUMERIC(10, 2) DEFAULT 1, xs INT[]);
CREATE TABLE s.bag (a BIGINT);
CREATE VIEW v AS SELECT id FROM t;
COMMENT ON TABLE t IS 'things'; COMMENT ON COLUMN t.name IS 'what it is called'
"""


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Session]:
    """A session that starts no Spark, over two tables, a view and an index."""

    def no_spark() -> None:
        raise AssertionError("Spark was started")

    with Session(tmp_path.as_uri(), no_spark, dialect="postgres") as session:
        session.sql(MADE)
        session.sql("CREATE INDEX by_name ON t (name)", build=False)
        yield session


def _told(session: Session, table: str, *columns: str) -> list[tuple]:
    rows = build_system_rows(session.catalog, table, session.dialect).to_pylist()
    return [tuple(row[column] for column in columns) for row in rows]


def test_relations_are_told_with_schema_and_kind(alone: Session) -> None:
    assert _told(alone, "information_schema.tables", "table_schema", "table_name", "table_type") == [
        ("s", "bag", "BASE TABLE"),
        ("public", "t", "BASE TABLE"),
        ("public", "v", "VIEW"),
    ]
    names = [name for (name,) in _told(alone, "information_schema.schemata", "schema_name")]
    assert names == ["public", "s", "information_schema", "pg_catalog"]
    alone.dialect = "spark"
    assert ("default", "t") in _told(alone, "information_schema.tables", "table_schema", "table_name")


def test_columns_are_told_with_their_types_and_no_hidden_ones(alone: Session) -> None:
    rows = _told(
        alone,
        "information_schema.columns",
        "table_name",
        "column_name",
        "ordinal_position",
        "data_type",
        "is_nullable",
    )
    assert rows == [
        ("bag", "a", 1, "bigint", "YES"),
        ("t", "id", 1, "integer", "NO"),
        ("t", "name", 2, "character varying", "NO"),
        ("t", "at", 3, "timestamp with time zone", "YES"),
        ("t", "m", 4, "numeric", "YES"),
        ("t", "xs", 5, "ARRAY", "YES"),
        ("v", "id", 1, None, "YES"),
    ]
    sizes = _told(
        alone, "information_schema.columns", "character_maximum_length", "numeric_precision", "numeric_scale"
    )
    assert (10, None, None) in sizes and (None, 10, 2) in sizes


def test_keys_are_constraints(alone: Session) -> None:
    assert _told(alone, "information_schema.table_constraints", "table_name", "constraint_type") == [
        ("t", "PRIMARY KEY")
    ]
    assert _told(alone, "information_schema.key_column_usage", "constraint_name", "column_name") == [
        ("t_pkey", "id")
    ]


def test_numbers_of_pg_catalog_lead_from_one_table_to_the_next(alone: Session) -> None:
    spaces = dict(_told(alone, "pg_catalog.pg_namespace", "oid", "nspname"))
    classes = {
        name: (number, spaces[space], kind)
        for number, name, space, kind in _told(
            alone, "pg_catalog.pg_class", "oid", "relname", "relnamespace", "relkind"
        )
    }
    assert {name: rest for name, (_, *rest) in classes.items()} == {
        "t": ["public", "r"],
        "bag": ["s", "r"],
        "v": ["public", "v"],
        "by_name": ["public", "i"],
    }
    types = dict(_told(alone, "pg_catalog.pg_type", "oid", "typname"))
    columns = _told(alone, "pg_catalog.pg_attribute", "attrelid", "attname", "atttypid")
    assert [(name, types[kind]) for owner, name, kind in columns if owner == classes["t"][0]] == [
        ("id", "int4"),
        ("name", "varchar"),
        ("at", "timestamptz"),
        ("m", "numeric"),
        ("xs", "anyarray"),
    ]
    assert _told(alone, "pg_catalog.pg_index", "indexrelid", "indrelid", "indkey") == [
        (classes["by_name"][0], classes["t"][0], "2")
    ]
    assert _told(alone, "pg_catalog.pg_description", "objoid", "objsubid", "description") == [
        (classes["t"][0], 0, "things"),
        (classes["t"][0], 2, "what it is called"),
    ]


@pytest.mark.parametrize("dialect", ["spark", "postgres", "risingwave"])
@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_rows_of_its_columns(alone: Session, name: str, dialect: str) -> None:
    found = build_system_rows(alone.catalog, name, dialect)
    assert found.column_names == [column for column, _ in TABLES[name].columns]
    assert found.num_rows or name in ("pg_catalog.pg_matviews",)


def test_a_relation_of_a_user_hides_one_of_pg_catalog_and_a_with_item_does_so_too(alone: Session) -> None:
    alone.sql("CREATE TABLE pg_class (id INT PRIMARY KEY)")
    for text, expected in (
        ("SELECT * FROM pg_class", ()),
        ("SELECT * FROM pg_catalog.pg_class", ("pg_catalog.pg_class",)),
        ("SELECT * FROM pg_type", ("pg_catalog.pg_type",)),
        ("WITH pg_type AS (SELECT 1 AS a) SELECT * FROM pg_type", ()),
    ):
        statement = st.parse_statement(text, "postgres")
        assert isinstance(statement, st.Select)
        assert resolve_system_tables(statement.query, alone.catalog)[1] == expected


def test_what_a_client_asks_of_its_database_is_answered_without_spark(alone: Session) -> None:
    found = alone.sql("SELECT current_schema(), current_database(), version()")
    assert found is not None
    (row,) = found.to_pylist()
    assert (row["current_schema"], row["current_database"]) == ("public", "tideline")
    assert row["version"].startswith("PostgreSQL ")


def test_queries_join_tables_of_the_system_with_each_other_and_with_others(session: Session) -> None:
    session.dialect = "postgres"
    session.sql(MADE)
    found = session.sql(
        "SELECT n.nspname, c.relname, count(*) AS columns FROM pg_catalog.pg_class c "
        "JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid "
        "WHERE c.relkind = 'r' GROUP BY 1, 2 ORDER BY 2"
    )
    assert found is not None
    assert [tuple(row.values()) for row in found.to_pylist()] == [("s", "bag", 1), ("public", "t", 5)]
    session.sql("INSERT INTO t (id, name) VALUES (1, 't')")
    found = session.sql(
        "SELECT t.id, columns.column_name FROM t, information_schema.columns WHERE table_name = t.name AND ordinal_position = ?",
        [2],
    )
    assert found is not None
    assert found.to_pylist() == [{"id": 1, "column_name": "name"}]
    with pytest.raises(SqlError, match="no table or view information_schema"):
        session.sql("CREATE MATERIALIZED VIEW m AS SELECT * FROM information_schema.tables")
