"""Which columns `*` gives first, and which an item of ORDER BY or GROUP BY means by number."""

from __future__ import annotations

import pytest

from engine.sql.bind.binder import BoundQuery, bind
from engine.sql.catalog import Catalog
from engine.sql.dialect import Dialect
from engine.sql.statements.reader import CreateMaterializedView, parse_statement
from tests.sql.catalog import table

TABLES = {
    "a": {"id": "int", "g": "int", "x": "int"},
    "b": {"g": "int", "y": "int"},
    "c": {"z": "int", "id": "int"},
}


def bound(query: str, dialect: Dialect = "spark") -> BoundQuery:
    """Bind a view's query."""
    catalog = Catalog({name: table(name, columns, next(iter(columns))) for name, columns in TABLES.items()})
    statement = parse_statement(f"CREATE MATERIALIZED VIEW w AS {query}", dialect)
    assert isinstance(statement, CreateMaterializedView)
    return bind(statement.query, catalog, dialect=dialect, sql=statement.sql)


@pytest.mark.parametrize("dialect", ["spark", "postgres"])
@pytest.mark.parametrize(
    ("joins", "names"),
    [
        ("JOIN b USING (g) JOIN c USING (id)", "id g x y z"),
        ("LEFT JOIN b USING (g) FULL JOIN c USING (id)", "id g x y z"),
        ("FULL JOIN b USING (g) RIGHT JOIN c USING (id)", "id g x y z"),
        ("NATURAL JOIN b NATURAL JOIN c", "id g x y z"),
    ],
)
def test_columns_of_the_last_join_using_them_come_first(joins: str, names: str, dialect: Dialect) -> None:
    found = bound(f"SELECT * FROM a {joins}", dialect)
    assert " ".join(name for name, _ in found.columns) == names


def test_a_semi_join_has_its_columns_first() -> None:
    found = bound("SELECT * FROM a LEFT SEMI JOIN b USING (g)")
    assert [name for name, _ in found.columns] == ["g", "id", "x"]


@pytest.mark.parametrize("dialect", ["spark", "postgres"])
def test_a_number_in_brackets_is_that_of_a_column(dialect: Dialect) -> None:
    for one, other in (
        ("SELECT id, x FROM a ORDER BY ((2)), id LIMIT 2", "SELECT id, x FROM a ORDER BY 2, id LIMIT 2"),
        ("SELECT x, count(*) AS n FROM a GROUP BY (1)", "SELECT x, count(*) AS n FROM a GROUP BY 1"),
    ):
        assert bound(one, dialect).plan == bound(other, dialect).plan
