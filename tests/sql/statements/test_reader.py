"""Statements become typed values; names fold to lower case unless they are quoted."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from engine.errors import SqlError
from engine.sql.statements import reader as st
from engine.sql.statements.dml.literal_rows import read_literal_rows
from tests.sql.catalog import small_catalog, table


@pytest.mark.parametrize("dialect", ["spark", "postgres", "risingwave"])
def test_a_table_has_columns_key_defaults_and_options(dialect: str) -> None:
    text = (
        "CREATE TABLE IF NOT EXISTS Orders (id BIGINT, day DATE NOT NULL, amount DECIMAL(12, 2) DEFAULT 0, "
        "PRIMARY KEY (id, day)) WITH (connector = 'landing', path = 'inbox/orders')"
    )
    table = st.parse_statement(text, dialect)
    assert isinstance(table, st.CreateTable)
    assert (table.name, table.primary_key, table.if_not_exists) == ("orders", ("id", "day"), True)
    assert [(c.name, c.type) for c in table.columns] == [
        ("id", "bigint"),
        ("day", "date"),
        ("amount", "decimal(12,2)"),
    ]
    assert table.columns[1].nullable is False and table.columns[2].default == "0"
    assert table.options == {"connector": "landing", "path": "inbox/orders"}


def test_append_only_needs_no_key_and_keeps_positions() -> None:
    table = st.parse_statement("CREATE TABLE t (a INT) APPEND ONLY WITH (connector = 'landing')", "spark")
    assert isinstance(table, st.CreateTable)
    assert table.append_only and table.primary_key == () and table.options == {"connector": "landing"}


def test_a_timestamp_has_a_zone_in_spark_and_none_in_postgres() -> None:
    text = "CREATE TABLE t (id INT PRIMARY KEY, at TIMESTAMP)"
    kinds = {d: st.parse_statement(text, d).columns[1].type for d in ("spark", "postgres")}  # type: ignore[union-attr]
    assert kinds == {"spark": "timestamp", "postgres": "timestamp_ntz"}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("FLUSH", st.Flush),
        ("flush;", st.Flush),
        ("SHOW MATERIALIZED VIEWS", st.Show),
        ("SHOW CREATE TABLE bid", st.ShowCreate),
        ("DESCRIBE bid", st.Describe),
        ("EXPLAIN INCREMENTAL SELECT id FROM bid", st.Explain),
        ("EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT id FROM bid", st.Explain),
        ("DROP MATERIALIZED VIEW IF EXISTS v CASCADE", st.Drop),
        ("DELETE FROM bid WHERE id = 1", st.DeleteFrom),
        ("UPDATE bid SET price = price + 1 WHERE id = 1", st.Update),
        ("SET dialect = postgres", st.Set),
        ("SELECT id FROM bid", st.Select),
        ("CREATE VIEW v AS SELECT id FROM bid", st.CreateView),
    ],
)
def test_each_statement_has_its_type(text: str, kind: type) -> None:
    assert isinstance(st.parse_statement(text, "spark"), kind)


def test_a_script_is_cut_at_semicolons_outside_strings_and_comments() -> None:
    script = "INSERT INTO t VALUES ('a;b'); -- a; comment\nFLUSH;\n"
    assert len(st.split_statements(script, "spark")) == 2


def test_literal_rows_are_read_without_an_engine() -> None:
    relation = small_catalog().get("bid")
    insert = st.parse_statement(
        "INSERT INTO bid (id, price, note) VALUES (1, -2, NULL), (3, 4, 'x')", "spark"
    )
    assert isinstance(insert, st.Insert)
    assert read_literal_rows(insert, relation, "spark") == [(1, -2, None), (3, 4, "x")]


def test_rows_with_expressions_are_left_to_spark() -> None:
    insert = st.parse_statement("INSERT INTO bid (id, price) VALUES (1, 2 + 3)", "spark")
    assert isinstance(insert, st.Insert)
    assert read_literal_rows(insert, small_catalog().get("bid"), "spark") is None


@pytest.mark.parametrize(
    "text",
    [
        "-- why\nFLUSH",
        "/* why */ SHOW TABLES",
        "SELECT id FROM bid -- why",
        "-- why\nEXPLAIN SELECT id FROM bid",
        "FLUSH -- why",
    ],
)
def test_comments_around_a_statement_are_no_part_of_it(text: str) -> None:
    assert st.parse_statement(text, "spark").sql == text


def test_dashes_in_a_string_are_no_comment() -> None:
    statement = st.parse_statement("SELECT id FROM bid WHERE note = '--b'", "spark")
    assert isinstance(statement, st.Select) and "'--b'" in statement.query.sql()


def test_the_query_of_a_view_is_kept_as_it_was_written() -> None:
    text = "CREATE MATERIALIZED VIEW v WITH (domain = 'as_select') AS WITH q AS (SELECT  id FROM bid)\nSELECT id FROM q"
    statement = st.parse_statement(text, "spark")
    assert isinstance(statement, st.CreateMaterializedView)
    assert statement.query_sql == "WITH q AS (SELECT  id FROM bid)\nSELECT id FROM q"
    assert statement.options == {"domain": "as_select"}


def test_the_columns_of_a_key_may_not_be_null() -> None:
    statement = st.parse_statement("CREATE TABLE t (a INT, b INT, c INT, PRIMARY KEY (a, b))", "spark")
    assert isinstance(statement, st.CreateTable)
    assert [column.nullable for column in statement.columns] == [False, False, True]


def test_an_unknown_column_of_an_insert_is_told_with_its_place() -> None:
    insert = st.parse_statement("INSERT INTO bid (id, prize) VALUES (1, 2)", "spark")
    assert isinstance(insert, st.Insert)
    with pytest.raises(SqlError) as caught:
        read_literal_rows(insert, small_catalog().get("bid"), "spark")
    assert caught.value.column == 22 and "price" in caught.value.hint


def test_a_row_of_a_wrong_width_is_told_with_its_place() -> None:
    insert = st.parse_statement("INSERT INTO bid (id, price) VALUES (1, 2), (3)", "spark")
    assert isinstance(insert, st.Insert)
    with pytest.raises(SqlError, match="1 values for 2 columns"):
        read_literal_rows(insert, small_catalog().get("bid"), "spark")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("bigint", "-3", -3),
        ("double", "1.5", 1.5),
        ("decimal(10,2)", "1.25", Decimal("1.25")),
        ("boolean", "TRUE", True),
        ("string", "'x'", "x"),
        ("date", "DATE '2026-01-31'", date(2026, 1, 31)),
        ("date", "'2026-01-31'", date(2026, 1, 31)),
        ("timestamp", "TIMESTAMP '2026-01-31 10:00:00'", datetime(2026, 1, 31, 10, tzinfo=UTC)),
        ("timestamp", "'2026-01-31 10:00:00+02:00'", datetime(2026, 1, 31, 8, tzinfo=UTC)),
        ("bigint", "NULL", None),
    ],
)
def test_a_literal_is_the_value_of_its_column(kind: str, text: str, value: object) -> None:
    assert value_of(kind, text) == [(value,)]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("bigint", "1.5"),
        ("bigint", "'3'"),
        ("string", "TRUE"),
        ("string", "3"),
        ("decimal(10,2)", "1.234"),
        ("decimal(10,2)", "1e60"),
        ("date", "TIMESTAMP '2026-01-31 10:00:00'"),
        ("timestamp", "DATE '2026-01-31'"),
        ("date", "'2026-02-30'"),
        ("date", "'20260131'"),
        ("bigint", "1 + 1"),
    ],
)
def test_a_literal_that_has_to_be_converted_is_left_to_spark(kind: str, text: str) -> None:
    assert value_of(kind, text) is None


def value_of(kind: str, text: str) -> list[tuple[object, ...]] | None:
    """Return what INSERT writes into a column of type `kind`."""
    insert = st.parse_statement(f"INSERT INTO t (x) VALUES ({text})", "spark")
    assert isinstance(insert, st.Insert)
    return read_literal_rows(insert, table("t", {"id": "bigint", "x": kind}, "id"), "spark")


@pytest.mark.parametrize(
    "text",
    [
        "CREATE INDEX i ON t (a, b) INCLUDE (c)",
        "CREATE INDEX i ON t (a, b) DISTRIBUTED BY (a)",
        "CREATE INDEX i ON t (a, b) INCLUDE (c) DISTRIBUTED BY (a)",
    ],
)
def test_what_an_index_holds_beside_its_columns_and_how_it_is_spread_is_said_without_effect(
    text: str,
) -> None:
    found = st.parse_statement(text, "risingwave")
    assert isinstance(found, st.CreateIndex)
    assert found.columns == ("a", "b")


@pytest.mark.parametrize("dialect", ["spark", "postgres", "risingwave"])
def test_a_materialized_view_names_its_columns(dialect: str) -> None:
    found = st.parse_statement("CREATE MATERIALIZED VIEW v (x, y) AS SELECT a, b FROM t", dialect)
    assert isinstance(found, st.CreateMaterializedView)
    assert found.columns == ("x", "y")


@pytest.mark.parametrize("dialect", ["spark", "postgres", "risingwave"])
def test_emit_on_window_close_before_as_means_what_it_means_behind_the_query(dialect: str) -> None:
    texts = (
        "CREATE MATERIALIZED VIEW v WITH (parallelism = 2) EMIT ON WINDOW CLOSE AS SELECT a FROM t",
        "CREATE MATERIALIZED VIEW v WITH (parallelism = 2) AS SELECT a FROM t EMIT ON WINDOW CLOSE",
    )
    before, behind = (st.parse_statement(text, dialect) for text in texts)
    assert isinstance(before, st.CreateMaterializedView) and isinstance(behind, st.CreateMaterializedView)
    assert before.on_window_close and behind.on_window_close
    assert (before.query_sql.strip(), before.options) == (behind.query_sql.strip(), behind.options)
