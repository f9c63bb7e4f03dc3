"""Sessions whose clock tests move, random changes of tables with times, and DuckDB as the judge with now() as a literal."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from engine.hummock.epoch import epoch_at, micros_of
from engine.session import Session
from engine.testing.manual_clock import ManualClock
from tests.oracle.batch import assert_equal, by_duckdb, content

START = datetime(2022, 1, 31, 12, tzinfo=UTC)
VIEWS = {
    "newest": "SELECT id, k, ts FROM ev WHERE ts > now() - INTERVAL '1 hour'",
    "not_yet": "SELECT id FROM ev WHERE ts >= now()",
    "passed": "SELECT id, k FROM ev WHERE now() > ts + INTERVAL '30 minutes'",
    "around": "SELECT id FROM ev WHERE ts BETWEEN now() - INTERVAL '1 hour' AND now() + INTERVAL '90 minutes'",
    "week": "SELECT id FROM ev WHERE date_trunc('day', ts) >= date_trunc('day', now()) - INTERVAL '7 days' AND k < 3",
    "grouped": "SELECT k, count(*) AS n, max(ts) AS last, sum(id) AS total FROM ev WHERE ts > now() - INTERVAL '1 hour' GROUP BY k",
    "busy": "SELECT k, max(ts) AS last FROM ev GROUP BY k HAVING max(ts) > now() - INTERVAL '2 hours'",
    "joined": "SELECT e.id, d.id AS dim FROM ev e JOIN dim d ON d.k = e.k WHERE e.ts > now() - INTERVAL '1 hour' AND d.ts <= now()",
    "left_joined": "SELECT e.id, d.id AS dim FROM ev e LEFT JOIN dim d ON d.k = e.k AND d.ts > now() - INTERVAL '1 day'",
    "either": "SELECT e.id, d.id AS dim FROM ev e JOIN dim d ON d.k = e.k AND now() < e.ts + (d.ts - e.ts)",
    "alone": "SELECT e.id FROM ev e WHERE NOT EXISTS (SELECT 1 FROM dim d WHERE d.k = e.k AND d.ts > now())",
    "ranked": (
        "SELECT id, r FROM (SELECT id, k, row_number() OVER (PARTITION BY k ORDER BY id) AS r FROM ev "
        "WHERE ts > now() - INTERVAL '1 hour') AS x WHERE r <= 2"
    ),
}
"""PostgreSQL's texts, which DuckDB reads as well."""


@contextmanager
def moving(
    folder: Path, spark: SparkSession | None, dialect: str = "postgres"
) -> Iterator[tuple[Session, ManualClock]]:
    """A session over an empty store, and the clock that it goes by."""
    clock = ManualClock(start=START.timestamp())
    with Session((folder / "store").as_uri(), spark, dialect, clock=clock) as session:  # type: ignore[arg-type]
        yield session, clock


def create_tables(session: Session) -> None:
    """Create the two tables of the views."""
    for name in ("ev", "dim"):
        session.sql(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, k BIGINT, ts TIMESTAMP)")


def moment(clock: ManualClock) -> datetime:
    """What the clock shows, as an epoch has it: a part of a millisecond, which fractions of seconds leave, is cut off."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros_of(epoch_at(clock())))


def events(ids: list[int], chance: random.Random, clock: ManualClock) -> pa.Table:
    """Rows with these ids, with times around the present: few different ones, so that rows cross bounds together, and nulls."""
    near = [timedelta(minutes=30 * n) for n in range(-6, 7)]
    far = [timedelta(days=n, milliseconds=1) for n in (-400, -8, -7, -1, 1, 8, 400)]
    now = moment(clock).replace(tzinfo=None)
    times = [None if chance.random() < 0.1 else now + chance.choice([*near, *far]) for _ in ids]
    kinds = [None if chance.random() < 0.1 else chance.randrange(4) for _ in ids]
    schema = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("ts", pa.timestamp("us"))])
    return pa.table({"id": ids, "k": kinds, "ts": times}, schema=schema)


def random_step(session: Session, chance: random.Random, clock: ManualClock) -> None:
    """Move the clock, or not, and write and delete some rows, or none."""
    for name in ("ev", "dim"):
        if chance.random() < 0.6:
            ids = chance.sample(range(20), chance.randrange(1, 5))
            session.write(name, events(ids, chance, clock))
        if chance.random() < 0.3:
            ids = chance.sample(range(20), 2)
            session.write(name, pa.table({"id": pa.array(ids, pa.int64())}), mode="delete")
    steps = [0, 0.001, 60, 1800, 1800, 3599.999, 3600, 7200, 86_400, 8 * 86_400, 3 * 365 * 86_400]
    weights = [3, 2, 2, 4, 4, 1, 2, 2, 2, 1, 0.2]
    clock.sleep(chance.choices(steps, weights)[0])


def at(query: str, now: datetime) -> str:
    """Return a query with the moment as a literal."""
    shown = now.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
    return query.replace("now()", f"TIMESTAMP '{shown}'").replace("current_date", f"DATE '{now.date()}'")


def assert_views(session: Session, clock: ManualClock, views: dict[str, str], label: str) -> None:
    """Compare views with DuckDB's answers at the present."""
    tables = {name: content(session, name) for name in ("ev", "dim")}
    for name, query in views.items():
        expected = by_duckdb(tables, at(query, moment(clock)))
        assert_equal(content(session, name), expected, f"{label}, at {moment(clock)}, view {name}")
