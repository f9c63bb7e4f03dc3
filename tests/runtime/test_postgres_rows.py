"""What gives rows as people type it in PostgreSQL: VALUES, generate_series, subqueries without a name; asked, kept and inserted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.errors import InvalidRow, SqlError
from engine.session import Session
from tests.long_rest import mark_rest_long

QUERIES = (
    ("SELECT a FROM generate_series(0, 3) t(a)", [(0,), (1,), (2,), (3,)]),
    ("SELECT generate_series FROM generate_series(1, 2)", [(1,), (2,)]),
    ("SELECT g FROM generate_series(5, 1, -2) AS g", [(5,), (3,), (1,)]),
    ("SELECT g.a FROM generate_series(5, 1) AS g(a)", []),
    ("SELECT t.v, g.a FROM t, generate_series(1, t.v) AS g(a)", [(1, 1), (2, 1), (2, 2)]),
    ("SELECT t.v, g.a FROM t CROSS JOIN LATERAL generate_series(1, t.v) AS g(a)", [(1, 1), (2, 1), (2, 2)]),
    ("SELECT generate_series(1, v) AS g, v FROM t", [(1, 1), (1, 2), (2, 2)]),
    ("VALUES (1, 'a'), ('2', NULL)", [(1, "a"), (2, None)]),
    ("SELECT sum(column1) FROM (VALUES (1), ('5'))", [(6,)]),
    ("SELECT v FROM t WHERE v IN (VALUES (2), (3))", [(2,)]),
    ("SELECT x.k, v FROM (VALUES (1, 10), (2, 20)) AS x(k, w) JOIN t ON v = k", [(1, 1), (2, 2)]),
    ("SELECT v FROM t UNION ALL VALUES (7)", [(1,), (2,), (7,)]),
    ("WITH x AS (VALUES (1), (2)) SELECT column1 FROM x WHERE column1 > '1'", [(2,)]),
    ("SELECT n FROM (SELECT count(*) AS n FROM t)", [(2,)]),
    ("SELECT a, b FROM (SELECT v AS a FROM t), (SELECT v AS b FROM t) WHERE a < b", [(1, 2)]),
    ("SELECT v FROM t WHERE v = '2'", [(2,)]),
    ("SELECT v, x FROM t, unnest(ARRAY[v, 9]) AS x WHERE v = 1", [(1, 1), (1, 9)]),
    ("SELECT v + '5' FROM t WHERE d > '0.5'", [(6,), (7,)]),
    (
        "SELECT v, unnest(ARRAY[1, 2, 3]) AS x, generate_series(1, v / 1) AS y FROM t WHERE v = 2",
        [(2, 1, 1), (2, 2, 2), (2, 3, None)],
    ),
    (
        "SELECT generate_series(1, 3) + v AS x, unnest(CAST(NULL AS INT[])) AS y FROM t WHERE v = 1",
        [(2, None), (3, None), (4, None)],
    ),
    ("SELECT generate_series(1, 3, 2) AS x, unnest(ARRAY['p']) AS y", [(1, "p"), (3, None)]),
    (
        "SELECT *, unnest(ARRAY[1]) AS x, unnest(ARRAY[2, 3]) AS y FROM (SELECT v FROM t) q WHERE v = 1",
        [(1, 1, 2), (1, None, 3)],
    ),
    (
        "SELECT x.p, x.q FROM t CROSS JOIN LATERAL unnest(ARRAY[v], CAST(NULL AS INT[])) AS x(p, q)",
        [(1, None), (2, None)],
    ),
    (
        "SELECT v, x, o FROM t, unnest(ARRAY[v, 9]) WITH ORDINALITY AS u(x, o)",
        [(1, 1, 1), (1, 9, 2), (2, 2, 1), (2, 9, 2)],
    ),
    (
        "SELECT v, x, o FROM t LEFT JOIN unnest(CASE WHEN v = 2 THEN ARRAY[7, 8] END) WITH ORDINALITY AS u(x, o) ON true",
        [(1, None, None), (2, 7, 1), (2, 8, 2)],
    ),
    (
        "SELECT x, y, o FROM t, unnest(ARRAY[v], ARRAY[5, 6]) WITH ORDINALITY AS u(x, y, o) WHERE v = 1",
        [(1, 5, 1), (None, 6, 2)],
    ),
    ("SELECT v, g FROM t LEFT JOIN LATERAL generate_series(2, v) AS g ON true", [(1, None), (2, 2)]),
    ("SELECT v, x FROM t JOIN unnest(ARRAY[1, v]) AS u(x) ON x > 1", [(2, 2)]),
    (
        "SELECT a.v, x, b.v AS w FROM t a CROSS JOIN unnest(ARRAY[a.v]) AS u(x) RIGHT JOIN t b ON b.v = a.v + 1",
        [(1, 1, 2), (None, None, 1)],
    ),
    ("SELECT unnest(ARRAY[1, v]) AS x, count(*) AS n FROM t GROUP BY 1", [(1, 3), (2, 1)]),
)


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Session]:
    folder: Path = tmp_path_factory.mktemp("rows")
    with Session(folder.as_uri(), spark, "postgres") as s:
        s.sql("CREATE TABLE t (v INT, d NUMERIC(10, 2))")
        s.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
        yield s


def bag(session: Session, text: str) -> Counter[tuple[object, ...]]:
    found = session.sql(text)
    assert found is not None
    return Counter(tuple(row.values()) for row in found.to_pylist())


@pytest.mark.parametrize(("query", "expected"), mark_rest_long(QUERIES, keep=12))
def test_a_query_and_a_view_of_it_give_the_rows(
    postgres: Session, query: str, expected: list[object]
) -> None:
    assert bag(postgres, query) == Counter(expected)
    postgres.sql(f"CREATE MATERIALIZED VIEW view_of_it AS {query}")
    try:
        assert bag(postgres, "SELECT * FROM view_of_it") == Counter(expected)
    finally:
        postgres.sql("DROP MATERIALIZED VIEW view_of_it")


def test_an_unnest_that_is_asked_keeps_the_condition_of_its_join(postgres: Session) -> None:
    query = "SELECT v, x FROM t LEFT JOIN unnest(ARRAY[1, v]) AS u(x) ON x > 1"
    assert bag(postgres, query) == Counter([(1, None), (2, 2)])


@pytest.mark.parametrize(
    "query",
    [
        "SELECT v, unnest(ARRAY[1, v]) AS x, row_number() OVER (ORDER BY v) AS n FROM t",
        "SELECT unnest(ARRAY[v]) AS x, unnest(ARRAY[d]) AS y, sum(v) OVER () AS n FROM t",
        "SELECT unnest(ARRAY[v]) AS x, unnest(ARRAY[d]) AS y, count(*) FROM t GROUP BY 1",
    ],
)
def test_what_would_count_rows_after_they_are_unnested_is_refused(postgres: Session, query: str) -> None:
    with pytest.raises(SqlError, match="a function that gives rows beside"):
        postgres.sql(query)


def test_a_number_whose_type_is_not_certain_is_not_shown_as_a_moment(postgres: Session) -> None:
    with pytest.raises(SqlError, match="to_char of a value whose type is not certain"):
        postgres.sql("SELECT to_char(x, '99') FROM generate_series(1, 3) AS x")
    assert bag(postgres, "SELECT to_char(x::int, '99') FROM generate_series(1, 2) AS x") == Counter(
        [("  1",), ("  2",)]
    )


def test_series_and_values_are_inserted(postgres: Session) -> None:
    postgres.sql("CREATE TABLE filled (id INT PRIMARY KEY, name VARCHAR)")
    postgres.sql("INSERT INTO filled SELECT a, 'n' || a FROM generate_series(1, 3) t(a)")
    postgres.sql("INSERT INTO filled SELECT * FROM (VALUES (4, 'x'), ('5', 'y'))")
    assert bag(postgres, "SELECT count(*), sum(id) FROM filled") == Counter([(5, 15)])


def test_values_in_quotes_become_those_of_the_column(postgres: Session) -> None:
    postgres.sql("CREATE TABLE typed (i INT, b BIGINT, n NUMERIC(6, 2), f DOUBLE PRECISION, t BOOLEAN)")
    postgres.sql("INSERT INTO typed VALUES ('5', '-6', '7.25', '1e3', 't'), (1, 2, 3, 4, false)")
    found = postgres.sql("SELECT i, b, n, t FROM typed WHERE f > '100'")
    assert found is not None
    assert [str(value) for value in found.to_pylist()[0].values()] == ["5", "-6", "7.25", "True"]


@pytest.mark.parametrize("value", ["'x'", "'5.5'", "'99999999999'"])
def test_a_value_in_quotes_that_is_none_of_the_column_is_refused(postgres: Session, value: str) -> None:
    postgres.sql("CREATE TABLE IF NOT EXISTS whole (i INT)")
    with pytest.raises((SqlError, InvalidRow)):
        postgres.sql(f"INSERT INTO whole VALUES ({value})")
    assert bag(postgres, "SELECT * FROM whole") == Counter()


@pytest.mark.parametrize("dialect", ["spark", "postgres", "risingwave"])
def test_percentiles_that_are_asked_are_those_that_are_kept(
    tmp_path: Path, spark: SparkSession, dialect: str
) -> None:
    with Session((tmp_path / "s").as_uri(), spark, dialect) as s:  # type: ignore[arg-type]
        s.sql("CREATE TABLE n (x DOUBLE PRECISION)" if dialect != "spark" else "CREATE TABLE n (x DOUBLE)")
        s.sql("INSERT INTO n VALUES (0), (1), (2), (10), (NULL)")
        query = "SELECT percentile_cont(0.25) WITHIN GROUP (ORDER BY x) AS c, percentile_disc(0.5) WITHIN GROUP (ORDER BY x DESC) AS d FROM n"
        s.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert bag(s, query) == bag(s, "SELECT * FROM v") == Counter([(0.75, 2.0)])


def test_an_approximate_percentile_is_the_middle_of_a_bucket(tmp_path: Path, spark: SparkSession) -> None:
    with Session((tmp_path / "s").as_uri(), spark, "risingwave") as s:
        s.sql("CREATE TABLE n (x DOUBLE PRECISION)")
        s.sql("INSERT INTO n SELECT a FROM generate_series(-100, 100) t(a)")
        query = "SELECT approx_percentile({}, 0.1) WITHIN GROUP (ORDER BY x) AS p FROM n"
        factor = 1.1 / 0.9
        for fraction, value in ((0.5, 0), (0.75, 50), (0.0, -100)):
            found = s.sql(query.format(fraction))
            assert found is not None
            got = found.to_pylist()[0]["p"]
            assert abs(got - value) <= 0.1 * abs(value)
            border = math.log(abs(got) * (factor + 1) / 2, factor) if got else 0
            assert abs(border - round(border)) < 1e-6
        s.sql(f"CREATE MATERIALIZED VIEW v AS {query.format(0.75)}")
        assert bag(s, "SELECT * FROM v") == bag(s, query.format(0.75))
        s.sql("DELETE FROM n WHERE x > 50")
        s.flush().raise_for_errors()
        assert bag(s, "SELECT * FROM v") == bag(s, query.format(0.75))
        with pytest.raises(SqlError, match="no relative error"):
            s.sql(f"CREATE MATERIALIZED VIEW w AS {query.format(0.75).replace('0.1', '2')}")
