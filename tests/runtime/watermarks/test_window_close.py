"""Views that emit on window close hold the rows that are final, whatever comes when, and let go of what is behind them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.errors import TidelineError, Unavailable, UnsupportedSql
from engine.hummock import Commit, Hummock, Version
from engine.session import Session
from tests.long_rest import mark_rest_long
from tests.oracle.batch import content
from tests.runtime.watermarks.worlds import VIEWS, World

SHORT = ("rows_", "hourly", "hops", "first_", "either")
ALONG = ("earliest", "earliest_each", "after", "shortly_before", "between_others", "with_before", "with_last")
SESSIONS = ("sessions", "sessions_and_rows")
LONG = [pytest.param(seed, 25, tuple(VIEWS), marks=pytest.mark.oracle) for seed in range(2, 5)]


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> Iterator[Session]:
    with Session((tmp_path / "store").as_uri(), spark, "postgres") as opened:
        yield opened


def _create(session: Session, *names: str, build: bool = True) -> None:
    for name in names:
        query = VIEWS[name][0]
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query} EMIT ON WINDOW CLOSE", build=build)


@pytest.mark.parametrize(
    ("seed", "steps", "names"),
    [(1, 3, SHORT), (8, 3, SESSIONS), pytest.param(7, 3, ALONG, marks=pytest.mark.long), *LONG],
)
def test_views_hold_what_is_closed_after_random_steps(
    lake: Session, seed: int, steps: int, names: tuple[str, ...]
) -> None:
    world = World(lake, random.Random(seed))
    world.create()
    half = len(names) // 2
    _create(lake, *names[:half], build=False)
    for step in range(steps):
        world.step()
        if step == steps // 2:
            _create(
                lake, *names[half:], build=False
            )  # over rows that are there, and a watermark that has moved
        if world.chance.random() < 0.6 or step == steps - 1:
            lake.flush().raise_for_errors()
            there = names if step >= steps // 2 else names[:half]
            world.check(there, f"seed {seed}, step {step}")


def _numbers(session: Session, query: str) -> list[int]:
    table = session.sql(query)
    assert table is not None
    return sorted(table.column(0).to_pylist())


def _at(clock: str) -> str:
    return f"TIMESTAMP '2024-03-01 {clock}:00'"


def _table(session: Session, options: str = "") -> None:
    session.sql(
        "CREATE TABLE t (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '30 minutes') APPEND ONLY"
        + options
    )


def _insert(session: Session, *rows: tuple[int, str]) -> None:
    session.sql("INSERT INTO t VALUES " + ", ".join(f"({n}, {_at(clock)})" for n, clock in rows))


HOURS = "SELECT window_start AS w, count(*) AS n FROM TUMBLE(t, ts, INTERVAL '1 hour') GROUP BY window_start"


def test_a_row_is_shown_once_the_watermark_has_passed_it_and_not_at_it(lake: Session) -> None:
    _table(lake)
    lake.sql("CREATE MATERIALIZED VIEW v AS SELECT id, ts FROM t EMIT ON WINDOW CLOSE")
    _insert(lake, (1, "12:00"), (2, "12:30"))  # the watermark stands at 12:00
    lake.sql("FLUSH")
    assert _numbers(lake, "SELECT id FROM v") == []
    _insert(lake, (3, "12:31"))
    lake.sql("FLUSH")
    assert _numbers(lake, "SELECT id FROM v") == [1]


def test_the_view_is_append_only_and_carries_the_watermark_on(lake: Session) -> None:
    _table(lake)
    lake.sql(f"CREATE MATERIALIZED VIEW hours AS {HOURS} EMIT ON WINDOW CLOSE")
    assert lake.catalog.get("hours").append_only
    lake.sql(
        "CREATE MATERIALIZED VIEW days AS SELECT date_trunc('day', w) AS d, sum(n) AS n FROM hours "
        "GROUP BY date_trunc('day', w) EMIT ON WINDOW CLOSE"
    )
    _insert(lake, (1, "12:00"), (2, "12:10"), (3, "23:50"))
    lake.sql("FLUSH")
    assert _numbers(lake, "SELECT n FROM hours") == [2]
    assert _numbers(lake, "SELECT n FROM days") == []
    lake.sql("INSERT INTO t VALUES (4, TIMESTAMP '2024-03-02 01:30:00')")
    lake.sql("FLUSH")
    assert _numbers(lake, "SELECT n FROM hours") == [1, 2]
    assert _numbers(lake, "SELECT n FROM days") == [3]


def test_a_view_without_the_clause_follows_every_change_and_carries_the_watermark(lake: Session) -> None:
    _table(lake)
    lake.sql("CREATE MATERIALIZED VIEW near AS SELECT id, ts FROM t WHERE id < 10")
    lake.sql("CREATE MATERIALIZED VIEW v AS SELECT id, ts FROM near EMIT ON WINDOW CLOSE")
    _insert(lake, (1, "12:00"), (11, "13:00"))
    lake.sql("FLUSH")
    assert _numbers(lake, "SELECT id FROM near") == [1]
    assert _numbers(lake, "SELECT id FROM v") == [1]


@pytest.mark.long
def test_states_let_go_of_what_is_closed_and_the_view_keeps_it(lake: Session) -> None:
    _table(lake)
    lake.sql(f"CREATE MATERIALIZED VIEW hours AS {HOURS} EMIT ON WINDOW CLOSE")
    for hour in range(6):
        _insert(lake, (hour, f"{hour + 10}:00"), (hour, f"{hour + 10}:40"))
        lake.sql("FLUSH")
    states = [name for name in lake.store.refresh().tables if name.startswith("_state_hours")]
    assert len(states) == 2
    for name in states:
        there = sum(batch.num_rows for batch in lake.store.iter(name))
        assert there == 1, name  # the window that is open
        lake.store.compact(name)
        assert sum(sst.rows for sst in lake.store.refresh().tables[name].live_ssts) == 1
    assert _numbers(lake, "SELECT n FROM hours") == [2] * 5


def test_an_older_epoch_of_the_view_is_as_it_was(lake: Session) -> None:
    _table(lake)
    lake.sql(f"CREATE MATERIALIZED VIEW hours AS {HOURS} EMIT ON WINDOW CLOSE")
    _insert(lake, (1, "12:00"), (2, "13:40"))
    lake.sql("FLUSH")
    then = lake.store.refresh().epoch
    _insert(lake, (3, "16:00"))
    lake.sql("FLUSH")
    assert _numbers(lake, "SELECT n FROM hours") == [1, 1]
    assert _numbers(lake, f"SELECT n FROM hours FOR SYSTEM_TIME AS OF {then}") == [1]


def test_a_column_that_is_added_changes_nothing(lake: Session) -> None:
    _table(lake)
    lake.sql(f"CREATE MATERIALIZED VIEW hours AS {HOURS} EMIT ON WINDOW CLOSE")
    _insert(lake, (1, "12:00"))
    lake.sql("FLUSH")
    lake.sql("ALTER TABLE t ADD COLUMN note TEXT")
    lake.sql(f"INSERT INTO t VALUES (2, {_at('12:20')}, 'a'), (3, {_at('14:00')}, 'b')")
    lake.sql("FLUSH")
    assert _numbers(lake, "SELECT n FROM hours") == [2]


def test_a_table_that_is_made_again_begins_anew(lake: Session) -> None:
    for _ in range(2):
        _table(lake)
        lake.sql(f"CREATE MATERIALIZED VIEW hours AS {HOURS} EMIT ON WINDOW CLOSE")
        _insert(lake, (1, "12:00"), (2, "13:40"))
        lake.sql("FLUSH")
        assert _numbers(lake, "SELECT n FROM hours") == [1]
        lake.sql("DROP TABLE t CASCADE")
        assert [name for name in lake.store.refresh().tables if not name.startswith("_dead")] == []


def test_a_table_that_views_read_is_renamed_with_its_watermark(lake: Session) -> None:
    _table(lake)
    lake.sql(f"CREATE MATERIALIZED VIEW hours AS {HOURS} EMIT ON WINDOW CLOSE")
    _insert(lake, (1, "12:00"))
    lake.sql("FLUSH")
    lake.sql("ALTER TABLE t RENAME TO u")
    lake.sql(f"INSERT INTO u VALUES (2, {_at('12:10')}), (3, {_at('13:40')})")
    lake.sql("FLUSH")
    assert _numbers(lake, "SELECT n FROM hours") == [2]
    assert [source for one in lake.catalog.get("hours").carried for source, _ in one.sources] == ["u"]


def test_rows_of_a_temporal_join_close_with_their_left_side(lake: Session) -> None:
    _table(lake)
    lake.sql("CREATE TABLE dim (id INT PRIMARY KEY, name TEXT)")
    lake.sql("INSERT INTO dim VALUES (1, 'a'), (2, 'b')")
    lake.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT t.ts, t.id, d.name FROM t "
        "LEFT JOIN dim FOR SYSTEM_TIME AS OF PROCTIME() AS d ON t.id = d.id EMIT ON WINDOW CLOSE"
    )
    _insert(lake, (1, "12:00"), (3, "12:01"))
    lake.sql("FLUSH")
    lake.sql("UPDATE dim SET name = 'c'")
    _insert(lake, (2, "12:45"))
    lake.sql("FLUSH")
    answer = lake.sql("SELECT id, name FROM v ORDER BY id")
    assert answer is not None and answer.to_pylist() == [{"id": 1, "name": "a"}, {"id": 3, "name": None}]


@pytest.mark.parametrize("follow_up", [False, True])
def test_a_view_that_is_built_in_steps_holds_what_is_closed(
    lake: Session, monkeypatch: pytest.MonkeyPatch, follow_up: bool
) -> None:
    _table(lake)
    minutes = [(n, f"{10 + n // 60:02}:{n % 60:02}") for n in range(300)]
    _insert(lake, *minutes)  # up to 14:59, the watermark stands at 14:29
    lake._runner.backfill.least_rows = 5
    for module in ("engine.runtime.backfill.run", "engine.operators.context"):
        monkeypatch.setattr(f"{module}.SMALL_CHANGE_ROWS", 40)
    lake.sql(f"CREATE MATERIALIZED VIEW hours AS {HOURS} EMIT ON WINDOW CLOSE", build=False)
    lake.sql("CREATE MATERIALIZED VIEW v AS SELECT id, ts FROM t EMIT ON WINDOW CLOSE", build=False)
    if follow_up:
        lake.flush(background_seconds=0)
        _insert(lake, (300, "14:59"), (301, "15:45"))
    lake.flush().raise_for_errors()
    assert _numbers(lake, "SELECT n FROM hours") == ([60, 60, 60, 60, 61] if follow_up else [60] * 4)
    assert len(_numbers(lake, "SELECT id FROM v")) == (301 if follow_up else 269)


def test_a_lost_commit_of_the_view_is_made_again(lake: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    _table(lake)
    lake.sql(f"CREATE MATERIALIZED VIEW hours AS {HOURS} EMIT ON WINDOW CLOSE")
    _insert(lake, (1, "12:00"))
    lake.sql("FLUSH")
    _insert(lake, (2, "12:20"), (3, "13:40"))
    commit, lost = Hummock.commit, []

    def failing(store: Hummock, given: Commit) -> Version:
        if given.watermarks and not lost:
            lost.append(True)
            raise Unavailable("the object store does not answer")
        return commit(store, given)

    monkeypatch.setattr(Hummock, "commit", failing)
    assert lake.flush().failed
    assert _numbers(lake, "SELECT n FROM hours") == []
    lake.flush().raise_for_errors()
    assert lost and _numbers(lake, "SELECT n FROM hours") == [2]


@pytest.mark.parametrize("cut", mark_rest_long([(("t", "_watermark_t"),), (("t",),), (("_watermark_t",),)]))
def test_a_view_that_cannot_follow_the_log_loses_and_doubles_no_closed_row(
    lake: Session, cut: tuple[str, ...]
) -> None:
    _table(lake)
    lake.sql(f"CREATE MATERIALIZED VIEW hours AS {HOURS} EMIT ON WINDOW CLOSE")
    _insert(lake, (1, "12:00"), (2, "13:40"))
    lake.sql("FLUSH")
    _insert(lake, (3, "13:50"), (4, "15:10"))
    lake.sql("FLUSH")
    lake.pause("hours")
    for name in cut:
        lake.store.alter_table(name, retention_seconds=0.001)
    _insert(lake, (5, "15:20"), (6, "17:00"))
    lake.flush()
    for name in cut:
        lake.store.compact(name)
    for name in lake.store.refresh().tables:
        if name.startswith("_state_hours"):  # what is closed is not even in the files any more
            lake.store.compact(name)
    lake.store.gc(grace_seconds=0)
    lake.resume("hours")
    report = lake.flush()
    report.raise_for_errors()
    assert "could not follow" in str(report["hours"].rebuilt)
    assert _numbers(lake, "SELECT n FROM hours") == [1, 2, 2]
    _insert(lake, (7, "17:10"), (8, "19:00"))
    lake.sql("FLUSH")
    assert _numbers(lake, "SELECT n FROM hours") == [1, 2, 2, 2]


def test_a_large_insert_is_held_against_the_watermark_as_well(
    lake: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELINE_DRIVER_ROWS_MB", "0")
    _table(lake, " WITH (late_rows = 'keep')")
    _insert(lake, (1, "12:00"))
    lake.sql("CREATE TABLE s (id INT PRIMARY KEY)")
    lake.sql("INSERT INTO s VALUES (1), (2), (3), (4)")
    lake.sql(f"INSERT INTO t SELECT id, {_at('11:00')} + id * INTERVAL '15 minutes' FROM s")
    assert "1 rows were below" in lake.notices[0]  # 11:15; the watermark stood at 11:30
    assert _numbers(lake, "SELECT id FROM t") == [1, 2, 3, 4]
    assert _numbers(lake, "SELECT line FROM _dead_letter") == [1]
    lake.sql(f"INSERT INTO t SELECT id, {_at('13:00')} FROM s")
    assert lake.notices == ()
    (row,) = content(lake, "_watermark_t").to_pylist()
    assert (str(row["watermark"]), row["late_rows"]) == ("2024-03-01 12:30:00", 1)


@pytest.mark.parametrize(
    ("query", "message", "hint"),
    [
        ("SELECT count(*) AS n FROM t", "no column of GROUP BY", "GROUP BY window_start"),
        ("SELECT id, count(*) AS n FROM t GROUP BY id", "no column of GROUP BY", "GROUP BY window_start"),
        ("SELECT id FROM t", "no column of the query", "show the time"),
        ("SELECT ts, id FROM plain", "no column of the query", "WATERMARK FOR ts"),
        ("SELECT t.ts, t.id FROM t JOIN plain ON t.id = plain.id", "the join's equalities", "of both sides"),
        (
            "SELECT ts, id FROM t ORDER BY id LIMIT 3",
            "no column of PARTITION BY",
            "PARTITION BY window_start",
        ),
        (
            "SELECT ts, id FROM t ORDER BY ts DESC LIMIT 3",
            "no first column of ORDER BY, ascending",
            "ORDER BY ts",
        ),
        ("SELECT ts, id FROM t ORDER BY ts NULLS FIRST LIMIT 3", "with NULLS LAST", "ORDER BY ts"),
        (
            "SELECT id, count(*) OVER (ORDER BY id SESSION WITH GAP 5) AS c FROM t",
            "order of the sessions",
            "column of the watermark",
        ),
        (
            "SELECT count(*) OVER (PARTITION BY id ORDER BY ts SESSION WITH GAP '1 hour') AS c, "
            "count(*) OVER (ORDER BY ts) AS r FROM t",
            "through other rows",
            "a view of its own",
        ),
        (
            "SELECT ts, sum(id) OVER (PARTITION BY id) AS s FROM t",
            "no order or partition",
            "ORDER BY the column",
        ),
        (
            "SELECT ts, sum(id) OVER (ORDER BY ts ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS s FROM t",
            "never closes",
            "CURRENT ROW",
        ),
        ("SELECT ts, id FROM t UNION ALL SELECT ts, id FROM plain", "every branch", "all with watermarks"),
    ],
)
def test_a_query_that_never_closes_is_refused_with_place_and_remedy(
    lake: Session, query: str, message: str, hint: str
) -> None:
    _table(lake)
    lake.sql("CREATE TABLE plain (id INT PRIMARY KEY, ts TIMESTAMP)")
    text = f"CREATE MATERIALIZED VIEW v AS {query}\nEMIT ON WINDOW CLOSE"
    with pytest.raises(UnsupportedSql) as caught:
        lake.sql(text)
    assert message in caught.value.message and hint in caught.value.hint
    assert (caught.value.line, caught.value.column) == (2, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("refresh_policy = 'full'", "computes all rows again"),
        ("rules = 'reference'", "whole states"),
        ("partition_by = 'w'", "one bound, which moves"),
    ],
)
def test_options_that_do_not_go_with_it_are_refused(lake: Session, options: str, message: str) -> None:
    _table(lake)
    with pytest.raises(TidelineError, match=message):
        lake.sql(f"CREATE MATERIALIZED VIEW v WITH ({options}) AS {HOURS} EMIT ON WINDOW CLOSE")


def test_gaps_are_filled_between_rows_that_are_closed(lake: Session) -> None:
    _table(lake)
    lake.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT ts, id FROM GAP_FILL(t, ts, INTERVAL '10 minutes', LOCF(id)) "
        "EMIT ON WINDOW CLOSE"
    )
    _insert(lake, (1, "12:00"), (2, "12:30"), (3, "13:00"))
    lake.sql("FLUSH")
    assert _numbers(lake, "SELECT id FROM v") == [1]
    _insert(lake, (4, "13:10"))
    lake.sql("FLUSH")
    assert _numbers(lake, "SELECT id FROM v") == [1, 1, 1, 2]


@pytest.mark.long
def test_gaps_of_partitions_are_filled_between_closed_rows_of_each(lake: Session) -> None:
    lake.sql(
        "CREATE TABLE p (a INT, b TEXT, ts TIMESTAMP, v INT, WATERMARK FOR ts AS ts - INTERVAL '5 minutes') APPEND ONLY"
    )
    lake.sql(
        "CREATE MATERIALIZED VIEW g AS SELECT a, b, ts, v FROM "
        "GAP_FILL(p, ts, INTERVAL '10 minutes', LOCF(v), PARTITION_BY(a, b)) EMIT ON WINDOW CLOSE"
    )
    lake.sql(
        f"INSERT INTO p VALUES (1, 'x', {_at('12:00')}, 1), (1, 'y', {_at('12:10')}, 2), (1, 'x', {_at('12:30')}, 3)"
    )
    lake.sql("FLUSH")
    assert _numbers(lake, "SELECT v FROM g") == [1, 2]
    lake.sql(f"INSERT INTO p VALUES (1, 'y', {_at('12:40')}, 4), (2, 'x', {_at('13:00')}, 5)")
    lake.sql("FLUSH")
    assert _numbers(lake, "SELECT v FROM g") == [1, 1, 1, 2, 2, 2, 3, 4]
    assert _numbers(lake, "SELECT v FROM g WHERE b = 'y'") == [2, 2, 2, 4]


@pytest.mark.long
def test_a_session_closes_once_the_watermark_is_the_gap_behind_its_last_row(lake: Session) -> None:
    _table(lake)
    lake.sql(
        "CREATE MATERIALIZED VIEW v EMIT ON WINDOW CLOSE AS SELECT id, count(*) OVER (PARTITION BY id % 10 ORDER BY ts "
        "SESSION WITH GAP '10 minutes') AS n FROM t"
    )
    _insert(lake, (1, "10:00"), (11, "10:03"), (2, "10:42"))  # the watermark stands at 10:12
    lake.sql("FLUSH")
    assert _numbers(lake, "SELECT n FROM v") == []
    _insert(lake, (3, "10:43"))
    lake.sql("FLUSH")
    assert _numbers(lake, "SELECT n FROM v") == [2, 2]
    _insert(lake, (21, "10:13"), (4, "13:00"))
    lake.sql("FLUSH")
    assert _numbers(lake, "SELECT n FROM v") == [1, 1, 1, 2, 2]


def test_a_view_of_pairs_carries_the_watermark_of_both_sides(lake: Session) -> None:
    _table(lake)
    lake.sql("CREATE TABLE u (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY")
    lake.sql(
        "CREATE MATERIALIZED VIEW pairs AS SELECT t.id, u.id AS other, t.ts AS a, u.ts AS b FROM t, u "
        "WHERE t.id = u.id AND t.ts >= u.ts"
    )
    lake.sql("CREATE MATERIALIZED VIEW v AS SELECT * FROM pairs EMIT ON WINDOW CLOSE")
    _insert(lake, (1, "12:00"), (2, "14:00"))
    lake.sql(f"INSERT INTO u VALUES (1, {_at('11:50')})")
    lake.sql("FLUSH")
    assert _numbers(lake, "SELECT id FROM v") == []
    lake.sql(f"INSERT INTO u VALUES (1, {_at('11:55')}), (3, {_at('12:01')})")
    lake.sql("FLUSH")
    assert _numbers(lake, "SELECT id FROM v") == [1, 1]


def test_windows_of_years_that_python_has_not_close_as_others_do(lake: Session) -> None:
    _table(lake)
    lake.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT date_trunc('month', ts) AS m, count(*) AS n FROM t "
        "GROUP BY date_trunc('month', ts) EMIT ON WINDOW CLOSE"
    )
    for ts in (
        "TIMESTAMP '0001-01-01 00:00:00'",
        "TIMESTAMP '9999-12-31 12:00:00'",
        "TIMESTAMP '9999-12-31' + INTERVAL '40 days'",
    ):
        lake.sql(f"INSERT INTO t VALUES (1, {ts})")
        lake.flush().raise_for_errors()
    assert _numbers(lake, "SELECT n FROM v") == [1, 1]
    answer = lake.sql("SHOW WATERMARKS")
    assert answer is not None and "+10000-02-08 23:30:00" in answer.column(2).to_pylist()
    lake.status()
