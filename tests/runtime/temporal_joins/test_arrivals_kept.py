"""What a temporal join keeps stays: through changes of the right side, failures on the way and lost history; and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.errors import UnsupportedSql
from engine.runtime.domains.domain_run import DomainRun
from engine.session import Session
from tests.runtime.temporal_joins.worlds import AS_OF

JOINED = f"SELECT s.id, v.x FROM s LEFT JOIN v {AS_OF} ON s.k = v.id"


@pytest.fixture
def tables(session: Session) -> Session:
    session.sql("CREATE TABLE s (id INT PRIMARY KEY, k INT)")
    session.sql("CREATE TABLE v (id INT PRIMARY KEY, x INT)")
    session.sql("INSERT INTO v VALUES (1, 10), (2, 20)")
    session.sql(f"CREATE MATERIALIZED VIEW j AS {JOINED}")
    return session


def rows(session: Session, query: str = "SELECT * FROM j") -> list[tuple[Any, ...]]:
    found = session.sql(query)
    assert found is not None
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)


def alternating(session: Session, times: int) -> list[tuple[Any, ...]]:
    """Let rows come on the left and change on the right by turns; return what the view has to be."""
    for n in range(times):
        session.sql(f"INSERT INTO s VALUES ({n}, 1)")
        session.sql(f"UPDATE v SET x = {n} WHERE id = 1")
    return sorted([(0, 10), *((n, n - 1) for n in range(1, times))], key=repr)


def test_a_change_of_the_right_side_alone_reads_and_writes_no_row(tables: Session) -> None:
    tables.sql("INSERT INTO s VALUES (1, 1)")
    tables.flush().raise_for_errors()
    tables.sql("UPDATE v SET x = 11 WHERE id = 1")
    tables.sql("DELETE FROM v WHERE id = 2")
    report = tables.flush()
    assert (report["j"].inserted, report["j"].updated, report["j"].deleted) == (0, 0, 0)
    assert rows(tables) == [(1, 10)] and tables.lagging() == ()


def test_a_row_that_changes_is_joined_anew_and_one_that_goes_takes_all_that_it_found(tables: Session) -> None:
    tables.sql(
        f"CREATE MATERIALIZED VIEW m AS SELECT s.id, v.id AS vid, v.x FROM s JOIN v {AS_OF} ON v.id > s.k"
    )
    tables.sql("INSERT INTO s VALUES (1, 0), (2, 0)")
    tables.flush().raise_for_errors()
    tables.sql("UPDATE v SET x = 21 WHERE id = 2")
    tables.sql("UPDATE s SET k = 1 WHERE id = 1")
    tables.flush().raise_for_errors()
    assert rows(tables, "SELECT * FROM m") == [(1, 2, 21), (2, 1, 10), (2, 2, 20)]
    tables.sql("DELETE FROM v")
    tables.sql("DELETE FROM s WHERE id = 2")
    report = tables.flush()
    assert report["m"].deleted == 2 and rows(tables, "SELECT * FROM m") == [(1, 2, 21)]


@pytest.mark.long
def test_a_run_stops_where_rows_came_before_the_right_side_changed_and_its_plan_says_so(
    tables: Session,
) -> None:
    tables.flush().raise_for_errors()
    expected = alternating(tables, 24)
    planned = tables.explain_flush()["j"].steps
    assert [step.work for step in planned] == [
        "epoch"
    ] * 25  # the last is what has changed on the right since then
    tables.flush().raise_for_errors()
    assert rows(tables) == expected


def test_rows_that_come_one_after_the_other_while_the_right_side_rests_are_one_range(tables: Session) -> None:
    tables.flush().raise_for_errors()
    for n in range(5):
        tables.sql(f"INSERT INTO s VALUES ({n}, 1)")
    assert len(tables.explain_flush()["j"].steps) == 1
    tables.sql("UPDATE v SET x = 12 WHERE id = 1")
    tables.sql("INSERT INTO s VALUES (5, 1)")
    assert len(tables.explain_flush()["j"].steps) == 2
    tables.flush().raise_for_errors()
    assert rows(tables) == [*((n, 10) for n in range(5)), (5, 12)]


def test_what_is_read_at_arrival_is_read_as_it_is_now_by_a_query_that_is_answered_once(
    tables: Session,
) -> None:
    tables.sql("INSERT INTO s VALUES (1, 1)")
    tables.flush().raise_for_errors()
    tables.sql("UPDATE v SET x = 11 WHERE id = 1")
    assert rows(tables) == [(1, 10)]
    assert rows(tables, JOINED) == [(1, 11)]
    assert rows(tables, f"SELECT v.x FROM v {AS_OF} WHERE v.id = 2") == [(20,)]


@pytest.mark.parametrize("commits", range(4))
def test_a_run_that_breaks_off_between_two_stops_is_gone_on_with(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, commits: int
) -> None:
    url, done, commit = (tmp_path / "store").as_uri(), [0], DomainRun.commit

    def breaks(self: DomainRun, *args: Any, **named: Any) -> Any:
        if done[0] == commits:
            raise ConnectionError("the machine is gone")
        done[0] += 1
        return commit(self, *args, **named)

    with Session(url, spark) as session:
        session.sql("CREATE TABLE s (id INT PRIMARY KEY, k INT)")
        session.sql("CREATE TABLE v (id INT PRIMARY KEY, x INT)")
        session.sql("INSERT INTO v VALUES (1, 10), (2, 20)")
        session.sql(f"CREATE MATERIALIZED VIEW j AS {JOINED}")
        session.flush().raise_for_errors()
        expected = alternating(session, 4)
        monkeypatch.setattr(DomainRun, "commit", breaks)
        assert session.flush().failed
    monkeypatch.undo()
    with Session(url, spark) as session:
        session.flush().raise_for_errors()
        assert rows(session) == expected


def test_a_view_whose_history_was_let_go_says_that_it_cannot_be_computed_again_and_keeps_its_rows(
    tables: Session,
) -> None:
    tables.sql("INSERT INTO s VALUES (1, 1)")
    tables.flush().raise_for_errors()
    tables.store.alter_table("s", retention_seconds=0.001)
    tables.pause("j")
    tables.sql("INSERT INTO s VALUES (2, 2)")
    tables.sql("UPDATE v SET x = 11 WHERE id = 1")
    tables.flush()
    tables.store.compact("s")
    tables.store.gc(grace_seconds=0)
    tables.resume("j")
    (failed,) = tables.flush().failed
    assert "cannot be computed again" in str(failed.error) and "DROP" in str(failed.error)
    assert rows(tables) == [(1, 10)]
    tables.sql("DROP MATERIALIZED VIEW j")
    tables.sql(f"CREATE MATERIALIZED VIEW j AS {JOINED}")
    tables.flush().raise_for_errors()
    assert rows(tables) == [(1, 11), (2, 20)]


def test_a_view_that_is_built_in_the_background_joins_what_stands_with_what_stands(tables: Session) -> None:
    tables.write("s", pa.table({"id": range(100), "k": [n % 3 for n in range(100)]}))
    tables.sql(f"CREATE MATERIALIZED VIEW b WITH (background = true, backfill_rate_limit = 20) AS {JOINED}")
    tables.flush().raise_for_errors()
    assert rows(tables, "SELECT * FROM b") == sorted(
        ((n, {1: 10, 2: 20}.get(n % 3)) for n in range(100)), key=repr
    )


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ("partition_by = 'id'", "could compute again"),
        ("refresh_policy = 'full'", "leave refresh_policy out"),
    ],
)
def test_what_would_have_to_be_computed_again_is_refused(tables: Session, options: str, word: str) -> None:
    with pytest.raises(UnsupportedSql, match=word):
        tables.sql(f"CREATE MATERIALIZED VIEW p WITH ({options}) AS {JOINED}")


@pytest.mark.parametrize(
    "joined", ["s JOIN f {} ON f.id = s.k", "f JOIN s {} ON f.id = s.k", "s JOIN g {} ON g.n = s.k"]
)
def test_a_side_that_follows_the_clock_is_refused(tables: Session, joined: str) -> None:
    tables.sql("CREATE TABLE e (id INT PRIMARY KEY, ts TIMESTAMP)")
    tables.sql("CREATE MATERIALIZED VIEW f AS SELECT id FROM e WHERE ts > now() - INTERVAL '1' HOUR")
    tables.sql("CREATE MATERIALIZED VIEW g AS SELECT count(*) AS n FROM f")
    with pytest.raises(UnsupportedSql, match=r"its rows come and go with now\(\)") as raised:
        tables.sql(f"CREATE MATERIALIZED VIEW p AS SELECT s.id FROM {joined.format(AS_OF)}")
    assert raised.value.line == 1
    tables.sql(f"CREATE MATERIALIZED VIEW p AS SELECT id FROM ({JOINED}) AS q WHERE id IN (SELECT id FROM f)")
