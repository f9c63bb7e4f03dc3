"""What a query calls its tables is no difference; everything else is."""

from __future__ import annotations

import pytest

from engine.sql.bind.binder import bind
from engine.sql.catalog import Catalog, Relation, RelationColumn
from engine.sql.incremental.same_plan import is_same_plan
from engine.sql.plan import Node
from engine.sql.statements.reader import parse_statement
from engine.sql.statements.statement_types import CreateView

COLUMNS = tuple(RelationColumn(name, "int") for name in ("id", "a", "b"))
CATALOG = Catalog(
    {
        name: Relation(
            name=name, kind="table", columns=COLUMNS, primary_key=("id",), distribution_key=("id",)
        )
        for name in ("t", "u")
    }
)
SAME = [
    ("SELECT id, a FROM t WHERE a > 1", "SELECT x.id, x.a FROM t AS x WHERE x.a > 1"),
    ("SELECT a, sum(b) AS n FROM t GROUP BY a", "SELECT ou.a, sum(ou.b) AS n FROM t AS ou GROUP BY ou.a"),
    (
        "SELECT t.id, u.a FROM t JOIN u ON t.a = u.id",
        "SELECT u.id, t.a FROM t AS u JOIN u AS t ON u.a = t.id",
    ),
]
OTHER = [
    ("SELECT id, a FROM t", "SELECT id, b AS a FROM t"),
    ("SELECT id, a FROM t", "SELECT id, a FROM u"),
    ("SELECT x.id, y.a FROM t x JOIN t y ON x.a = y.id", "SELECT y.id, x.a FROM t x JOIN t y ON x.a = y.id"),
    ("SELECT id, 't:a' AS a FROM t", "SELECT id, 'x:a' AS a FROM t AS x"),
]


def plan(query: str) -> Node:
    statement = parse_statement(f"CREATE VIEW v AS {query}", "spark")
    assert isinstance(statement, CreateView)
    return bind(statement.query, CATALOG, dialect="spark", sql=statement.sql).plan


@pytest.mark.parametrize(("one", "other"), SAME)
def test_names_of_tables_mean_nothing(one: str, other: str) -> None:
    assert is_same_plan(plan(one), plan(other))


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_columns_tables_and_values_do(one: str, other: str) -> None:
    assert not is_same_plan(plan(one), plan(other))
