"""Views at the edges of what queries say: after rows came and went they hold what Spark and DuckDB give for the query at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.session import Session
from tests.long_rest import mark_rest_long
from tests.oracle.batch import assert_equal, by_duckdb, content
from tests.sql.rewrites.test_chains import THRICE

CHAIN = "".join(f", a{n} AS (SELECT id, {THRICE.format(n=n)} AS x FROM a{n - 1})" for n in range(1, 15))
BRANCHES = " ".join(f"WHEN k = {n} THEN 'v{n}'" for n in range(300))
EITHER = " OR ".join(f"k = {n}" for n in range(0, 900, 3))
# name -> query that PostgreSQL, DuckDB and Spark take
BOTH = {
    "chain": f"WITH a0 AS (SELECT id, k AS x FROM t){CHAIN} SELECT id, x FROM a14",
    "branches": f"SELECT id, CASE {BRANCHES} ELSE 'none' END AS c FROM t",
    "either": f"SELECT id FROM t WHERE {EITHER}",
    "doubles": "SELECT x.c1, x.c4 FROM (SELECT * FROM t JOIN u ON t.k = u.id) AS x (c1, c2, c3, c4, c5, c6, c7, c8)",
    "exists": "SELECT id FROM t WHERE EXISTS (SELECT * FROM u JOIN u w ON w.id = u.k WHERE u.id = t.k)",
    "rollup": "SELECT k, s, count(*) AS n, sum(id) AS i FROM t GROUP BY ROLLUP (k, s)",
    "sets": "SELECT k, count(*) AS n FROM t GROUP BY GROUPING SETS ((k), ())",
    "whole": "SELECT count(*) AS n, max(k) AS m FROM t GROUP BY GROUPING SETS (())",
}
POSTGRES = {
    "asked": "SELECT id, (SELECT k FROM u WHERE u.s = t.s) AS x FROM t WHERE k < 3",
    "wholes": "SELECT coalesce(s, 'all') AS s, count(*) AS n FROM t GROUP BY CUBE (s) HAVING count(*) < 100",
    "twice": "SELECT k, count(*) AS n FROM t GROUP BY GROUPING SETS ((), (k), ())",
    "some": "SELECT n FROM (SELECT s, count(*) AS n FROM t GROUP BY ROLLUP (s) ORDER BY n DESC LIMIT 1) AS x",
}
SPARK = {
    "aliased": "SELECT id, coalesce(k, 0) AS m, m + 1 AS n, n * m AS o FROM t",
    "grouped": "SELECT s, sum(k) AS a, count(*) AS n, a / n AS r FROM t GROUP BY s",
    "moments": "SELECT id, timestampdiff(HOUR, at, timestampadd(MINUTE, k * 50, at)) AS h, datediff(DAY, at, now) AS d "
    "FROM (SELECT *, timestampadd(MONTH, 1, at) AS now FROM t)",
    "units": "SELECT datediff(HOUR, TIMESTAMP '2024-01-01', at) AS h, count(*) AS n FROM t GROUP BY 1",
    "met": "SELECT t.id, u.id AS other FROM t JOIN u ON u.k = datediff(DAY, TIMESTAMP '2024-01-01', t.at)",
    "unpivot": "SELECT name, v, s FROM t UNPIVOT (v FOR name IN (id AS one, K))",
    "unpivot_of_two": "SELECT * FROM (SELECT id, k, k * 2 AS l, k + 1L AS m FROM t) "
    "UNPIVOT INCLUDE NULLS ((v, w) FOR name IN ((k, m) AS a, (l, m)))",
    "unpivot_of_types": "SELECT * FROM (SELECT id, k, k + 1L AS m FROM t) UNPIVOT (v FOR name IN (k, m)) AS u WHERE v > 1",
    "keyed": "SELECT id, map(0, 'zero', 1, 'one')[k] AS w FROM t",
}
NOTHING = {"spark": {"rollup": 0, "sets": 0, "whole": 1}, "postgres": {"rollup": 1, "sets": 1, "whole": 1}}
AT = "TIMESTAMP '2024-01-31 13:14:15'"
STEPS = (
    f"INSERT INTO t VALUES (1, 1, 'a', {AT}), (2, 4, 'b', {AT}), (3, NULL, 'a', NULL), (4, 0, NULL, {AT})",
    f"INSERT INTO u VALUES (1, 30, 'a', {AT}), (2, 2, NULL, {AT}), (3, 3, NULL, {AT}), (4, 4, 'c', {AT}), (5, 5, 'c', {AT})",
    f"INSERT INTO t VALUES (5, 1, 'x', {AT}), (6, 2, 'x', {AT}), (7, 1, NULL, {AT})",
    "DELETE FROM t WHERE id <> 5",
    "DELETE FROM t",
)


SHORT = {
    "postgres": ("branches", "rollup", "twice", "asked", "exists", "whole"),
    "spark": ("aliased", "units", "met", "unpivot_of_two", "sets", "whole"),
}
ALL = {"postgres": (*BOTH, *POSTGRES), "spark": (*BOTH, *SPARK)}


@pytest.mark.parametrize(
    ("dialect", "names", "steps"),
    [
        *mark_rest_long((dialect, names, (*STEPS[:2], STEPS[-1])) for dialect, names in SHORT.items()),
        *(pytest.param(dialect, names, STEPS, marks=pytest.mark.long) for dialect, names in ALL.items()),
    ],
)
def test_views_hold_what_their_queries_give(
    tmp_path: Path, spark: SparkSession, dialect: str, names: tuple[str, ...], steps: tuple[str, ...]
) -> None:
    queries = {name: {**BOTH, **POSTGRES, **SPARK}[name] for name in names}
    with Session((tmp_path / "store").as_uri(), spark, dialect) as session:  # type: ignore[arg-type]
        for name in ("t", "u"):
            session.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, k INT, s VARCHAR(9), at TIMESTAMP)")
        for name, query in queries.items():
            session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}", build=False)
        session.flush().raise_for_errors()
        for name, rows in NOTHING[dialect].items():
            assert name not in queries or content(session, name).num_rows == rows, name
        for step in steps:
            session.sql(step)
            session.flush().raise_for_errors()
            now = {name: content(session, name) for name in ("t", "u")}
            for name, query in queries.items():
                view = content(session, name)
                of_nothing = (
                    dialect == "spark" and not now["t"].num_rows
                )  # of which DuckDB has PostgreSQL's row
                if name not in SPARK and not of_nothing:
                    assert_equal(view, by_duckdb(now, query), f"DuckDB, {name}, after {step}")
                if name in SPARK or step is steps[-1] or steps is STEPS:
                    once = session.sql(query)
                    assert once is not None
                    assert_equal(view, once, f"{dialect}, {name}, after {step}")


@pytest.mark.long
def test_a_second_row_of_a_scalar_subquery_is_an_error_of_who_asks(
    tmp_path: Path, spark: SparkSession
) -> None:
    query = "SELECT t.id, (SELECT u.v FROM u WHERE u.k = t.k) AS x FROM t"
    with Session((tmp_path / "store").as_uri(), spark, "postgres") as session:  # type: ignore[arg-type]
        session.sql("CREATE TABLE t (id INT PRIMARY KEY, k INT)")
        session.sql("CREATE TABLE u (id INT PRIMARY KEY, k INT, v INT)")
        session.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        session.sql("CREATE MATERIALIZED VIEW one AS SELECT id, (SELECT v FROM u) AS x FROM t", build=False)
        session.sql("INSERT INTO u VALUES (1, 1, 10), (2, 9, 8), (3, 9, 9), (4, NULL, 1), (5, NULL, 2)")
        session.flush().raise_for_errors()  # nobody asks: t is empty
        session.sql("INSERT INTO t VALUES (1, 1), (2, NULL), (3, 7)")
        assert [view.view for view in session.flush().failed] == ["one"]
        assert sorted(content(session, "v").to_pylist(), key=str) == [
            {"id": 1, "x": 10}, {"id": 2, "x": None}, {"id": 3, "x": None}
        ]  # fmt: skip
        session.sql("INSERT INTO t VALUES (4, 9)")
        errors = {view.view: str(view.error) for view in session.flush().failed}
        assert "more than one row returned by a subquery" in errors["v"]
        session.sql("DELETE FROM u WHERE id = 2 OR k IS NULL")
        assert [view.view for view in session.flush().failed] == ["one"]
        assert {"id": 4, "x": 9} in content(session, "v").to_pylist()
        session.sql("DELETE FROM u WHERE id = 1")
        session.flush().raise_for_errors()
        assert set(content(session, "one").column("x").to_pylist()) == {9}
        for name, text in (("v", query), ("one", "SELECT id, (SELECT v FROM u) AS x FROM t")):
            now = {table: content(session, table) for table in ("t", "u")}
            assert_equal(content(session, name), by_duckdb(now, text), name)


@pytest.mark.parametrize("dialect", ["postgres", "spark"])
def test_a_list_of_names_makes_equal_names_good(tmp_path: Path, spark: SparkSession, dialect: str) -> None:
    with Session((tmp_path / "store").as_uri(), spark, dialect) as session:  # type: ignore[arg-type]
        for name in ("t", "u"):
            session.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, k INT)")
            session.sql(f"INSERT INTO {name} VALUES (1, 2)")
        joined = "SELECT * FROM t JOIN u ON t.id = u.id"
        session.sql(f"CREATE VIEW p (a, b, c, d) AS {joined}")
        session.sql(f"CREATE MATERIALIZED VIEW v (a, b, c, d) AS {joined}")
        session.sql(f"CREATE MATERIALIZED VIEW w (a, b, c, d) WITH (refresh_policy = 'full') AS {joined}")
        session.sql("CREATE MATERIALIZED VIEW x AS SELECT a, d FROM p")
        wanted = [{"a": 1, "b": 2, "c": 1, "d": 2}]
        for name in ("p", "v", "w"):
            assert content(session, name).to_pylist() == wanted, name
            described = session.sql(f"DESCRIBE {name}")
            assert described is not None and described.column("column").to_pylist() == ["a", "b", "c", "d"]
        assert content(session, "x").to_pylist() == [{"a": 1, "d": 2}]
        explained = session.sql(f"EXPLAIN CREATE MATERIALIZED VIEW y (a, b, c, d) AS {joined}")
        assert explained is not None and explained.num_rows


def test_the_brackets_of_a_map_hold_a_key(tmp_path: Path, spark: SparkSession) -> None:
    query = "SELECT id, m[1] AS one, m[id] AS mine, m[id + 1] AS next, n['a'] AS a, l[1] AS first, l[id] AS at FROM t"
    with Session((tmp_path / "store").as_uri(), spark) as session:
        session.sql("CREATE TABLE t (id INT PRIMARY KEY, m MAP<INT, INT>, n MAP<STRING, INT>, l ARRAY<INT>)")
        session.sql("INSERT INTO t VALUES (1, map(0, 100, 1, 101, 2, 102), map('a', 5), array(7, 8))")
        wanted = {"id": 1, "one": 101, "mine": 101, "next": 102, "a": 5, "first": 7, "at": 7}
        for dialect in ("postgres", "risingwave", "spark"):
            session.sql(f"SET dialect = {dialect}")
            if dialect == "spark":
                wanted |= {"first": 8, "at": 8}  # where the places of arrays begin with 0
            session.sql(f"CREATE MATERIALIZED VIEW {dialect} AS {query}")
            for rows in (content(session, dialect), session.sql(query)):
                assert rows is not None and rows.to_pylist() == [wanted]
        session.sql("SET dialect = postgres")
        once = session.sql("SELECT l[$1] AS a, m[$1] AS b FROM t", [1])
        assert once is not None and once.to_pylist() == [{"a": 7, "b": 101}]
        session.sql("CREATE FUNCTION nth(l INT[], n INT) RETURNS INT LANGUAGE SQL RETURN l[n] + l[1] * 0")
        once = session.sql("SELECT nth(l, 2) AS a FROM t")
        assert once is not None and once.to_pylist() == [{"a": 8}]
