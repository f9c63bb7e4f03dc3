"""Joins of times near each other hold what DuckDB says of all rows, while their states let go of what nothing can meet."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

from engine.errors import EpochFailed
from engine.meta.epochs.staged_checkpoint import StagedCheckpoint
from engine.operators import context
from engine.runtime import executor
from engine.runtime.backfill import run as backfill_run
from engine.session import Session
from engine.sql.incremental.watermarks import ordered_joins
from tests.oracle.batch import assert_equal, by_duckdb, content
from tests.runtime.watermarks.worlds import World

NEAR = "t.ts BETWEEN u.ts - INTERVAL '20 minutes' AND u.ts + INTERVAL '40 minutes'"
VIEWS = {
    "near": f"SELECT t.id, u.id AS o, t.ts AS a FROM t JOIN u ON t.k = u.k AND {NEAR}",
    "kept": f"SELECT t.id, u.id AS o, t.n FROM t LEFT JOIN u ON t.k = u.k AND {NEAR}",
    "counted": f"SELECT t.k, count(*) AS c, max(u.n) AS m FROM t JOIN u ON t.k = u.k AND {NEAR} GROUP BY t.k",
    "kept_counted": f"SELECT t.id, count(u.id) AS c, count(*) AS r FROM t LEFT JOIN u ON t.k = u.k AND {NEAR} GROUP BY t.id",
    "every_pair": f"SELECT t.id, u.id AS o FROM t JOIN u ON {NEAR} AND t.n < u.n",
    "after": "SELECT t.id, u.id AS o FROM t JOIN u ON t.k = u.k AND t.ts >= u.ts - INTERVAL '10 minutes' AND t.n = u.n",
    "kept_after": "SELECT t.id, u.id AS o FROM t LEFT JOIN u ON t.k = u.k AND t.ts > u.ts AND t.n = u.n",
    "by_comma": "SELECT t.id, u.id AS o FROM t, u WHERE t.k = u.k AND t.ts <= u.ts AND t.ts >= u.ts - INTERVAL '1 hour'",
    "by_hour": (
        "SELECT t.id, u.id AS o, t.window_start AS w FROM TUMBLE(t, ts, INTERVAL '1 hour') t "
        "LEFT JOIN TUMBLE(u, ts, INTERVAL '1 hour') u ON t.k = u.k AND t.window_start = u.window_start"
    ),
    "of_three": f"SELECT t.id, u.id AS o, w.id AS p FROM t JOIN u ON t.k = u.k AND {NEAR} "
    "JOIN t AS w ON w.k = t.k AND w.ts BETWEEN t.ts - INTERVAL '10 minutes' AND t.ts + INTERVAL '10 minutes'",
}
JUDGES = {
    "by_hour": (
        "SELECT t.id, u.id AS o, date_trunc('hour', t.ts) AS w FROM t LEFT JOIN u "
        "ON t.k = u.k AND date_trunc('hour', t.ts) = date_trunc('hour', u.ts)"
    )
}
SHORT = ("near", "kept", "kept_counted", "by_hour")
LONG = [pytest.param(seed, 25, tuple(VIEWS), marks=pytest.mark.oracle) for seed in range(2, 6)]


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> Iterator[Session]:
    with Session((tmp_path / "store").as_uri(), spark, "postgres") as opened:
        yield opened


def states(session: Session, view: str) -> list[str]:
    """Return the states of a view that let go of rows."""
    fragments = session.stored.plans[view].fragments
    return [fragment.table for fragment in fragments if fragment.expiry is not None]


@pytest.mark.parametrize(("seed", "steps", "names"), [(1, 3, SHORT), *LONG])
def test_views_equal_duckdb_after_random_steps_crashes_and_compactions(
    lake: Session, monkeypatch: pytest.MonkeyPatch, seed: int, steps: int, names: tuple[str, ...]
) -> None:
    world, chance = World(lake, random.Random(seed)), random.Random(seed)
    world.create()
    half = len(names) // 2

    def create(some: tuple[str, ...]) -> None:
        for name in some:
            lake.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}", build=False)

    create(names[:half])
    for step in range(steps):
        world.step()
        if step == steps // 2:
            create(names[half:])
        made = names if step >= steps // 2 else names[:half]
        if chance.random() < 0.3:
            fails_once(lake, monkeypatch)
        if chance.random() < 0.6 or step == steps - 1:
            lake.flush().raise_for_errors()
            tables = world.tables()
            for name in made:
                label = f"seed {seed}, step {step}, view {name}"
                assert_equal(content(lake, name), by_duckdb(tables, JUDGES.get(name, VIEWS[name])), label)
        if chance.random() < 0.3:
            for state in {state for name in made for state in states(lake, name)}:
                if state in lake.store.refresh().tables:
                    lake.store.compact(state)


def fails_once(lake: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a run end before its commit: all it wrote is nobody's."""

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(StagedCheckpoint, "commit", fail)
        with contextlib.suppress(KeyboardInterrupt):
            lake.flush()


@pytest.mark.long
@pytest.mark.parametrize(
    "modules",
    [
        pytest.param((backfill_run,), id="looked up"),
        pytest.param((backfill_run, context, executor), id="as wholes"),
    ],
)
def test_a_view_that_is_built_step_by_step_finds_what_its_states_let_go_of_later(
    lake: Session, monkeypatch: pytest.MonkeyPatch, modules: tuple[ModuleType, ...]
) -> None:
    for module in modules:
        monkeypatch.setattr(module, "SMALL_CHANGE_ROWS", 2)
    lake._runner.backfill.least_rows = 10
    world = World(lake, random.Random(3))
    world.create()
    for _ in range(30):
        world.step()
    names = ("near", "kept")
    for name in names:
        lake.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}", build=False)
        lake._runner.backfill.get_pace(name).rows = 15
    for step in range(4):
        lake.flush().raise_for_errors()
        for name in names:
            label = f"step {step}, view {name}"
            assert_equal(content(lake, name), by_duckdb(world.tables(), VIEWS[name]), label)
        world.step()
    assert all(lake.backfills()[name].state == "created" for name in names)


# ---- what is let go, and what stays --------------------------------------------------------------------------------
def _tables(session: Session, options: str = "") -> None:
    for name in ("t", "u"):
        session.sql(
            f"CREATE TABLE {name} (id BIGINT, ts TIMESTAMP, k INT, n BIGINT, "
            f"WATERMARK FOR ts AS ts - INTERVAL '30 minutes') APPEND ONLY{options}"
        )


def _insert(session: Session, table: str, *rows: tuple[int, str]) -> None:
    values = ", ".join(f"({n}, TIMESTAMP '2024-03-01 {clock}:00', 1, {n})" for n, clock in rows)
    session.sql(f"INSERT INTO {table} VALUES {values}")


def _held(session: Session, view: str) -> int:
    """Return how many rows the files of a view's states hold once they are compacted."""
    for state in states(session, view):
        session.store.compact(state)
    tables = session.store.refresh().tables
    return sum(sst.rows for state in states(session, view) for sst in tables[state].live_ssts)


def _pairs(session: Session, view: str) -> list[tuple[int, int | None]]:
    return sorted(((row["id"], row["o"]) for row in content(session, view).to_pylist()), key=repr)


def test_each_side_lets_go_below_the_watermark_of_the_other_and_late_rows_still_meet(lake: Session) -> None:
    _tables(lake)
    lake.sql(f"CREATE MATERIALIZED VIEW near AS {VIEWS['near']}")
    _insert(lake, "t", (1, "12:00"), (2, "13:00"))
    _insert(lake, "u", (1, "12:10"), (2, "18:00"))  # the watermark of u stands at 17:30, that of t at 12:30
    lake.sql("FLUSH")
    assert _pairs(lake, "near") == [(1, 1)]
    assert _held(lake, "near") == 2  # those of u, as rows of t may come from 12:30 on
    _insert(lake, "u", (3, "17:40"))
    _insert(
        lake, "t", (3, "12:45"), (4, "17:50")
    )  # 3 comes below what t is still looked up from, but not late
    lake.sql("FLUSH")
    assert _pairs(lake, "near") == [(1, 1), (3, 1), (4, 2), (4, 3)]
    assert _held(lake, "near") == 3  # row 4 of t, and rows 2 and 3 of u


def test_a_left_row_whose_partner_can_come_no_more_keeps_its_row(lake: Session) -> None:
    _tables(lake)
    lake.sql(f"CREATE MATERIALIZED VIEW kept AS {VIEWS['kept'].replace('t.n', 't.ts AS at')}")
    _insert(lake, "t", (1, "12:00"), (2, "12:05"))
    _insert(lake, "u", (1, "12:02"))
    lake.sql("FLUSH")
    assert _pairs(lake, "kept") == [(1, 1), (2, 1)]
    _insert(lake, "t", (3, "20:00"))  # what u has at 12:02 stays: rows 1 and 2 are looked up yet
    lake.sql("FLUSH")
    _insert(lake, "u", (2, "12:10"))
    lake.sql("FLUSH")
    assert _pairs(lake, "kept") == [(1, 1), (1, 2), (2, 1), (2, 2), (3, None)]
    _insert(lake, "u", (3, "23:00"))
    lake.sql("FLUSH")
    assert _pairs(lake, "kept") == [(1, 1), (1, 2), (2, 1), (2, 2), (3, None)]
    assert _held(lake, "kept") == 1  # row 3 of u


def test_without_two_watermarks_or_where_partitions_may_be_computed_again_nothing_is_let_go(
    lake: Session,
) -> None:
    _tables(lake)
    lake.sql("CREATE TABLE plain (id BIGINT, ts TIMESTAMP, k INT) APPEND ONLY")
    lake.sql(
        "CREATE TABLE changes (id BIGINT PRIMARY KEY, ts TIMESTAMP, k INT, WATERMARK FOR ts AS ts WITH TTL)"
    )
    queries = {
        "one": VIEWS["near"].replace("JOIN u", "JOIN plain u"),
        "other": VIEWS["near"].replace("JOIN u", "JOIN changes u"),
        "lesser": "SELECT t.id, u.id AS o FROM t LEFT JOIN u ON t.k = u.k AND t.ts <= u.ts",
    }
    for name, query in queries.items():
        lake.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}", build=False)
        assert states(lake, name) == []
    cut = VIEWS["near"].replace("t.id,", "t.id, t.k,")
    lake.sql(f"CREATE MATERIALIZED VIEW cut WITH (partition_by = 'k') AS {cut}", build=False)
    assert states(lake, "cut") == []


def test_a_join_that_lost_its_history_fails_and_keeps_its_rows(lake: Session) -> None:
    _tables(lake)
    lake.sql(f"CREATE MATERIALIZED VIEW near AS {VIEWS['near']}")
    _insert(lake, "t", (1, "12:00"))
    _insert(lake, "u", (1, "12:10"))
    lake.sql("FLUSH")
    lake.pause("near")
    lake.store.alter_table("t", retention_seconds=0.001)
    _insert(lake, "t", (2, "12:20"))
    lake.flush()
    lake.store.compact("t")
    lake.store.gc(grace_seconds=0)
    lake.resume("near")
    with pytest.raises(EpochFailed, match="rows of a join as long as the other side may meet them"):
        lake.flush().raise_for_errors()
    assert _pairs(lake, "near") == [(1, 1)]


def test_a_side_that_lets_go_too_early_is_told(lake: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered_joins.PairLimit, "below", lambda limit, other: other)  # without the distance
    for name in ("t", "u"):
        lake.sql(
            f"CREATE TABLE {name} (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '30' MINUTE) APPEND ONLY"
        )
    lake.sql(f"CREATE MATERIALIZED VIEW v AS SELECT t.id, u.id AS o FROM t JOIN u ON {NEAR}", build=False)
    lake.sql("INSERT INTO t VALUES (1, TIMESTAMP '2024-03-01 13:20:00')")
    lake.sql("INSERT INTO u VALUES (1, TIMESTAMP '2024-03-01 14:00:00')")
    lake.flush().raise_for_errors()
    lake.sql("INSERT INTO u VALUES (2, TIMESTAMP '2024-03-01 13:35:00')")
    with pytest.raises(EpochFailed, match='the assumption "let go" is false'):
        lake.flush().raise_for_errors()
