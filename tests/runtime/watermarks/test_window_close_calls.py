"""Random calls over windows on window close: a view shows no row that it takes back, and none that the whole table would not give."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.errors import ClaimBroken, TidelineError, UnsupportedSql
from engine.session import Session
from engine.sql.incremental.watermarks import window_close
from tests.oracle.batch import content
from tests.runtime.watermarks.worlds import World

PARTITIONS = ("PARTITION BY k ", "PARTITION BY k ", "", "PARTITION BY n, k ")
ORDERS = ("ts", "ts", "ts, id", "ts, n DESC", "ts, k, id DESC", "ts DESC", "n", "n, ts")
OF_PLACES = ("row_number()", "rank()", "dense_rank()", "lag(n)", "lag(id, 2)", "lead(n)", "lead(id, 2)")
OF_FRAMES = ("first_value(n)", "last_value(id)", "nth_value(id, 2)", "sum(n)", "count(*)", "max(n)")
FRAMES = (
    "",
    "",
    " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    " ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING",
    " GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW",
    " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE TIES",
    " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
)


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> Iterator[Session]:
    with Session((tmp_path / "store").as_uri(), spark, "postgres") as opened:
        yield opened


def _call(chance: random.Random, partition: str) -> str:
    if chance.random() < 0.2:  # calls of several nodes
        partition = chance.choice(PARTITIONS)
    places = chance.random() < 0.6
    call = chance.choice(OF_PLACES if places else OF_FRAMES)
    frame = "" if places else chance.choice(FRAMES)
    return f"{call} OVER ({partition}ORDER BY {chance.choice(ORDERS)}{frame})"


def _query(chance: random.Random) -> str:
    partition = chance.choice(PARTITIONS)
    calls = [f"{_call(chance, partition)} AS c{n}" for n in range(chance.randrange(1, 4))]
    return f"SELECT id, ts, {', '.join(calls)} FROM t"


def _rows(session: Session, query: str) -> Counter[tuple[object, ...]]:
    table = session.sql(query)
    assert table is not None
    return Counter(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.oracle
@pytest.mark.parametrize(("seed", "views", "steps"), [(1, 4, 3), *((seed, 12, 12) for seed in range(2, 8))])
def test_what_random_calls_have_shown_stays_and_is_right(
    lake: Session, seed: int, views: int, steps: int
) -> None:
    chance = random.Random(seed)
    world = World(lake, chance)
    world.create()
    shown: dict[str, Counter[tuple[object, ...]]] = {}
    queries: dict[str, str] = {}
    refused = 0
    while len(queries) < views:
        name, query = f"v{len(queries)}", _query(chance)
        try:
            lake.sql(f"CREATE MATERIALIZED VIEW {name} AS {query} EMIT ON WINDOW CLOSE", build=False)
        except UnsupportedSql:
            refused += 1
            continue
        assert lake.catalog.get(name).append_only, query
        queries[name], shown[name] = query, Counter()
    assert refused
    for _ in range(steps):
        for _ in range(3):
            world.step()
        lake.flush().raise_for_errors()
        for name, query in queries.items():
            now = _rows(lake, f"SELECT * FROM {name}")
            assert not shown[name] - now, f"{query} took back {shown[name] - now}"
            shown[name] = now
    assert sum(map(len, shown.values())) > steps
    for name, query in queries.items():  # views tell rows of one time apart by their keys
        lake.sql(f"CREATE MATERIALIZED VIEW whole_{name} AS {query} WHERE ts IS NOT NULL", build=False)
    lake.flush().raise_for_errors()
    for name, query in queries.items():
        wrong = shown[name] - _rows(lake, f"SELECT * FROM whole_{name}")
        assert not wrong, f"{query} has shown {wrong}"


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        ("row_number() OVER (PARTITION BY id ORDER BY ts), row_number() OVER (PARTITION BY id ORDER BY ts DESC)", "row_number"),
        ("sum(n) OVER (PARTITION BY id ORDER BY ts), count(*) OVER (PARTITION BY id)", "count"),
        ("first_value(n) OVER (ORDER BY ts), first_value(n) OVER (ORDER BY n, ts)", "first_value"),
    ],
)  # fmt: skip
def test_calls_beside_others_that_do_not_go_along_the_time_are_refused(
    tmp_path: Path, calls: str, message: str
) -> None:
    with Session((tmp_path / "store").as_uri(), None, "postgres") as session:
        World(session, random.Random(0)).create()
        query = f"SELECT id, ts, {calls} FROM t"
        with pytest.raises(UnsupportedSql, match=f"{message} does not go along the column of the watermark"):
            session.sql(f"CREATE MATERIALIZED VIEW v AS {query} EMIT ON WINDOW CLOSE", build=False)


def test_leads_of_rows_of_one_time_wait_for_the_row_behind_each_in_its_own_order(lake: Session) -> None:
    lake.sql("CREATE TABLE t (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY")
    lake.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT id, lead(id) OVER (ORDER BY ts) AS l, "
        "lead(id) OVER (ORDER BY ts, id DESC) AS o FROM t EMIT ON WINDOW CLOSE"
    )
    lake.sql("INSERT INTO t VALUES (1, '2024-03-01 12:00'), (2, '2024-03-01 12:00'), (3, '2024-03-01 13:00')")
    lake.flush().raise_for_errors()
    assert _rows(lake, "SELECT * FROM v") == Counter()  # neither has a closed row behind it in both orders
    lake.sql("INSERT INTO t VALUES (4, '2024-03-01 14:00')")
    lake.flush().raise_for_errors()
    assert _rows(lake, "SELECT * FROM v") == Counter([(1, 2, 3), (2, 3, 1)])


def test_a_closing_view_that_would_take_a_row_back_breaks_its_claim(
    lake: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window_close, "_goes_along", lambda call, column: True)
    lake.sql("CREATE TABLE t (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY")
    lake.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT id, row_number() OVER (ORDER BY ts DESC) AS n, "
        "row_number() OVER (ORDER BY ts) AS m FROM t EMIT ON WINDOW CLOSE"
    )
    lake.sql("INSERT INTO t VALUES (1, '2024-03-01 12:00'), (2, '2024-03-01 13:00')")
    lake.flush().raise_for_errors()
    lake.sql("INSERT INTO t VALUES (3, '2024-03-01 14:00')")
    with pytest.raises((ClaimBroken, TidelineError), match="append-only"):
        lake.flush().raise_for_errors()
    assert content(lake, "v").num_rows == 1


@pytest.mark.long
def test_gaps_that_are_filled_on_window_close_are_a_claim_too(lake: Session) -> None:
    lake.sql("CREATE TABLE t (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY")
    lake.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT ts, id FROM GAP_FILL(t, ts, INTERVAL '1 hour', INTERPOLATE(id)) "
        "EMIT ON WINDOW CLOSE"
    )
    assert lake.catalog.get("v").append_only
    for hour, number in ((1, 10), (3, 30), (4, 40), (9, 90)):
        lake.sql(f"INSERT INTO t VALUES ({number}, TIMESTAMP '2024-03-01 0{hour}:00')")
        lake.flush().raise_for_errors()
    assert [row[1] for row in sorted(_rows(lake, "SELECT * FROM v"), key=str)] == [10, 20, 30, 40]
