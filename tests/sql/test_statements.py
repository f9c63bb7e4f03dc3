"""Statements become typed values; names fold to lower case unless they are quoted."""

from __future__ import annotations

import pytest

from engine.sql import statements as st
from engine.sql.values import literal_rows
from tests.sql.catalog import small_catalog


@pytest.mark.parametrize("dialect", ["spark", "postgres", "risingwave"])
def test_a_table_has_columns_key_defaults_and_options(dialect: str) -> None:
    text = (
        "CREATE TABLE IF NOT EXISTS Orders (id BIGINT, day DATE NOT NULL, amount DECIMAL(12, 2) DEFAULT 0, "
        "PRIMARY KEY (id, day)) WITH (connector = 'landing', path = 'inbox/orders')"
    )
    table = st.parse(text, dialect)
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
    table = st.parse("CREATE TABLE t (a INT) APPEND ONLY WITH (connector = 'landing')", "spark")
    assert isinstance(table, st.CreateTable)
    assert table.append_only and table.primary_key == () and table.options == {"connector": "landing"}


def test_a_timestamp_has_a_zone_in_spark_and_none_in_postgres() -> None:
    text = "CREATE TABLE t (id INT PRIMARY KEY, at TIMESTAMP)"
    kinds = {d: st.parse(text, d).columns[1].type for d in ("spark", "postgres")}  # type: ignore[union-attr]
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
    assert isinstance(st.parse(text, "spark"), kind)


def test_a_script_is_cut_at_semicolons_outside_strings_and_comments() -> None:
    script = "INSERT INTO t VALUES ('a;b'); -- a; comment\nFLUSH;\n"
    assert len(st.split(script, "spark")) == 2


def test_literal_rows_are_read_without_an_engine() -> None:
    relation = small_catalog().get("bid")
    insert = st.parse("INSERT INTO bid (id, price, note) VALUES (1, -2, NULL), (3, 4, 'x')", "spark")
    assert isinstance(insert, st.Insert)
    assert literal_rows(insert, relation, "spark") == [(1, -2, None), (3, 4, "x")]


def test_rows_with_expressions_are_left_to_spark() -> None:
    insert = st.parse("INSERT INTO bid (id, price) VALUES (1, 2 + 3)", "spark")
    assert isinstance(insert, st.Insert)
    assert literal_rows(insert, small_catalog().get("bid"), "spark") is None
