"""`_rw_timestamp`: when a row was written, which a query may name though `*` does not show it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from engine.errors import SqlError
from engine.session import Session


def rows(session: Session, query: str) -> list[tuple[Any, ...]]:
    found = session.sql(query)
    assert found is not None
    return [tuple(row.values()) for row in found.to_pylist()]


def test_rows_are_told_apart_by_when_they_were_written(session: Session) -> None:
    session.sql("CREATE TABLE t (k INT PRIMARY KEY, v INT)")
    session.sql("INSERT INTO t VALUES (2, 1), (1, 1)")
    first = session.store.version.epoch
    session.sql("CREATE MATERIALIZED VIEW m AS SELECT k, v FROM t WHERE v > 0")
    session.flush().raise_for_errors()
    session.sql("INSERT INTO t VALUES (3, 1)")
    session.sql("UPDATE t SET v = 2 WHERE k = 1")
    session.flush().raise_for_errors()
    orders = {
        "t": [(2, 1), (3, 1), (1, 2)],
        "m": [(2, 1), (1, 2), (3, 1)],
    }  # a run writes what came to the view at once
    for name, order in orders.items():
        assert rows(session, f"SELECT * FROM {name} ORDER BY _rw_timestamp") == order
        assert rows(session, f"SELECT * FROM {name} ORDER BY _rw_timestamp DESC LIMIT 1") == [(1, 2)]
    ((at, other),) = rows(session, "SELECT _rw_timestamp, x._rw_timestamp AS o FROM t AS x WHERE k = 2")
    assert isinstance(at, datetime) and at == other
    assert int(at.timestamp() * 1000) == (first >> 16) + 1_617_235_200_000
    joined = "SELECT t.k FROM t JOIN m ON t.k = m.k WHERE t._rw_timestamp <= m._rw_timestamp ORDER BY t.k"
    assert rows(session, joined) == [(1,), (2,), (3,)]


def test_what_was_written_together_is_in_the_order_of_its_key(session: Session) -> None:
    session.sql("CREATE TABLE t (k INT PRIMARY KEY, v INT)")
    session.sql("INSERT INTO t SELECT id, 0 FROM range(20, 0, -1)")
    session.sql("INSERT INTO t VALUES (0, 1)")
    expected = [*range(1, 21), 0]
    assert [k for k, _ in rows(session, "SELECT * FROM t ORDER BY _rw_timestamp")] == expected
    session.store.compact("t")
    assert [k for k, _ in rows(session, "SELECT * FROM t ORDER BY _rw_timestamp")] == [0, *range(1, 21)]


def test_a_view_that_is_kept_does_not_know_it(session: Session) -> None:
    session.sql("CREATE TABLE t (k INT PRIMARY KEY, v INT)")
    with pytest.raises(SqlError, match="_rw_timestamp") as caught:
        session.sql("CREATE MATERIALIZED VIEW m AS SELECT k, _rw_timestamp AS at FROM t")
    assert caught.value.line == 1 and "query that is answered once" in caught.value.hint
