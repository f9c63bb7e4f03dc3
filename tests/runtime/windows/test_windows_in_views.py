"""What a view over windows writes, how it tells equal rows apart, and what it makes of values that compare oddly."""

from __future__ import annotations

from decimal import Decimal

import pytest

from engine.errors import SqlError
from engine.session import Session
from tests.session_rows import rows


def test_only_rows_of_touched_partitions_are_read_and_only_changed_ones_written(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, g INT, x INT)")
    values = ", ".join(f"({n}, {n % 100}, {n})" for n in range(1000))
    session.sql(f"INSERT INTO t VALUES {values}")
    session.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT id, sum(x) OVER (PARTITION BY g ORDER BY id) AS s FROM t"
    )
    session.sql(
        "CREATE MATERIALIZED VIEW w AS SELECT id FROM t QUALIFY rank() OVER (PARTITION BY g ORDER BY x) = 1"
    )
    session.flush().raise_for_errors()
    session.sql("UPDATE t SET x = x + 1 WHERE id = 907")  # the last but one of its ten
    report = session.flush()
    report.raise_for_errors()
    done = report["v"]
    assert (done.rule, done.inserted, done.updated, done.deleted) == ("window", 0, 1, 0)
    assert (report["w"].inserted, report["w"].updated, report["w"].deleted) == (0, 0, 0)
    session.sql("DELETE FROM t WHERE id IN (7, 803)")
    report = session.flush()
    assert (report["v"].updated, report["v"].deleted) == (10, 2)
    assert (report["w"].inserted, report["w"].deleted) == (1, 1)
    query = "SELECT id, sum(x) OVER (PARTITION BY g ORDER BY id) AS s FROM t"
    assert rows(session, "SELECT * FROM v") == rows(session, query)


def test_rows_that_tie_are_numbered_by_their_key_whatever_came_first(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, g INT, x INT)")
    session.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT id, row_number() OVER (PARTITION BY g ORDER BY x) AS n, lag(id) OVER "
        "(PARTITION BY g ORDER BY x) AS before, first_value(id) OVER (PARTITION BY g ORDER BY x) AS f, "
        "last_value(id) OVER (PARTITION BY g ORDER BY x) AS l, count(*) OVER (PARTITION BY g ORDER BY x) AS c FROM t"
    )
    for statement in ("(3, 1, 5), (1, 1, 5)", "(2, 1, 5), (4, 1, 6)"):
        session.sql(f"INSERT INTO t VALUES {statement}")
        session.flush().raise_for_errors()
    expected = [(1, 1, None, 1, 3, 3), (2, 2, 1, 1, 3, 3), (3, 3, 2, 1, 3, 3), (4, 4, 3, 1, 4, 4)]
    assert rows(session, "SELECT * FROM v") == expected
    session.sql("DELETE FROM t WHERE id = 1")
    session.sql("INSERT INTO t VALUES (1, 1, 5)")
    session.flush().raise_for_errors()
    assert rows(session, "SELECT * FROM v") == expected


@pytest.mark.long
def test_zeros_of_both_signs_are_one_partition_and_one_place_and_nan_is_the_last(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, x DOUBLE, f FLOAT)")
    session.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT id, count(*) OVER (PARTITION BY x) AS a, count(*) OVER (PARTITION BY f) AS b, "
        "rank() OVER (ORDER BY x) AS r, count(*) OVER (ORDER BY x RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS c FROM t"
    )
    nan, zero = "CAST('NaN' AS DOUBLE)", "CAST(0 AS FLOAT)"
    session.sql(f"INSERT INTO t VALUES (1, 0.0D, {zero}), (2, -0.0D, -{zero}), (3, {nan}, NULL)")
    session.flush().raise_for_errors()
    session.sql(
        f"INSERT INTO t VALUES (4, {nan}, -{zero}), (5, NULL, {zero}), (6, 0.5D, CAST('NaN' AS FLOAT))"
    )
    session.flush().raise_for_errors()
    found = rows(session, "SELECT * FROM v")
    assert found == [
        (1, 2, 4, 2, 2),
        (2, 2, 4, 2, 2),
        (3, 2, 1, 5, 2),
        (4, 2, 4, 5, 2),
        (5, 1, 4, 1, 1),
        (6, 1, 1, 4, 3),
    ]
    session.sql("DELETE FROM t WHERE id IN (2, 4)")
    session.flush().raise_for_errors()
    assert rows(session, "SELECT id, a, b FROM v") == [(1, 1, 2), (3, 1, 1), (5, 1, 2), (6, 1, 1)]


def test_nulls_stand_where_the_dialect_has_them(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, x INT)")
    session.sql("INSERT INTO t VALUES (1, NULL), (2, 1), (3, 2)")
    query = "SELECT id, rank() OVER (ORDER BY x) AS up, rank() OVER (ORDER BY x DESC) AS down FROM t"
    for dialect in ("spark", "postgres", "risingwave"):
        session.sql(f"SET dialect = {dialect}")
        session.sql(f"CREATE MATERIALIZED VIEW v_{dialect} AS {query}")
        session.flush().raise_for_errors()
        expected = (
            [(1, 1, 3), (2, 2, 2), (3, 3, 1)] if dialect == "spark" else [(1, 3, 1), (2, 1, 3), (3, 2, 2)]
        )
        assert rows(session, f"SELECT * FROM v_{dialect}") == rows(session, query) == expected


def test_wide_numbers_keep_all_digits(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, x BIGINT, d DECIMAL(38, 0))")
    session.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT id, count(*) OVER (ORDER BY x RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS c, "
        "max(d) OVER (ORDER BY id ROWS 1 PRECEDING) AS m FROM t"
    )
    most, wide = (1 << 63) - 1, 10**37 + 1
    session.sql(
        f"INSERT INTO t VALUES (1, {most}, {wide}BD), (2, {most - 1}, {wide - 1}BD), (3, -{most}, 3BD)"
    )
    session.flush().raise_for_errors()
    wides = [Decimal(wide), Decimal(wide), Decimal(wide - 1)]
    assert rows(session, "SELECT * FROM v") == [
        (n, c, m) for n, c, m in zip((1, 2, 3), (2, 2, 1), wides, strict=True)
    ]


@pytest.mark.long
def test_a_view_may_be_cut_by_what_its_windows_are_partitioned_by(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, g INT, x STRING)")
    session.sql("INSERT INTO t VALUES (1, 1, '5'), (2, 1, '7'), (3, 2, '1')")
    query = "SELECT id, g, sum(CAST(x AS INT)) OVER (PARTITION BY g ORDER BY id) AS s FROM t"
    session.sql(f"CREATE MATERIALIZED VIEW v WITH (partition_by = 'g') AS {query}")
    session.flush().raise_for_errors()
    session.sql("INSERT INTO t VALUES (4, 2, 'no number'), (5, 1, '2')")
    report = session.flush()
    assert list(report["v"].quarantined) == ["2"]
    assert rows(session, "SELECT * FROM v") == [(1, 1, 5), (2, 1, 12), (3, 2, 1), (5, 1, 14)]
    session.sql("DELETE FROM t WHERE id = 4")
    session.sql("INSERT INTO t VALUES (6, 2, '3')")
    session.flush().raise_for_quarantine()
    assert rows(session, "SELECT * FROM v") == [(1, 1, 5), (2, 1, 12), (3, 2, 1), (5, 1, 14), (6, 2, 4)]
    with pytest.raises(SqlError, match="the window: g is not among its PARTITION BY columns"):
        session.sql(
            "CREATE MATERIALIZED VIEW w WITH (partition_by = 'g') AS SELECT id, g, rank() OVER (ORDER BY x) AS r FROM t"
        )


def test_ties_of_the_last_row_are_kept(session: Session) -> None:
    session.sql("SET dialect = postgres")
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, x INT)")
    session.sql("CREATE MATERIALIZED VIEW v AS SELECT id FROM t ORDER BY x FETCH FIRST 2 ROWS WITH TIES")
    session.sql(
        "CREATE MATERIALIZED VIEW w AS SELECT id FROM t ORDER BY x DESC OFFSET 1 FETCH NEXT 1 ROWS WITH TIES"
    )
    session.sql("INSERT INTO t VALUES (1, 1), (2, 2), (3, 2), (4, 3), (5, NULL)")
    session.flush().raise_for_errors()
    assert rows(session, "SELECT * FROM v") == [(1,), (2,), (3,)]
    assert rows(session, "SELECT * FROM w") == [(4,)]
    session.sql("UPDATE t SET x = 3 WHERE id IN (1, 3)")
    session.flush().raise_for_errors()
    assert rows(session, "SELECT * FROM v") == [(1,), (2,), (3,), (4,)]
    assert rows(session, "SELECT * FROM w") == [(1,), (3,), (4,)]


def test_a_value_that_cannot_be_had_is_null_where_the_view_says_so(session: Session) -> None:
    session.sql("SET dialect = risingwave")
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, g INT, x VARCHAR)")
    session.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT id, sum(x::INT) OVER (PARTITION BY g ORDER BY id) AS s FROM t"
    )
    session.sql("INSERT INTO t VALUES (1, 1, '5'), (2, 1, 'none'), (3, 1, '7')")
    session.flush().raise_for_errors()
    assert rows(session, "SELECT * FROM v") == [(1, 5), (2, 5), (3, 12)]
