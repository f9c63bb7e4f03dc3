"""In which partitions of a view rows have changed: those whose rows came, went, or changed in any column."""

from __future__ import annotations

from engine.session import Session
from engine.sql.incremental.partitions import NULL_KEY


def test_partitions_change_with_any_column_of_their_rows(session: Session) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, day STRING, a BIGINT)")
    session.sql("INSERT INTO t VALUES (1, 'mon', 1), (2, 'tue', 1), (3, 'wed', 1), (4, 'thu', 1)")
    session.sql(
        "CREATE MATERIALIZED VIEW v WITH (partition_by = 'day') AS SELECT day, sum(a) AS s FROM t GROUP BY day"
    )
    built = session.status()[-1].committed_epoch
    assert session.changed_partitions("v", None) == ("mon", "thu", "tue", "wed")
    assert session.changed_partitions("v", built) == ()
    session.sql("UPDATE t SET a = 2 WHERE id = 1")
    session.sql("DELETE FROM t WHERE id = 2")
    session.sql("UPDATE t SET day = 'fri' WHERE id = 3")
    session.sql("FLUSH")
    assert session.changed_partitions("v", built) == ("fri", "mon", "tue", "wed")
    assert [p.partition for p in session.partitions("v")] == ["fri", "mon", "thu"]


def test_partitions_of_years_that_python_has_not_are_named_as_spark_writes_them(session: Session) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, day DATE, a BIGINT)")
    session.sql("INSERT INTO t VALUES (1, DATE'+12921-08-18', 1), (2, DATE'2020-01-31', 1), (3, NULL, 1)")
    session.sql(
        "CREATE MATERIALIZED VIEW v WITH (partition_by = 'day') AS SELECT day, sum(a) AS s FROM t GROUP BY day"
    )
    named = {"+12921-08-18", "2020-01-31", NULL_KEY}
    assert set(session.changed_partitions("v", None)) == named
    assert {p.partition for p in session.partitions("v")} == named
