"""Names of the columns of a query, by its tree alone."""

from __future__ import annotations

import pytest
import sqlglot

from engine.pipelines.query_columns import list_query_columns

TABLES = {"t": ("a", "b"), "u": ("a", "c")}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT a, b AS x, t.a AS y FROM t", ("a", "x", "y")),
        ("SELECT * FROM t", ("a", "b")),
        ("SELECT *, 1 AS one FROM t", ("a", "b", "one")),
        ("SELECT v.*, c FROM t AS v JOIN u ON v.a = u.a", ("a", "b", "c")),
        ("SELECT * FROM t JOIN u ON t.a = u.a", ("a", "b", "a", "c")),
        ("SELECT * FROM t LEFT SEMI JOIN u ON t.a = u.a", ("a", "b")),
        ("SELECT * EXCEPT (a) FROM t", ("b",)),
        ("WITH w AS (SELECT a AS z FROM t) SELECT * FROM w", ("z",)),
        ("WITH t AS (SELECT a AS z FROM t) SELECT * FROM t", ("z",)),
        ("WITH w(z) AS (SELECT a FROM t) SELECT * FROM w", ("z",)),
        ("SELECT * FROM (SELECT a AS q FROM t) s", ("q",)),
        ("SELECT * FROM (SELECT a FROM t) AS s(q)", ("q",)),
        ("SELECT a FROM t UNION ALL SELECT c FROM u", ("a",)),
        ("SELECT s.field FROM t", ("field",)),
        ("SELECT * FROM range(3)", ("id",)),
        ("SELECT count(*), a FROM t GROUP BY a", (None, "a")),
        ("SELECT * FROM t JOIN u USING (a)", None),
        ("SELECT * FROM unknown", None),
        ("SELECT * FROM t LATERAL VIEW explode(b) e AS x", None),
        ("SELECT other.* FROM t", None),
    ],
)
def test_columns_of_a_query(text: str, names: tuple[str | None, ...] | None) -> None:
    assert list_query_columns(sqlglot.parse_one(text, read="spark"), TABLES.get) == names
