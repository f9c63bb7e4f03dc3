"""The plan that is stored for a view says the type of every part of its expressions, as Spark has it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.meta.catalog.stored_catalog import load_catalog
from engine.session import Session
from engine.sql.expression.nodes import Call, Expr, Lambda, Named, Variable, Word, children
from engine.sql.expression.spark_sql import render_spark_sql
from engine.sql.plan import Node, list_children
from engine.sql.rewrites.binding.free_columns import list_node_expressions

QUERIES = {
    "rows": "SELECT id, upper(note) AS shown, price DIV 2 + 1L AS half, CASE WHEN price > 1.5 THEN d ELSE NULL END AS day, "
    "transform(xs, x -> x + price) AS moved, xs[0] AS first, s.a AS a, date_diff(DAY, d, d) AS days "
    "FROM t WHERE note LIKE 'a%' OR price IN (1, 2) AND NOT note IS NULL",
    "groups": "SELECT price, sum(id) AS s, avg(fee) AS a, max(note) FILTER (WHERE id > 1) AS m, "
    "array_agg(id ORDER BY note) AS ids FROM t GROUP BY price HAVING count(*) > 1",
    "pairs": "SELECT t.id, u.note FROM t LEFT JOIN t AS u ON t.id = u.price AND t.fee < u.fee * 2",
    "elements": "SELECT id, x FROM t LATERAL VIEW explode(xs) AS x",
}


@pytest.fixture
def views(session: Session) -> Session:
    session.sql(
        "CREATE TABLE t (id BIGINT PRIMARY KEY, price INT, fee DECIMAL(10, 2), note STRING, d DATE, xs ARRAY<INT>, "
        "s STRUCT<a: INT, b: STRING>)"
    )
    for name, query in QUERIES.items():
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}", build=False)
    return session


def _expressions(node: Node) -> Iterator[Expr]:
    yield from list_node_expressions(node)
    for child in list_children(node):
        yield from _expressions(child)


def _parts(expr: Expr) -> Iterator[Expr]:
    if isinstance(expr, Lambda | Variable):
        return
    if not isinstance(expr, Word | Named):
        yield expr
    for child in children(expr):
        yield from _parts(child)


def _stored(session: Session, view: str) -> list[Expr]:
    plan = load_catalog(session.store.refresh()).plans[view]
    return [expr for fragment in plan.fragments for expr in _expressions(fragment.plan)]


def test_every_part_has_a_type_and_says_whether_it_can_be_null(views: Session) -> None:
    for view in QUERIES:
        parts = [part for expr in _stored(views, view) for part in _parts(expr)]
        assert parts
        assert [
            render_spark_sql(part) for part in parts if part.type is None or part.nullable is None
        ] == [], view


def test_the_types_are_those_of_spark(views: Session) -> None:
    found = {render_spark_sql(part): part.type for expr in _stored(views, "rows") for part in _parts(expr)}
    assert found["`t:price` DIV 2"] == "bigint"
    assert found["transform(`t:xs`, x -> x + `t:price`)"] == "array<int>"
    assert found["`t:s`.`a`"] == "int"
    assert found["NULL"] == "void"
    average = [e for e in _stored(views, "groups") if isinstance(e, Call) and e.function == "avg"]
    assert [
        part.type
        for e in _stored(views, "groups")
        for part in _parts(e)
        if render_spark_sql(part) == "`t:fee`"
    ]
    assert all(e.type == "decimal(14,6)" for e in average)


def test_what_certainly_has_a_value_is_said_so(session: Session) -> None:
    session.sql("CREATE TABLE u (id BIGINT PRIMARY KEY, n INT)")
    session.sql("CREATE MATERIALIZED VIEW filled AS SELECT id, coalesce(n, 0) AS n FROM u", build=False)
    found = {render_spark_sql(expr): expr.nullable for expr in _stored(session, "filled")}
    assert found["coalesce(`u:n`, 0)"] is False
