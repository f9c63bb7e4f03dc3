"""From which columns of tables those of a query come."""

from __future__ import annotations

import pytest

from engine.sql.bind.binder import bind_without_rewrites
from engine.sql.catalog import Catalog, Relation, RelationColumn
from engine.sql.lineage import trace_lineage
from engine.sql.statements.reader import Select, parse_statement

CATALOG = Catalog(
    {
        name: Relation(
            name=name,
            kind="table",
            columns=tuple(RelationColumn(c, kind) for c, kind in columns.items()),
            primary_key=("id",),
            distribution_key=("id",),
        )
        for name, columns in {
            "t": {"id": "bigint", "a": "bigint", "b": "bigint", "l": "array<bigint>"},
            "u": {"id": "bigint", "c": "bigint"},
        }.items()
    }
)


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("SELECT a + b AS s, 1 AS one FROM t WHERE id > 3", {"s": "t.a t.b", "one": ""}),
        (
            "SELECT a, sum(b + id) AS s, count(*) AS n FROM t GROUP BY a",
            {"a": "t.a", "s": "t.b t.id", "n": ""},
        ),
        ("SELECT sum(b) FILTER (WHERE a > 1) / max(id) AS x FROM t", {"x": "t.b t.id"}),
        ("SELECT t.a, u.c FROM t LEFT JOIN u ON t.id = u.id", {"a": "t.a", "c": "u.c"}),
        ("SELECT a FROM t UNION ALL SELECT c FROM u", {"a": "t.a u.c"}),
        ("SELECT row_number() OVER (PARTITION BY a ORDER BY b) AS r FROM t", {"r": "t.a t.b"}),
        ("SELECT sum(b) OVER (PARTITION BY a) AS s FROM t", {"s": "t.b"}),
        ("SELECT e FROM t LATERAL VIEW explode(l) x AS e", {"e": "t.l"}),
        ("WITH x AS (SELECT a AS y FROM t) SELECT y * 2 AS z FROM x", {"z": "t.a"}),
        ("SELECT DISTINCT b FROM t", {"b": "t.b"}),
    ],
)
def test_columns_come_from_what_their_values_are_computed_of(query: str, wanted: dict[str, str]) -> None:
    statement = parse_statement(query, "spark")
    assert isinstance(statement, Select)
    bound = bind_without_rewrites(statement.query, CATALOG, dialect="spark", sql=query)
    found = trace_lineage(bound.plan, bound.columns)
    assert {name: " ".join(".".join(one) for one in sources) for name, sources in found.items()} == wanted
