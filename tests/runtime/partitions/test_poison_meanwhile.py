"""Rows that begin to fail while partitions are computed again: they leave their own partitions behind, and stop nobody."""

from __future__ import annotations

import pytest

from engine.runtime.domains.partition_run import PartitionRun
from engine.session import Session
from tests.oracle.batch import assert_equal, content


@pytest.mark.long
def test_a_row_that_fails_in_another_partition_while_one_is_computed_again_is_that_ones_alone(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, day BIGINT, a BIGINT)")
    session.sql("INSERT INTO t VALUES (1, 1, 5), (2, 2, 5), (3, 3, 5)")
    session.sql(
        "CREATE MATERIALIZED VIEW v WITH (partition_by = 'day') AS SELECT id, day, 100 DIV a AS q FROM t"
    )
    session.sql("UPDATE t SET a = 0 WHERE id = 1")
    assert list(session.flush()["v"].quarantined) == ["1"]
    session.sql("UPDATE t SET a = 10 WHERE id = 1")
    again, statements = PartitionRun._recompute, ["UPDATE t SET a = 0 WHERE id = 2"]

    def with_news(*given):  # type: ignore[no-untyped-def]
        if statements:
            session.sql(statements.pop())
        return again(*given)

    monkeypatch.setattr(PartitionRun, "_recompute", with_news)
    report = session.flush()["v"]
    assert report.error is None and not statements
    session.sql("INSERT INTO t VALUES (4, 3, 20)")
    report = session.flush()["v"]
    assert report.error is None and list(report.quarantined) == ["2"]
    rows = session.sql("SELECT id, q FROM v ORDER BY id", policy="latest")
    assert rows is not None and [tuple(row.values()) for row in rows.to_pylist()] == [
        (1, 10),
        (2, 20),
        (3, 20),
        (4, 5),
    ]
    session.sql("UPDATE t SET a = 50 WHERE id = 2")
    session.flush().raise_for_errors()
    assert_equal(content(session, "v"), session.sql("SELECT id, day, 100 DIV a AS q FROM t"), "mended")
