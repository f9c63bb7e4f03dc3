"""An argument that is left out has Spark's default, in a query as in a view, and one that is given is not lost."""

from __future__ import annotations

import pytest

from engine.errors import SqlError, UnsupportedSql
from engine.session import Session

ROWS = "VALUES (1, 'ab-cd', 1000D), (2, 'xy zz', 8D), (3, NULL, 1e15D)"
AGGREGATES = (
    "listagg(s) WITHIN GROUP (ORDER BY id)",
    "listagg(s, ';') WITHIN GROUP (ORDER BY id DESC)",
    "string_agg(DISTINCT s) WITHIN GROUP (ORDER BY s)",
)
CALLS = (
    "floor(log10(d))",
    "log2(d)",
    "log(10, d)",
    "initcap(s)",
    "regexp_extract(s, '(.)[ -](.)', 1)",
    "regexp_extract(s, '(.)[ -](.)', 2)",
    "regexp_extract_all(s, '(.)', 1)",
)


@pytest.mark.parametrize("calls", [AGGREGATES, CALLS], ids=["aggregates", "calls"])
def test_defaults_are_those_of_spark(session: Session, calls: tuple[str, ...]) -> None:
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, s STRING, d DOUBLE)")
    session.sql(f"INSERT INTO t {ROWS}")
    shown = ", ".join(f"{call} AS c{n}" for n, call in enumerate(calls))
    session.sql(f"CREATE MATERIALIZED VIEW v AS SELECT {shown} FROM t")
    wanted = session.spark.sql(f"SELECT {shown} FROM ({ROWS} AS t(id, s, d)) AS t").toArrow().to_pylist()
    for text in ("SELECT * FROM v", f"SELECT {shown} FROM t"):
        found = session.sql(text)
        assert found is not None
        assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, wanted))


def test_frequencies_of_a_percentile_are_not_lost(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, x INT, w INT)")
    session.sql("INSERT INTO t VALUES (1, 1, 1), (2, 2, 1), (3, 3, 100)")
    found = session.sql("SELECT percentile(x, 0.5, w + 1) AS p FROM t")
    assert found is not None and found.to_pylist() == [{"p": 3.0}]
    for call in ("percentile(x, 0.5, w)", "percentile(DISTINCT x, 0.5)", "mode(DISTINCT x)"):
        with pytest.raises(UnsupportedSql):
            session.sql(f"CREATE MATERIALIZED VIEW v AS SELECT {call} AS p FROM t")


def test_a_call_with_a_wrong_number_of_arguments_is_told(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, s STRING)")
    for text in ("SELECT {} FROM t", "CREATE MATERIALIZED VIEW v AS SELECT id, {} AS r FROM t"):
        for call in ("regexp_replace(s, 'a')", "max(id, 2)", "min(id, id)"):
            with pytest.raises(SqlError):
                session.sql(text.replace("id, {}", "{}").format(call))
