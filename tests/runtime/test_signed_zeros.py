"""Joins on DOUBLE and FLOAT: -0.0 meets 0.0, and a row keeps the sign that it was written with, however often it is looked up."""

from __future__ import annotations

from collections import Counter

import pytest

from engine.session import Session

VIEWS = {
    "inner": "SELECT a.id AS a, b.id AS b, a.x, CAST(b.x AS STRING) AS text, b.n FROM t a JOIN t b ON a.x = b.x",
    "outer": "SELECT a.id, a.x, u.id AS u, u.y FROM t a LEFT JOIN u ON a.x = u.y AND a.n <> u.id",
    "linear": "SELECT id, x, CAST(x AS STRING) AS text, 1.5D * x AS y FROM t",
    "plain": "SELECT id, x FROM t WHERE n > 0",
    "folded": "SELECT n, max(CAST(x AS STRING)) AS text, count(*) AS c FROM t GROUP BY n",
    "folded_once": "SELECT n, id, CAST(min_by(x, id) AS STRING) AS text, CAST(max_by(x, -id) AS STRING) AS t2, CAST(sum(x) AS STRING) AS s FROM t GROUP BY n, id",
    "chosen": "SELECT n, CAST(min_by(x, id) AS STRING) AS a, CAST(max_by(x, id) AS STRING) AS b FROM t GROUP BY n",
    "chosen_beside": "SELECT n, count(*) AS c, sum(id) AS s, CAST(min_by(x, id) FILTER (WHERE id > 1) AS STRING) AS a, "
    "max_by(CAST(x AS FLOAT), id) AS b FROM t WHERE x IS NULL OR id <> 3 GROUP BY n",
    "nested": "SELECT id, ws, CAST(ws[0].x AS STRING) AS text FROM w",
    "all": "SELECT id, CAST(x AS STRING) AS text FROM t UNION ALL SELECT id, CAST(y AS STRING) FROM u",
    "ranked": "SELECT id, text FROM (SELECT id, CAST(x AS STRING) AS text, row_number() OVER (PARTITION BY n ORDER BY id) AS r "
    "FROM t) WHERE r < 3",
    "among": "SELECT id, CAST(x AS STRING) AS text, n FROM t WHERE x IN (SELECT y FROM u)",
}
CHANGES = (
    "INSERT INTO t VALUES (1, 0.0D, 1), (2, -0.0D, 1), (3, 1.5D, 1), (4, NULL, 1), (5, CAST('NaN' AS DOUBLE), 1)",
    "INSERT INTO u VALUES (1, CAST(0 AS FLOAT)), (2, -CAST(0 AS FLOAT)), (3, CAST('NaN' AS FLOAT))",
    "INSERT INTO w SELECT id, array(named_struct('x', x)) FROM t",
    "UPDATE t SET x = -0.0D WHERE id = 3",
    "UPDATE w SET ws = array(named_struct('x', -0.0D)) WHERE id < 3",
    "UPDATE t SET x = 0.0D WHERE id = 2",
    "UPDATE t SET x = -0.0D WHERE id = 1",
    "UPDATE t SET n = n + 1",
    "UPDATE t SET x = -0.0D WHERE id = 2",
    "UPDATE u SET y = CAST(0 AS FLOAT) WHERE id = 2",
    "DELETE FROM t WHERE id = 2",
)


USUAL = ("nested",)


@pytest.mark.parametrize(
    "view", [name if name in USUAL else pytest.param(name, marks=pytest.mark.long) for name in VIEWS]
)
def test_a_view_that_joins_on_zeros_of_both_signs_equals_its_query(session: Session, view: str) -> None:
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, x DOUBLE, n INT)")
    session.sql("CREATE TABLE u (id INT PRIMARY KEY, y FLOAT)")
    session.sql("CREATE TABLE w (id INT PRIMARY KEY, ws ARRAY<STRUCT<x: DOUBLE>>)")
    session.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS[view]}")
    for change in CHANGES:
        session.sql(change)
        assert [report.error for report in session.flush().views] == [None], change
        assert shown(session, "SELECT * FROM v") == shown(session, VIEWS[view]), change


def test_extremes_show_a_zero_without_its_sign(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, x DOUBLE)")
    session.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT CAST(max(x) AS STRING) AS most, CAST(min(x) AS STRING) AS least FROM t"
    )
    for value in ("-0.0D", "0.0D", "-0.0D"):
        session.sql("DELETE FROM t")
        session.sql(f"INSERT INTO t VALUES (1, {value})")
        session.flush()
        assert shown(session, "SELECT * FROM v") == {"('0.0', '0.0')": 1}


def shown(session: Session, query: str) -> Counter[str]:
    """Return the rows of a query as texts, in which -0.0 is another than 0.0."""
    found = session.sql(query)
    assert found is not None
    return Counter(repr(tuple(row.values())) for row in found.to_pylist())
