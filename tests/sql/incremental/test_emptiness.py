"""Which plans certainly have no row while their tables have none."""

from __future__ import annotations

import pytest

from engine.sql.bind.binder import bind
from engine.sql.catalog import Catalog
from engine.sql.incremental.emptiness import is_empty_over_nothing
from engine.sql.statements.reader import Select, parse_statement
from tests.sql.catalog import table

CATALOG = Catalog({name: table(name, {"id": "bigint", "a": "int"}, "id") for name in ("t", "u")})
EMPTY = (
    "SELECT id + 1 FROM t WHERE a > 1",
    "SELECT a, count(*) FROM t GROUP BY a",
    "SELECT DISTINCT a FROM t",
    "SELECT t.id FROM t JOIN u ON t.id = u.id",
    "SELECT t.id FROM t LEFT JOIN u ON t.id = u.id",
    "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.id = t.id)",
    "SELECT id FROM t UNION ALL SELECT id FROM u",
    "SELECT t.id FROM t JOIN (VALUES (1)) AS v(k) ON t.id = v.k",
    "SELECT id FROM t ORDER BY id LIMIT 3",
    "SELECT id, count(*) OVER () AS n FROM t",
    "SELECT t.id, g FROM t, generate_series(1, 3) AS g",
)
NOT_EMPTY = (
    "SELECT count(*) FROM t",
    "SELECT sum(a) + 1 FROM t",
    "SELECT 1",
    "SELECT sum(count(*)) OVER () AS n FROM t",
    "VALUES (1)",
    "SELECT id FROM t UNION ALL SELECT 1",
    "SELECT v.k FROM (VALUES (1)) AS v(k) LEFT JOIN t ON t.id = v.k",
    "SELECT g FROM generate_series(1, 3) AS g",
    "SELECT n FROM (SELECT count(*) AS n FROM t) AS c WHERE n = 0",
)


@pytest.mark.parametrize(
    ("query", "expected"), [*((q, True) for q in EMPTY), *((q, False) for q in NOT_EMPTY)]
)
def test_rows_of_nothing(query: str, expected: bool) -> None:
    statement = parse_statement(query, "postgres")
    assert isinstance(statement, Select)
    assert (
        is_empty_over_nothing(bind(statement.query, CATALOG, dialect="postgres", sql=query).plan) is expected
    )
