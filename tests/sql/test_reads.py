"""Batch queries: simple reads need no Spark, the others become Spark SQL that means the same."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest
import sqlglot.expressions as exp

from engine.errors import SqlError
from engine.sql.batch.ad_hoc import query_tables, to_spark
from engine.sql.batch.point_read import PointRead, Predicate, point_read
from engine.sql.catalog import Catalog, Relation, RelationColumn
from engine.sql.statements.reader import Select, parse_statement
from tests.sql.catalog import small_catalog, table


def wide_catalog() -> Catalog:
    """Return the small catalog with a table of many types, and a view with a WITH of its own."""
    kinds = {
        "id": "bigint",
        "n": "decimal(10,2)",
        "g": "double",
        "d": "date",
        "s": "string",
        "i": "int",
        "b": "boolean",
    }
    hides = Relation(
        name="hides",
        kind="view",
        columns=(RelationColumn("id", ""),),
        sql="CREATE VIEW hides AS WITH bid AS (SELECT id / 2 AS id FROM bid) SELECT id FROM bid",
        dialect="postgres",
        depends_on=("bid",),
    )
    return Catalog({**small_catalog().relations, "wide": table("wide", kinds, "id"), "hides": hides})


def query_of(text: str, dialect: str = "spark") -> exp.Query:
    statement = parse_statement(text, dialect)
    assert isinstance(statement, Select)
    return statement.query


def read_of(text: str, dialect: str = "spark") -> PointRead | None:
    return point_read(query_of(text, dialect), wide_catalog(), dialect)


@pytest.mark.parametrize(
    ("condition", "predicates"),
    [
        ("id = 3", [("id", "=", (3,))]),
        ("-3 < id", [("id", ">", (-3,))]),
        ("n >= 1.25", [("n", ">=", (Decimal("1.25"),))]),
        ("g <= 2", [("g", "<=", (2.0,))]),
        ("d = '2026-01-31'", [("d", "=", (date(2026, 1, 31),))]),
        ("d > DATE '2026-01-31'", [("d", ">", (date(2026, 1, 31),))]),
        ("s <> 'x' AND b = TRUE", [("s", "<>", ("x",)), ("b", "=", (True,))]),
        ("id BETWEEN 1 AND 3", [("id", ">=", (1,)), ("id", "<=", (3,))]),
        ("id IN (1, 2)", [("id", "in", (1, 2))]),
        ("s IS NULL", [("s", "is null", ())]),
        ("(s IS NOT NULL)", [("s", "is not null", ())]),
    ],
)
def test_comparisons_with_literals_of_the_columns_type_are_simple(
    condition: str, predicates: list[tuple[str, str, tuple[object, ...]]]
) -> None:
    found = read_of(f"SELECT id FROM wide WHERE {condition}")
    assert found is not None
    assert list(found.predicates) == [Predicate(*parts) for parts in predicates]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM wide WHERE id > 1.5",
        "SELECT id FROM wide WHERE s = 5",
        "SELECT id FROM wide WHERE id = '5'",
        "SELECT id FROM wide WHERE n = 1.234",
        "SELECT id FROM wide WHERE id = 99999999999999999999",
        "SELECT id FROM wide WHERE id = 1 OR id = 2",
        "SELECT id FROM wide WHERE b",
        "SELECT id FROM wide ORDER BY 1",
        "SELECT DISTINCT id FROM wide",
        "SELECT id, id FROM wide",
        "SELECT w.a FROM wide AS w(a, b, c, d, e, f, g)",
        "SELECT count(id) FROM wide",
        "SELECT id FROM dear",
        "SELECT id FROM wide TABLESAMPLE (10 PERCENT)",
    ],
)
def test_what_needs_sparks_rules_is_left_to_spark(text: str) -> None:
    assert read_of(text) is None


def test_nulls_stand_where_the_dialect_puts_them() -> None:
    text = "SELECT id FROM wide ORDER BY i, s DESC, d NULLS FIRST"
    spark, postgres = read_of(text), read_of(text, "postgres")
    assert spark is not None and postgres is not None
    assert spark.order == (("i", False, True), ("s", True, False), ("d", False, True))
    assert postgres.order == (("i", False, False), ("s", True, True), ("d", False, True))


def test_rows_may_be_counted() -> None:
    found = read_of("SELECT count(*) AS n FROM wide WHERE id > 3")
    assert found is not None and found.count_name == "n" and found.reads == ("id",)


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("SELECT id FROM bid WHERE id IN (SELECT id FROM auction)", ("bid", "auction")),
        ("WITH bid AS (SELECT id FROM bid) SELECT id FROM bid", ("bid",)),
        ("WITH x AS (SELECT id FROM event) SELECT id FROM x", ("event",)),
        ("SELECT id FROM dear UNION SELECT id FROM hides", ("bid",)),
        ("SELECT (WITH a AS (SELECT 1 AS x) SELECT max(x) FROM a) AS m FROM event", ("event",)),
        ("SELECT 1 AS one", ()),
    ],
)
def test_the_tables_of_a_query_are_found_where_they_stand(text: str, tables: tuple[str, ...]) -> None:
    assert query_tables(query_of(text), wide_catalog()) == tables


def test_an_unknown_table_is_told_with_its_place() -> None:
    text = "SELECT id FROM bid\nJOIN auctoin USING (id)"
    with pytest.raises(SqlError) as caught:
        query_tables(query_of(text), wide_catalog(), text)
    assert (caught.value.line, caught.value.column) == (2, 6) and "auction" in caught.value.hint


@pytest.mark.parametrize(
    ("dialect", "text", "spark"),
    [
        (
            "spark",
            "SELECT d.id FROM dear d ORDER BY id LIMIT 3",
            "SELECT d.id FROM (SELECT id, price FROM bid WHERE price > 50) AS d ORDER BY id LIMIT 3",
        ),
        (
            "spark",
            "SELECT h.id FROM hides AS h JOIN bid ON bid.id = h.id",
            "SELECT h.id FROM (SELECT id FROM (SELECT CAST(id DIV 2 AS BIGINT) AS id FROM bid) AS bid) AS h JOIN bid ON bid.id = h.id",
        ),
        (
            "spark",
            "SELECT q.k FROM (WITH bid(k) AS (SELECT id FROM event) SELECT k FROM bid) AS q JOIN bid ON bid.id = q.k",
            "SELECT q.k FROM (SELECT k FROM (SELECT id FROM event) AS bid(k)) AS q JOIN bid ON bid.id = q.k",
        ),
        (
            "postgres",
            "SELECT price / 2 AS half FROM bid",
            "SELECT CAST(price DIV 2 AS BIGINT) AS half FROM bid",
        ),
        (
            "postgres",
            "SELECT price / 2 AS x FROM (SELECT price / 2.0 AS price FROM bid) AS q",
            "SELECT CAST(price AS DECIMAL(38, 17)) / 2 AS x FROM (SELECT CAST(price AS DECIMAL(37, 17)) / 2.0 AS price "
            "FROM bid) AS q",
        ),
        (
            "postgres",
            "SELECT q.n / 2 AS half FROM (SELECT note, count(*) AS n FROM bid GROUP BY note) AS q",
            "SELECT CAST(q.n DIV 2 AS BIGINT) AS half FROM (SELECT note, COUNT(*) AS n FROM bid GROUP BY note) AS q",
        ),
        (
            "postgres",
            "WITH a(k) AS (SELECT * FROM (SELECT price FROM bid) AS p) SELECT k / 2 AS half FROM a",
            "WITH a(k) AS (SELECT * FROM (SELECT price FROM bid) AS p) SELECT CAST(k DIV 2 AS BIGINT) AS half FROM a",
        ),
    ],
)
def test_a_query_becomes_spark_sql_that_means_the_same(dialect: str, text: str, spark: str) -> None:
    assert to_spark(query_of(text, dialect), wide_catalog(), dialect) == spark
