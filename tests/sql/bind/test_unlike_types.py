"""Values that have no common type are refused where a view is made: UNION and its like, CASE, COALESCE."""

from __future__ import annotations

import pytest

from engine.errors import SqlError
from engine.sql.bind.binder import bind
from engine.sql.catalog import Catalog
from engine.sql.dialect import Dialect
from engine.sql.statements.reader import CreateMaterializedView, parse_statement
from tests.sql.catalog import table

COLUMNS = {"id": "int", "v": "string", "f": "boolean", "i": "int", "d": "date", "x": "double"}
UNLIKE = (
    *(f"SELECT v FROM t {word} SELECT {other} FROM t" for word in ("UNION", "UNION ALL") for other in "fidx"),
    *(
        f"SELECT {other} FROM t {word} SELECT v FROM t"
        for word in ("EXCEPT", "INTERSECT ALL")
        for other in "fi"
    ),
    *(f"SELECT CASE WHEN id < 9 THEN v ELSE {other} END AS c FROM t" for other in "fidx"),
    *(
        f"SELECT {word}({other}, v) AS c FROM t"
        for word in ("coalesce", "greatest", "least")
        for other in "fid"
    ),
    "SELECT coalesce(i, v || 'x') AS c FROM t",
)
ALWAYS = (
    "SELECT f FROM t UNION SELECT i FROM t",
    "SELECT CASE WHEN id < 9 THEN f ELSE i END AS c FROM t",
    "SELECT CASE WHEN id < 9 THEN d WHEN id < 10 THEN NULL ELSE x END AS c FROM t",
    "SELECT coalesce(f, 0) AS c FROM t",
    "SELECT coalesce(i, 'none') AS c FROM t",
)
ALIKE = (
    "SELECT v FROM t UNION SELECT 'x' FROM t",
    "SELECT i FROM t UNION ALL SELECT '5' FROM t",
    "SELECT i FROM t UNION SELECT x FROM t",
    "SELECT d FROM t UNION SELECT NULL FROM t",
    "SELECT CASE WHEN id < 9 THEN i ELSE '7' END AS c FROM t",
    "SELECT CASE WHEN id < 9 THEN v ELSE 'x' END AS c FROM t",
    "SELECT coalesce(x, i, 0) AS c FROM t",
    "SELECT coalesce(d, '2024-01-01') AS c FROM t",
    "SELECT coalesce(v, CAST(i AS TEXT)) AS c FROM t",
)


def bound(query: str, dialect: Dialect) -> None:
    """Bind a view's query."""
    catalog = Catalog({"t": table("t", COLUMNS, "id")})
    statement = parse_statement(f"CREATE MATERIALIZED VIEW w AS {query}", dialect)
    assert isinstance(statement, CreateMaterializedView)
    bind(statement.query, catalog, dialect=dialect, sql=statement.sql)


@pytest.mark.parametrize("dialect", ["postgres", "risingwave"])
@pytest.mark.parametrize("query", UNLIKE)
def test_a_text_and_something_else_have_no_common_type_in_postgres(query: str, dialect: Dialect) -> None:
    with pytest.raises(SqlError) as caught:
        bound(query, dialect)
    assert "CAST one of them" in str(caught.value) and caught.value.line is not None


@pytest.mark.parametrize("query", UNLIKE)
def test_spark_casts_a_text_to_what_stands_beside_it(query: str) -> None:
    bound(query, "spark")


@pytest.mark.parametrize("dialect", ["spark", "postgres"])
@pytest.mark.parametrize("query", ALWAYS)
def test_values_that_no_dialect_brings_together_are_refused(query: str, dialect: Dialect) -> None:
    with pytest.raises(SqlError):
        bound(query, dialect)


@pytest.mark.parametrize("dialect", ["spark", "postgres"])
@pytest.mark.parametrize("query", ALIKE)
def test_quoted_texts_and_numbers_are_of_the_type_beside_them(query: str, dialect: Dialect) -> None:
    bound(query.replace("TEXT", "STRING") if dialect == "spark" else query, dialect)
