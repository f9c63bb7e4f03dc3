"""Views over tables WITH TTL hold every row that came and was not taken back while it was there, however old it is by now."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.connectors.sources import poll_all
from engine.errors import EpochFailed, InvalidRow, SqlError
from engine.hummock import Commit
from engine.session import Session
from tests.oracle.batch import assert_equal, by_duckdb, content
from tests.runtime.watermarks.worlds import DELAY, SCHEMA, VIEWS, World

ALWAYS = {
    "grouped": "SELECT k, count(*) AS c, sum(n) AS s, max(n) AS m FROM t GROUP BY k",
    "met": "SELECT t.id, t.ts, u.id AS other FROM t LEFT JOIN u ON t.k = u.k AND t.n = u.n",
    "lowest": "SELECT id, ts, n FROM t ORDER BY n NULLS LAST, id, ts NULLS LAST LIMIT 3",
}
"""Views that follow every change; DuckDB reads their texts as well."""
SHORT = ("hourly", "first_")
LONG = [pytest.param(seed, 30, tuple(VIEWS), marks=pytest.mark.oracle) for seed in range(2, 5)]
KEYED = "CREATE TABLE t (k INT PRIMARY KEY, ts INT, v TEXT, WATERMARK FOR ts AS ts - 10 WITH TTL)"


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> Iterator[Session]:
    with Session((tmp_path / "store").as_uri(), spark, "risingwave") as opened:
        yield opened


Row = dict[str, Any]


@dataclass
class Changing(World):
    """Tables with a key whose rows change: `there` are those that can be changed, `came` what views hold."""

    there: dict[str, dict[int, Row]] = field(default_factory=lambda: {"t": {}, "u": {}})
    came: dict[str, dict[tuple[int, datetime | None], Row]] = field(
        default_factory=lambda: {"t": {}, "u": {}}
    )

    def create(self) -> None:
        """Create the tables."""
        for name in ("t", "u"):
            self.session.sql(
                f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, ts TIMESTAMP, k INT, n BIGINT, "
                "WATERMARK FOR ts AS ts - INTERVAL '30 minutes' WITH TTL)"
            )

    def step(self) -> None:
        """Let time pass, and write rows of few keys, or take some back."""
        self.now += timedelta(minutes=self.chance.choice([0, 5, 20, 45, 60]))
        for name in ("t", "u"):
            if self.chance.random() < 0.7:
                ids = self.chance.sample(range(8), self.chance.randrange(1, 5))
                self.write(name, [self._row() | {"id": n} for n in ids])
            if self.chance.random() < 0.3:
                ids = self.chance.sample(range(8), 2)
                self.session.write(name, pa.table({"id": pa.array(ids, pa.int64())}), mode="delete")
                for n in ids:
                    self._leaves(name, n)

    def write(self, name: str, given: list[Row]) -> None:
        """Upsert rows by SQL or as they are."""
        self.session.write(name, pa.Table.from_pylist(given, SCHEMA), mode="upsert")
        before = self.watermarks[name]
        for row in given:
            self._leaves(name, row["id"])
            if before is not None and row["ts"] is not None and row["ts"] < before:
                self.late[name] += 1
                continue
            self.there[name][row["id"]] = self.came[name][(row["id"], row["ts"])] = row
            if row["ts"] is not None:
                at = self.watermarks[name]
                self.watermarks[name] = row["ts"] - DELAY if at is None else max(at, row["ts"] - DELAY)
        at = self.watermarks[name]
        there = self.there[name].items()
        self.there[name] = {n: r for n, r in there if at is None or r["ts"] is None or r["ts"] >= at}

    def _leaves(self, name: str, n: int) -> None:
        row = self.there[name].pop(n, None)
        if row is not None:
            del self.came[name][(n, row["ts"])]

    def tables(self) -> dict[str, pa.Table]:
        """Return what views hold."""
        return {name: pa.Table.from_pylist(list(rows.values()), SCHEMA) for name, rows in self.came.items()}

    def check(self, names: tuple[str, ...], label: str) -> None:
        """Compare tables, counts of late rows and views with what is expected."""
        for name in ("t", "u"):
            there = pa.Table.from_pylist(list(self.there[name].values()), SCHEMA)
            assert_equal(content(self.session, name), there, f"{label}, table {name}")
            rows = content(self.session, f"_watermark_{name}").to_pylist()
            assert sum(row["late_rows"] for row in rows) == self.late[name], label
        for name in names:
            assert_equal(content(self.session, name), self.expected(VIEWS[name][1]), f"{label}, view {name}")
        for name, query in ALWAYS.items():
            assert_equal(
                content(self.session, name), by_duckdb(self.tables(), query), f"{label}, view {name}"
            )


@pytest.mark.parametrize(("seed", "steps", "names"), [(1, 3, SHORT), *LONG])
def test_views_hold_what_came_after_random_changes(
    lake: Session, seed: int, steps: int, names: tuple[str, ...]
) -> None:
    world = Changing(lake, random.Random(seed))
    world.create()
    for name in names:
        query = VIEWS[name][0]
        lake.sql(f"CREATE MATERIALIZED VIEW {name} AS {query} EMIT ON WINDOW CLOSE", build=False)
    for name, query in ALWAYS.items():
        lake.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}", build=False)
    lake.flush().raise_for_errors()  # a view begins with what is there: what leaves before is not in it
    for step in range(steps):
        world.step()
        if world.chance.random() < 0.6 or step == steps - 1:
            lake.flush().raise_for_errors()
            world.check(names, f"seed {seed}, step {step}")


def rows(session: Session, query: str) -> list[tuple[Any, ...]]:
    found = session.sql(query)
    assert found is not None
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)


def test_a_changelog_says_that_a_row_whose_time_changes_goes_and_comes(lake: Session) -> None:
    lake.sql(KEYED)
    lake.sql(
        "CREATE MATERIALIZED VIEW c AS WITH x AS CHANGELOG FROM t SELECT k, ts, v, changelog_op, _changelog_row_id AS at FROM x"
    )
    for text in (
        "(3, 16, 'a')",
        "(3, 16, 'b')",
        "(3, 15, 'b')",
        "(3, 5, 'late')",
        "(1, 30, 'x')",
        "(3, 22, 'new')",
    ):
        lake.sql(f"INSERT INTO t VALUES {text}")
        lake.sql("FLUSH")
    lake.sql("DELETE FROM t WHERE k = 1")
    lake.sql("FLUSH")
    answer = lake.sql("SELECT k, ts, v, changelog_op FROM c ORDER BY at")
    assert answer is not None
    assert [tuple(row.values()) for row in answer.to_pylist()] == [
        (3, 16, "a", 1),
        (3, 16, "a", 4),
        (3, 16, "b", 3),
        (3, 16, "b", 2),
        (3, 15, "b", 1),
        (3, 15, "b", 2),
        (1, 30, "x", 1),
        (3, 22, "new", 1),
        (1, 30, "x", 2),
    ]


def test_a_view_that_is_made_later_begins_with_what_is_there(lake: Session) -> None:
    lake.sql(KEYED)
    lake.sql("INSERT INTO t VALUES (1, 5, 'a'), (2, 20, 'b')")
    lake.sql("CREATE MATERIALIZED VIEW v AS SELECT k, ts FROM t")
    assert rows(lake, "SELECT * FROM v") == [(2, 20)]
    lake.sql("INSERT INTO t VALUES (1, 50, 'a')")
    lake.sql("FLUSH")
    assert rows(lake, "SELECT * FROM v") == [(1, 50), (2, 20)]
    assert rows(lake, "SELECT k FROM t") == [(1,)]


def test_on_conflict_do_update_may_move_the_time(lake: Session) -> None:
    lake.sql(KEYED)
    lake.sql("INSERT INTO t VALUES (1, 20, 'a'), (2, 21, 'b')")
    update = "ON CONFLICT (k) DO UPDATE SET ts = excluded.ts + 1, v = 'merged'"
    lake.sql(f"INSERT INTO t VALUES (1, 30, 'x') {update}")
    assert rows(lake, "SELECT k, ts, v FROM t") == [(1, 31, "merged"), (2, 21, "b")]


def test_an_index_lets_go_of_what_has_left_and_reads_find_what_is_there(lake: Session) -> None:
    lake.sql(KEYED)
    lake.sql("CREATE INDEX by_v ON t (v)")
    lake.sql("INSERT INTO t VALUES (1, 5, 'a'), (2, 20, 'b')")
    lake.sql("FLUSH")
    lake.sql("INSERT INTO t VALUES (3, 60, 'c')")
    lake.sql("FLUSH")
    assert rows(lake, "SELECT k FROM t WHERE v = 'b'") == rows(lake, "SELECT k FROM by_v WHERE v = 'b'") == []
    assert (
        rows(lake, "SELECT k FROM t WHERE v = 'c'")
        == rows(lake, "SELECT k FROM by_v WHERE v = 'c'")
        == [(3,)]
    )
    (index,) = [name for name in lake.store.refresh().tables if name.startswith("_index_t")]
    lake.store.compact(index)
    assert sum(sst.rows for sst in lake.store.refresh().tables[index].live_ssts) == 1


def test_a_view_that_lost_its_history_fails_and_keeps_its_rows(lake: Session) -> None:
    lake.sql(KEYED)
    lake.sql("CREATE MATERIALIZED VIEW v AS SELECT k, ts FROM t")
    lake.sql("INSERT INTO t VALUES (1, 5, 'a'), (2, 20, 'b')")
    lake.sql("FLUSH")
    lake.pause("v")
    lake.store.alter_table("t", retention_seconds=0.001)
    lake.sql("INSERT INTO t VALUES (3, 60, 'c')")
    lake.flush()
    lake.store.compact("t")
    lake.store.gc(grace_seconds=0)
    lake.resume("v")
    with pytest.raises(EpochFailed, match="have left a table or a state by themselves"):
        lake.flush().raise_for_errors()
    assert rows(lake, "SELECT * FROM v") == [(1, 5), (2, 20)]


def test_an_index_that_lags_behind_the_history_of_the_watermark_is_brought_on(lake: Session) -> None:
    lake.sql(KEYED)
    lake.sql("CREATE INDEX by_v ON t (v)")
    lake.sql("INSERT INTO t VALUES (1, 5, 'a')")
    lake.sql("FLUSH")
    lake.sql("INSERT INTO t VALUES (2, 20, 'b')")
    plan = lake.store.refresh()
    lake.store.alter_table("_watermark_t", retention_seconds=0.001)
    lake.store.commit(Commit(writes={"_watermark_t": plan.tables["_watermark_t"].log[-1].ssts}))
    lake.store.compact("_watermark_t")
    lake.store.gc(grace_seconds=0)
    lake.flush().raise_for_errors()
    assert rows(lake, "SELECT k FROM by_v WHERE v = 'b'") == [(2,)]


def test_statements_of_many_rows_keep_to_the_watermark_or_say_that_they_are_too_large(
    lake: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELINE_DRIVER_ROWS_MB", "0")
    lake.sql("CREATE TABLE s (id INT PRIMARY KEY)")
    lake.sql("INSERT INTO s VALUES (1), (2), (3), (4)")
    lake.sql("CREATE TABLE bag (k INT, ts INT, WATERMARK FOR ts AS ts - 10 WITH TTL)")
    lake.sql("INSERT INTO bag VALUES (0, 30)")
    lake.sql("INSERT INTO bag SELECT id, id * 10 FROM s")  # 10 is late; the watermark moves to 30
    assert rows(lake, "SELECT k, ts FROM bag") == [(0, 30), (3, 30), (4, 40)]
    lake.sql("UPDATE bag SET k = k + 10 WHERE ts >= 30")
    lake.sql("DELETE FROM bag WHERE ts = 40")
    assert rows(lake, "SELECT k, ts FROM bag") == [(10, 30), (13, 30)]
    lake.sql(KEYED)
    with pytest.raises(InvalidRow, match="do it in parts"):
        lake.sql("INSERT INTO t SELECT id, id * 10, 'x' FROM s")
    with pytest.raises(InvalidRow, match="do it in parts"):
        lake.sql("UPDATE bag SET ts = ts + 1 WHERE ts > 0")
    assert rows(lake, "SELECT k, ts FROM bag") == [(10, 30), (13, 30)]


def test_a_sink_into_such_a_table_with_a_key_is_refused(lake: Session) -> None:
    lake.sql(KEYED)
    lake.sql("CREATE TABLE s (k INT PRIMARY KEY, ts INT, v TEXT)")
    lake.sql("CREATE MATERIALIZED VIEW m AS SELECT k, ts, v FROM s")
    with pytest.raises(SqlError, match="WITH TTL") as caught:
        lake.sql("CREATE SINK x INTO t FROM m WITH (type = 'upsert')")
    assert caught.value.line == 1 and caught.value.hint


def test_files_feed_such_a_table_if_each_row_comes_once(lake: Session, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    lake.sql(
        "CREATE TABLE f (k INT, ts INT, WATERMARK FOR ts AS ts - 10 WITH TTL) APPEND ONLY "
        f"WITH (connector = 'landing', path = '{folder}')"
    )
    (folder / "a.csv").write_text("k,ts\n1,5\n2,20\n3,\n")
    poll_all(lake.catalog, lake.store)
    (folder / "b.csv").write_text("k,ts\n4,9\n5,35\n")
    poll_all(lake.catalog, lake.store)
    assert rows(lake, "SELECT k, ts FROM f") == [(3, None), (5, 35)]
    assert rows(lake, "SHOW WATERMARKS")[0][2:4] == ("25", 1)


def test_partitions_that_would_be_computed_again_from_what_is_there_are_refused(lake: Session) -> None:
    lake.sql(KEYED)
    with pytest.raises(SqlError, match="nothing could compute again") as caught:
        lake.sql("CREATE MATERIALIZED VIEW v WITH (partition_by = 'v') AS SELECT k, ts, v FROM t")
    assert caught.value.hint
