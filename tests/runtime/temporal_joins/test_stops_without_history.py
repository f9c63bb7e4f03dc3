"""A temporal join that lags behind what others have let go of stops where it should all the same, or says that it cannot."""

from __future__ import annotations

from typing import Any

import pytest

from engine.session import Session
from tests.runtime.temporal_joins.worlds import AS_OF


def rows(session: Session, query: str = "SELECT * FROM j") -> list[tuple[Any, ...]]:
    found = session.sql(query)
    assert found is not None
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)


@pytest.fixture
def lagging(session: Session) -> Session:
    """A join of a table with a view, and a left row between each two changes of the right side, of which the join has none."""
    session.sql("CREATE TABLE s (id INT PRIMARY KEY, k INT)")
    session.sql("CREATE TABLE r (id INT PRIMARY KEY, x INT)")
    session.sql("INSERT INTO r VALUES (1, 10)")
    session.sql("CREATE MATERIALIZED VIEW v AS SELECT id, x * 2 AS x FROM r")
    session.sql(f"CREATE MATERIALIZED VIEW j AS SELECT s.id, v.x FROM s LEFT JOIN v {AS_OF} ON s.k = v.id")
    session.flush().raise_for_errors()
    session.pause("j")
    return session


def _by_turns(session: Session) -> list[tuple[int, int]]:
    for n in range(3):
        session.sql(f"INSERT INTO s VALUES ({n}, 1)")
        session.flush()
        session.sql(f"UPDATE r SET x = {n} WHERE id = 1")
        session.flush()
    return [(0, 20), (1, 0), (2, 2)]


def test_a_join_that_lags_behind_the_history_of_what_its_inputs_read_stops_all_the_same(
    lagging: Session,
) -> None:
    expected = _by_turns(lagging)
    lagging.store.alter_table("r", retention_seconds=0.001)
    lagging.sql("INSERT INTO r VALUES (9, 9)")
    lagging.flush()
    lagging.store.compact("r")
    lagging.store.gc(grace_seconds=0)
    lagging.resume("j")
    lagging.flush().raise_for_errors()
    assert rows(lagging) == expected


def test_a_join_whose_input_was_brought_past_a_stop_fails_and_says_why(
    lagging: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    lagging.sql("INSERT INTO s VALUES (0, 1)")
    lagging.sql("UPDATE r SET x = 0 WHERE id = 1")
    lagging.sql("INSERT INTO s VALUES (1, 1)")
    lagging.sql("UPDATE r SET x = 1 WHERE id = 1")
    with monkeypatch.context() as unaware:
        unaware.setattr("engine.meta.epochs.target_epoch.list_arrival_stops", lambda *_: [])
        lagging.flush(["v"])
    lagging.resume("j")
    (failed,) = lagging.flush().failed
    assert "was brought past" in str(failed.error) and "DROP" in str(failed.error)
    assert rows(lagging) == [(0, 20)]
